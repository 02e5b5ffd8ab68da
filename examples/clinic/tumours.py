"""Breast tumours, benign or malignant, from 30 measurements each, as a CSV file with a label column.

Source: Wisconsin diagnostic breast cancer, as scikit-learn ships it (569 cases).
"""

from __future__ import annotations

from easeml_core.naming import TaskName
from examples.layout import Example, Layout, hold_back, write_csv

SPEC = """\
# A flat vector of 30 numbers to one of two classes.
program: "{input: {[Tensor[30]], []}, output: {[Tensor[2]], []}}"
description: benign or malignant, from measurements of cell nuclei
# One class is rarer than the other: count both alike.
objective: balanced_accuracy
budget: {trials: 4, device_hours: 1}
validation: {fraction: 0.25, seed: 7}
"""


def build(layout: Layout) -> None:
    """Write data/cases.csv, and one case in five, without its label, to the held-back folder."""
    from sklearn.datasets import load_breast_cancer

    cases = load_breast_cancer()
    columns = [name.replace(" ", "_") for name in cases.feature_names]
    names = [f"case-{number:03d}" for number in range(len(cases.target))]
    labels = [str(cases.target_names[target]) for target in cases.target]
    kept, held = hold_back(cases.target, 0.2)
    data = layout.fresh(SPEC)
    write_csv(
        data / "cases.csv",
        ("id", *columns, "label"),
        ((names[i], *cases.data[i].tolist(), labels[i]) for i in kept),
    )
    write_csv(
        layout.inputs / "cases.csv", ("id", *columns), ((names[i], *cases.data[i].tolist()) for i in held)
    )
    layout.write_labels((names[i], labels[i]) for i in held)


EXAMPLE = Example(
    TaskName("clinic", "tumours"), "tumour cases: CSV with a label column", "the most frequent class", build
)

if __name__ == "__main__":
    EXAMPLE.main()
