"""Specs and files that tests of data are made of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from easeml_core.language import match, parse
from easeml_core.naming import TaskName
from easeml_core.spec import Spec, load_spec

NAME = TaskName("clinic", "tumours")


def program(inputs: str, outputs: str) -> str:
    return f"program: '{{input: {{{inputs}}}, output: {{{outputs}}}}}'\n"


def spec_of(inputs: str, outputs: str, objective: str | None = None) -> Spec:
    """A spec of any row, whether or not its models can be trained yet."""
    asked = parse(f"{{input: {{{inputs}}}, output: {{{outputs}}}}}")
    found = match(asked, objective)
    return replace(
        load_spec(vector(2, 2)),
        program=asked,
        match=found,
        objective=objective or found.template.objectives[0],
    )


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
