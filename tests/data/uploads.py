"""Specs and files that tests of data are made of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from easeml_core.naming import TaskName

NAME = TaskName("clinic", "tumours")


def program(inputs: str, outputs: str) -> str:
    return f"program: '{{input: {{{inputs}}}, output: {{{outputs}}}}}'\n"


def image(h: int, w: int, c: int, k: int) -> str:
    return program(f"[Tensor[{h}, {w}, {c}]], []", f"[Tensor[{k}]], []")


def vector(d: int, k: int) -> str:
    return program(f"[Tensor[{d}]], []", f"[Tensor[{k}]], []")


def series(d: int, k: int) -> str:
    return program(f"[Tensor[{d}]], [next]", f"[Tensor[{k}]], []")


def save_images(folder: Path, label: str, count: int, *, seed: int = 0, size: int = 8) -> None:
    """`count` grey PNGs with random content in a class folder."""
    random = np.random.default_rng([seed, *label.encode()])
    (folder / "data" / label).mkdir(parents=True, exist_ok=True)
    for i in range(count):
        pixels = random.integers(0, 255, (size, size), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / "data" / label / f"{seed}-{i}.png")
