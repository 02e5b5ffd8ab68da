"""Handwritten digits, 8 × 8 pixels, as one folder of PNG files per class.

Source: UCI optical recognition of handwritten digits, as scikit-learn ships it (1,797 images).
"""

from __future__ import annotations

from easeml_core.naming import TaskName
from examples.layout import Example, Layout, hold_back, png

SPEC = """\
# What the model maps: an image of 8 x 8 pixels, one channel, to one of ten classes.
program: "{input: {[Tensor[8, 8, 1]], []}, output: {[Tensor[10]], []}}"
description: handwritten digits of the archive, 8 x 8 pixels
# Three networks are enough for images this small; without this line every image model is a candidate.
candidates: {include: [SmallCNN, SqueezeNet, ResNet-18]}
# A hard cap, running work included; device_hours may be limited too.
budget: {trials: 3}
validation: {fraction: 0.2, seed: 7}
"""


def build(layout: Layout) -> None:
    """Write data/<digit>/<number>.png, and one image in ten to the held-back folder."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    # The pixels count inked points, 0 to 16; spread over a byte so that people can see them.
    images = (digits.images * 255 / 16).round().astype("uint8")
    kept, held = hold_back(digits.target, 0.1)
    data = layout.fresh(SPEC)
    for number in kept:
        folder = data / str(digits.target[number])
        folder.mkdir(exist_ok=True)
        (folder / f"{number:04d}.png").write_bytes(png(images[number]))
    for number in held:
        (layout.inputs / f"{number:04d}.png").write_bytes(png(images[number]))
    layout.write_labels((f"{number:04d}.png", digits.target[number]) for number in held)


EXAMPLE = Example(
    TaskName("vision", "digits"), "8 × 8 digits: folder of PNGs per class", "the most frequent class", build
)

if __name__ == "__main__":
    EXAMPLE.main()
