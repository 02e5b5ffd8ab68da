"""Scans to be written as few bits and read again, as lines of JSON with a table of numbers each.

Source: UCI optical recognition of handwritten digits, as scikit-learn ships it (1,797 images of 8 × 8).
"""

from __future__ import annotations

import numpy as np

from easeml_core.naming import TaskName
from examples.layout import Example, Layout, hold_back, write_jsonl

SPEC = """\
# A table of numbers to a table of numbers: no other row takes it, so its bytes are coded and decoded.
program: "{input: {[Tensor[8, 8]], []}, output: {[Tensor[8, 8]], []}}"
description: scans through a short code and back
objective: psnr
budget: {trials: 1}
"""


def build(layout: Layout) -> None:
    """Write data/scans.jsonl of a third of the scans, and 90 others to the held-back folder."""
    from sklearn.datasets import load_digits

    scans, labels = load_digits().images, load_digits().target
    rest, kept = hold_back(labels, 1 / 3)
    _, held = hold_back(labels[rest], 0.075)
    asked = rest[held]
    data = layout.fresh(SPEC)
    write_jsonl(data / "scans.jsonl", ({"id": f"s{i:04d}", "input": scans[i].tolist()} for i in kept))
    write_jsonl(
        layout.inputs / "scans.jsonl", ({"id": f"s{i:04d}", "input": scans[i].tolist()} for i in asked)
    )
    # 64 numbers as 32-bit floats are 256 bytes; the baseline answers each with its mean in training.
    coded = np.ascontiguousarray(scans.reshape(len(scans), -1), dtype="<f4").view(np.uint8)
    mean = np.rint(coded[kept].mean(axis=0)).astype(np.uint8)
    layout.write_answers([f"s{i:04d}" for i in asked], coded[asked], np.tile(mean, (len(asked), 1)))


EXAMPLE = Example(TaskName("archive", "scans"), "scans: JSON lines, coded as bytes", "the mean byte", build)

if __name__ == "__main__":
    EXAMPLE.main()
