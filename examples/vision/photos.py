"""Noise to be taken out of photographs, as two folders of PNG files, noisy and clean, named alike.

Source: the two photographs that scikit-learn ships (a temple, a flower), cut into patches of 16 × 16 pixels.
The right quarter of both is held back.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from easeml_core.naming import TaskName
from examples.layout import SEED, Example, Layout, png

SPEC = """\
# A colour image to a colour image: to be recovered.
program: "{input: {[Tensor[16, 16, 3]], []}, output: {[Tensor[16, 16, 3]], []}}"
description: photographs without the noise of the camera
objective: psnr
budget: {trials: 3}
"""

_SIDE = 16
_NOISE = 25.0  # standard deviation, of a range of 0 to 255
_COUNT, _HELD = 300, 100


def _patches(count: int, part: slice, random: np.random.Generator) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """`(count, 16, 16, 3)`: patches of part of the columns of both photographs, alternating."""
    from sklearn.datasets import load_sample_image

    photos = [load_sample_image(name)[:, part] for name in ("china.jpg", "flower.jpg")]
    found = []
    for number in range(count):
        photo = photos[number % 2]
        y, x = random.integers(0, np.array(photo.shape[:2]) - _SIDE)
        found.append(photo[y : y + _SIDE, x : x + _SIDE])
    return np.stack(found)


def build(layout: Layout) -> None:
    """Write data/inputs/<number>.png and data/targets/<number>.png; of the held-back ones, the noisy side."""
    random = np.random.default_rng(SEED)
    clean = np.concatenate(
        [_patches(_COUNT, slice(0, 480), random), _patches(_HELD, slice(480, None), random)]
    )
    noisy = np.rint(np.clip(clean + random.normal(0, _NOISE, clean.shape), 0, 255)).astype(np.uint8)
    data = layout.fresh(SPEC)
    for side, images in (("inputs", noisy), ("targets", clean)):
        (data / side).mkdir()
        for number in range(_COUNT):
            (data / side / f"{number:03d}.png").write_bytes(png(images[number]))
    names = [f"{number:03d}.png" for number in range(_COUNT, _COUNT + _HELD)]
    for name, image in zip(names, noisy[_COUNT:], strict=True):
        (layout.inputs / name).write_bytes(png(image))
    layout.write_answers(names, clean[_COUNT:], noisy[_COUNT:])


EXAMPLE = Example(TaskName("vision", "photos"), "noisy photographs: pairs of PNGs", "the noisy image", build)

if __name__ == "__main__":
    EXAMPLE.main()
