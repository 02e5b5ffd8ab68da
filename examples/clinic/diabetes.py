"""Progression of diabetes after a year, a number, from ten measurements, as an .npz file of two arrays.

Source: the diabetes data of Efron et al. (2004), as scikit-learn ships it (442 patients).
"""

from __future__ import annotations

import numpy as np

from easeml_core.naming import TaskName
from examples.layout import Example, Layout, hold_back

SPEC = """\
# A flat vector of ten numbers to one number: a regression.
program: "{input: {[Tensor[10]], []}, output: {[Tensor[1]], []}}"
description: progression of the disease one year after the first visit
objective: r2
budget: {trials: 4}
validation: {fraction: 0.25, seed: 7}
"""


def build(layout: Layout) -> None:
    """Write data/patients.npz (x of shape (N, 10), y of shape (N, 1)), and one patient in five apart."""
    from sklearn.datasets import load_diabetes

    patients = load_diabetes(scaled=False)
    x, y = patients.data.astype("float32"), patients.target.astype("float32")
    kept, held = hold_back(np.zeros(len(y)), 0.2)
    data = layout.fresh(SPEC)
    np.savez(data / "patients.npz", x=x[kept], y=y[kept, None])
    np.savez(layout.inputs / "patients.npz", x=x[held])
    layout.write_labels((f"patients.npz[{row}]", y[number]) for row, number in enumerate(held))


EXAMPLE = Example(
    TaskName("clinic", "diabetes"), "progression of a disease: NPZ, a regression", "the mean", build
)

if __name__ == "__main__":
    EXAMPLE.main()
