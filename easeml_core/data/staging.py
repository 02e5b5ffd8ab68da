"""Takes examples one by one, checks them, and puts their values on disk; labels and ids stay in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from easeml_core.data.findings import Findings, source_of
from easeml_core.data.forms import Example, Form
from easeml_core.data.npy import NpyWriter
from easeml_core.data.spread import Spread

INPUTS = "inputs.npy"
VALUES = "values.npy"
OFFSETS = "offsets.npy"
CHILDREN = "children.npy"
TARGETS = "targets.npy"
TARGET_VALUES = "target_values.npy"
TARGET_OFFSETS = "target_offsets.npy"


@dataclass
class Staged:
    """All examples that could be used, in order. `hashes` are SHA-256 over shape, type and values of the
    inputs, `answer_hashes` of what is to be answered with; `lengths` are 1 for images and vectors."""

    ids: list[str] = field(default_factory=list)
    hashes: list[str] = field(default_factory=list)
    labels: list[str | None] = field(default_factory=list)
    targets: list[tuple[float, ...] | None] = field(default_factory=list)
    splits: list[str | None] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    answer_hashes: list[str] = field(default_factory=list)
    answer_lengths: list[int] = field(default_factory=list)
    spread: Spread = field(default_factory=Spread)
    answer_spread: Spread = field(default_factory=Spread)

    def __len__(self) -> int:
        return len(self.ids)


def stage(
    examples: Iterable[Example], form: Form, dtype: str, folder: Path, findings: Findings, *, answers: bool
) -> Staged:
    """Write the values of `examples` under `folder`, in the files that `version` lists.

    An example of a wrong shape or with a value that is not finite is quarantined; an id that comes twice
    is a problem. `answers`: whether what is to be answered with is there and is written too.
    """
    staged = Staged()
    seen: set[str] = set()
    with ExitStack() as stack:
        files = _Files(stack, form, dtype, folder, answers)
        for example in examples:
            value = _checked(example, example.value, form.shape, form, dtype, findings)
            if value is None:
                continue
            answer = None
            if answers:
                answer = _checked_answer(example, form, dtype, findings)
                if answer is None:
                    continue
            if example.target is not None and not finite(example.target):
                text = "the value to predict is too large for 32 bits; a finite number is needed"
                _reject(example, text, findings)
                continue
            if example.id in seen:
                text = f"the id {example.id!r} is given twice"
                findings.problem(example.file, text, fix="make the ids differ")
                continue
            seen.add(example.id)
            files.append(value, example.children, answer)
            staged.spread.add(value)
            staged.ids.append(example.id)
            staged.hashes.append(_hash(value, example.children))
            staged.labels.append(example.label)
            staged.targets.append(example.target)
            staged.splits.append(example.split)
            staged.lengths.append(len(value) if form.is_long else 1)
            if answer is not None:
                staged.answer_spread.add(answer)
                staged.answer_hashes.append(_hash(answer))
                staged.answer_lengths.append(len(answer) if form.is_long else 1)
    if form.is_long:
        _write_offsets(folder / OFFSETS, staged.lengths)
        if answers:
            _write_offsets(folder / TARGET_OFFSETS, staged.answer_lengths)
    return staged


class _Files:
    """The growing files of a version's values."""

    def __init__(self, stack: ExitStack, form: Form, dtype: str, folder: Path, answers: bool) -> None:
        def grow(name: str, dtype: str, row: tuple[int, ...]) -> NpyWriter:
            return stack.enter_context(NpyWriter(folder / name, dtype, row))

        self._long = form.is_long
        self._values = grow(VALUES if form.is_long else INPUTS, dtype, form.shape)
        self._children = self._answers = None
        if form.kind == "tree":
            self._children = grow(CHILDREN, "int64", (len(form.links),))
        if answers and form.target_shape is not None:
            self._answers = grow(TARGET_VALUES if form.is_long else TARGETS, dtype, form.target_shape)

    def append(
        self,
        value: npt.NDArray[Any],
        children: npt.NDArray[np.int64] | None,
        answer: npt.NDArray[Any] | None,
    ) -> None:
        """Add one example."""
        self._values.append(value if self._long else value[None])
        if self._children is not None and children is not None:
            self._children.append(children)
        if self._answers is not None and answer is not None:
            self._answers.append(answer if self._long else answer[None])


def _write_offsets(path: Path, lengths: list[int]) -> None:
    with NpyWriter(path, "int64", ()) as out:
        out.append(np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64))


def _hash(value: npt.NDArray[Any], children: npt.NDArray[np.int64] | None = None) -> str:
    digest = hashlib.sha256(f"{value.dtype.str}{value.shape}".encode() + value.tobytes())
    if children is not None:
        digest.update(children.tobytes())
    return digest.hexdigest()


def _checked_answer(example: Example, form: Form, dtype: str, findings: Findings) -> npt.NDArray[Any] | None:
    if example.answer is None or form.target_shape is None:
        findings.quarantine(example.file, "it says nothing of what is to be answered")
        return None
    return _checked(
        example, example.answer, form.target_shape, form, dtype, findings, "what is to be answered"
    )


def _checked(
    example: Example,
    value: npt.NDArray[Any],
    wanted: tuple[int, ...],
    form: Form,
    dtype: str,
    findings: Findings,
    subject: str = "it",
) -> npt.NDArray[Any] | None:
    """`value` as it is stored; None after noting why it cannot be."""
    fits = value.shape[1:] == wanted and len(value) > 0 if form.is_long else value.shape == wanted
    if not fits:
        if value.size == 0:
            reason = f"{subject} has no values"
        elif subject == "it":
            reason = f"its shape is {value.shape}, not {form}"
        else:
            reason = f"the shape of {subject} is {value.shape}; the program wants {wanted}"
        findings.quarantine(example.file, reason)
        return None
    if dtype == "uint8" and not is_byte(value):
        _reject(example, "beside 8-bit images, values must be whole numbers from 0 to 255", findings)
        return None
    with np.errstate(over="ignore"):
        value = np.ascontiguousarray(value, dtype=dtype)
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        findings.quarantine(example.file, f"{subject} has a value that is not a finite number")
        return None
    return value


def is_byte(value: npt.NDArray[Any]) -> bool:
    """Whether 8 bits hold all of `value` (any shape) without a change."""
    if value.dtype in (np.dtype(np.uint8), np.dtype(bool)):
        return True
    return bool(((value >= 0) & (value <= 255) & (value == np.floor(value))).all())


def finite(values: npt.ArrayLike) -> bool:
    """Whether all `values` are finite as float32, the type in which targets are stored."""
    with np.errstate(over="ignore"):
        return bool(np.isfinite(np.asarray(values, dtype=np.float64).astype(np.float32)).all())


def _reject(example: Example, text: str, findings: Findings) -> None:
    source = source_of(example.file)
    place = example.file.removeprefix(source)
    if not place:
        findings.problem(example.file, text)
    else:
        findings.row(source, int(place.strip("#:[]")), text, unit="line" if place[0] == ":" else "row")
