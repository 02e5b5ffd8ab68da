"""Pairs the images of two folders: what is given (`inputs`) and what is to be recovered (`targets`).

The two folders may lie anywhere, in an archive too, and may be archives themselves; a pair is two files with
the same place and stem below them: `inputs/day1/004.png` and `targets/day1/004.tif`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy.typing as npt

from easeml_core.data.archives import ENDS
from easeml_core.data.deep import Broken
from easeml_core.data.findings import Findings, listed
from easeml_core.data.forms import Example, Form, split_hint
from easeml_core.data.images import read_image
from easeml_core.data.limits import Limits
from easeml_core.data.tree import SourceFile
from easeml_core.data.units import Units

INPUTS = ("inputs", "input")
TARGETS = ("targets", "target", "outputs", "output")
Pair = tuple[SourceFile, SourceFile]


def read_pairs(
    images: Sequence[SourceFile], form: Form, units: Units, limits: Limits, findings: Findings
) -> Iterator[Example]:
    """The pairs among `images`, in order of their inputs, which name them. What is alone is a problem."""
    assert form.target_shape is not None

    def read(file: SourceFile, shape: tuple[int, ...]) -> npt.NDArray[Any] | None:
        try:
            return read_image(file.path, shape, units, limits.max_pixels, findings)
        except Broken as broken:
            findings.quarantine(f"data/{file.name}", str(broken))
            return None

    for given, wanted in pair(images, findings):
        value = read(given, form.shape)
        answer = None if value is None else read(wanted, form.target_shape)
        if value is not None and answer is not None:
            split = split_hint(*filter(str.isalpha, given.name.split("/")[:-1]))
            yield Example(given.name, f"data/{given.name}", value, answer=answer, split=split)


def pair(images: Sequence[SourceFile], findings: Findings) -> list[Pair]:
    """Inputs with their targets, in order of the inputs' names."""
    sides: dict[str, dict[str, SourceFile]] = {"inputs": {}, "targets": {}}
    lost: list[str] = []
    for file in images:
        side, key = _place(file)
        if side is None:
            lost.append(file.name)
        elif key in sides[side]:
            text = f"and {sides[side][key].name} are named alike"
            findings.problem(f"data/{file.name}", text, fix="keep one of the two")
        else:
            sides[side][key] = file
    inputs, targets = sides["inputs"], sides["targets"]
    _report(lost, "lies in neither of the folders `inputs` and `targets`", "move it", findings)
    alone = [file.name for key, file in inputs.items() if key not in targets]
    _report(alone, "has no partner of the same name in `targets`", "add it or remove this one", findings)
    alone = [file.name for key, file in targets.items() if key not in inputs]
    _report(alone, "has no partner of the same name in `inputs`", "add it or remove this one", findings)
    return [(file, targets[key]) for key, file in inputs.items() if key in targets]


def side_of(file: SourceFile) -> str | None:
    """ "inputs" or "targets", by the folder it lies in; None where it lies in neither."""
    return _place(file)[0]


def _place(file: SourceFile) -> tuple[str | None, str]:
    """The side that a file is on, and what it must share with its partner."""
    folders = [_unpacked(folder) for folder in file.name.split("/")[:-1]]
    named = [folder.lower() for folder in folders if folder.lower() in (*INPUTS, *TARGETS)]
    if not named:
        return None, ""
    side, names = ("inputs", INPUTS) if named[0] in INPUTS else ("targets", TARGETS)
    return side, "/".join([*(folder for folder in folders if folder.lower() not in names), file.stem])


def _unpacked(folder: str) -> str:
    """A folder's name, without the ending that it has as an archive."""
    ending = next((end for end in ENDS if folder.lower().endswith(end)), "")
    return folder[: len(folder) - len(ending)]


def _report(names: list[str], text: str, fix: str, findings: Findings) -> None:
    if names:
        more = f", nor do {len(names) - 1} others: {listed(names[1:])}" if len(names) > 1 else ""
        findings.problem(f"data/{names[0]}", text + more, fix=fix)
