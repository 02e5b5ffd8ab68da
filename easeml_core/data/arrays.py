"""Reads arrays: those of an `.npz` file, or `.npy` files of one folder, which are called as the arrays.

Accepted names: `x` `inputs` `data` `images` for the inputs, `y` `targets` `labels` `target` for what to
predict, each also with `_train`, `_val`, `_test` behind it; `ids`, `classes` and, for series, `lengths` or
`input_offsets` (and `target_lengths` or `target_offsets`) are optional.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from easeml_core.data.array_files import Allowance, ArrayFiles
from easeml_core.data.block import Block
from easeml_core.data.findings import Findings
from easeml_core.data.forms import Example, Form, split_hint
from easeml_core.data.staging import finite
from easeml_core.data.text import plain
from easeml_core.data.tree import SourceFile
from easeml_core.data.units import Units

INPUT_NAMES = ("x", "inputs", "data", "images", "values")
TARGET_NAMES = ("y", "targets", "labels", "target", "label")
_SAVE = "numpy.savez_compressed(path, x=inputs, y=labels)"


def read_arrays(
    files: ArrayFiles,
    form: Form,
    units: Units,
    allowance: Allowance,
    scratch: Path,
    findings: Findings,
    *,
    labelled: bool,
) -> Iterator[Example]:
    """The examples of arrays that belong together, in their order; problems go to `findings`. `units` are
    those of the inputs; `scratch` is an empty folder."""
    arrays = files.load(allowance, scratch, findings)
    if arrays is None:
        return
    found = False
    for name in sorted(arrays):
        base, _, end = name.rpartition("_")
        hint = split_hint(end) if base else None
        base = (base if hint else name).lower()
        if base not in INPUT_NAMES:
            continue
        found = True
        suffix, file = name[len(base) :], files.file_of(name)
        where = f"data/{file.name}"
        targets = _first(arrays, [target + suffix for target in TARGET_NAMES])
        ids = _first(arrays, [f"ids{suffix}", f"id{suffix}"])
        inputs = Block(
            where,
            name,
            arrays[name],
            form.shape,
            form.kind,
            lengths=arrays.get(f"lengths{suffix}"),
            offsets=_first(arrays, [f"input_offsets{suffix}", f"offsets{suffix}"]),
        )
        answers = None
        if form.target_shape is not None and targets is not None:
            answers = Block(
                where,
                "targets",
                targets,
                form.target_shape,
                form.kind,
                lengths=arrays.get(f"target_lengths{suffix}"),
                offsets=arrays.get(f"target_offsets{suffix}"),
            )
        lead = f"{file.name}:{name}" if hint and files.is_packed else file.name
        part = _Part(lead, file, name, inputs, targets, answers, ids, arrays.get("classes"), hint)
        yield from part.examples(form, units, allowance, findings, labelled=labelled)
    if not found:
        text = f"has no inputs: expected an array named {', '.join(INPUT_NAMES[:-1])}; found {sorted(arrays)}"
        findings.problem(f"data/{files.files[0].name}", text, fix=_SAVE)


def number_types(files: ArrayFiles, *, targets: bool = False) -> set[np.dtype[Any]]:
    """The types of all inputs (and `targets`, where asked), by their headers; none of unreadable files."""
    names = (*INPUT_NAMES, *TARGET_NAMES) if targets else INPUT_NAMES
    try:
        headers = files.headers()
    except Exception:  # numpy and zipfile raise many classes on broken input; it is named when it is read
        return set()
    return {
        dtype
        for name, (_, dtype) in headers.items()
        if any(name.lower() == base or name.lower().startswith(f"{base}_") for base in names)
    }


def _first(arrays: dict[str, npt.NDArray[Any]], names: list[str]) -> npt.NDArray[Any] | None:
    lower = {name.lower(): array for name, array in arrays.items()}
    return next((lower[name.lower()] for name in names if name.lower() in lower), None)


class _Part:
    """Inputs and targets that belong together."""

    def __init__(
        self,
        lead: str,
        file: SourceFile,
        name: str,
        inputs: Block,
        targets: npt.NDArray[Any] | None,
        answers: Block | None,
        ids: npt.NDArray[Any] | None,
        classes: npt.NDArray[Any] | None,
        hint: str | None,
    ) -> None:
        self.where = f"data/{file.name}"
        self.lead = lead
        self.name, self.inputs, self.targets, self.answers = name, inputs, targets, answers
        self.ids, self.classes, self.hint = ids, classes, hint or file.split

    def examples(
        self, form: Form, units: Units, allowance: Allowance, findings: Findings, *, labelled: bool
    ) -> Iterator[Example]:
        if not self.inputs.holds_numbers(findings):
            return
        n = len(self.inputs)
        allowance.rows -= n
        if allowance.rows < 0:
            findings.problem(self.where, "has more examples than one upload may have")
            return
        if not self.inputs.fits(findings, units):
            return
        if labelled and not self._check_targets(form, units, findings, n):
            return
        if self.ids is not None and (self.ids.ndim != 1 or len(self.ids) != n):
            text = f"ids must be one per example: {n}; its shape is {self.ids.shape}"
            findings.problem(self.where, text)
            return
        if not self._check_classes(findings):
            return
        for row in range(n):
            identifier = f"{self.lead}[{row}]"
            if self.ids is not None:
                given = self._text(self.ids, row, "id", findings)
                if given is None:
                    continue
                identifier = given
            value = self.inputs.row(row, units)
            example = Example(identifier, f"{self.where}[{row}]", value, split=self.hint)
            if labelled and self.answers is not None:
                example.answer = self.answers.row(row, units)
            elif labelled:
                self._label(example, row, form, findings)
            yield example

    def _check_classes(self, findings: Findings) -> bool:
        if self.classes is None or (self.classes.ndim == 1 and self.classes.dtype.kind in "biufUS"):
            return True
        text = f"classes must be a list of names; they are {self.classes.dtype} {self.classes.shape}"
        findings.problem(self.where, text)
        return False

    def _text(
        self, array: npt.NDArray[Any], row: int, what: str, findings: Findings, *, at: int | None = None
    ) -> str | None:
        """Entry `at` (else `row`) of `array` as trimmed text; None after noting a problem of `row`."""
        try:
            value = array[row if at is None else at]
            text = plain(value.decode() if isinstance(value, bytes) else str(value))
            text.encode()
        except (ValueError, SystemError):  # not UTF-8, a lone surrogate, or beyond the last character
            findings.row(self.where, row, f"the {what} is not Unicode text (rows count from 0)")
            return None
        if not text or "\0" in text:
            said = "has a NUL character in it" if text else "is empty"
            findings.row(self.where, row, f"the {what} {said} (rows count from 0)")
            return None
        return text

    def _check_targets(self, form: Form, units: Units, findings: Findings, n: int) -> bool:
        y = self.targets
        if y is None:
            text = f"has no labels for {self.name}: expected an array named {', '.join(TARGET_NAMES)}"
            findings.problem(self.where, text, fix=_SAVE)
            return False
        if self.answers is not None:
            return self._check_answers(self.answers, units, findings, n)
        if y.ndim == 0 or len(y) != n:
            findings.problem(self.where, f"{self.name} has {n} examples, its labels have shape {y.shape}")
            return False
        if y.nbytes == 0:
            findings.problem(self.where, f"the labels of {self.name} are all empty")
            return False
        if form.task_kind == "regression":
            if y.dtype.kind not in "biuf":
                findings.problem(self.where, f"values to predict must be numbers; they are {y.dtype}")
                return False
            if y.ndim == 1:
                self.targets = y = y[:, None]
            if y.shape != (n, form.outputs):
                text = f"values to predict have shape {y.shape}; the program wants ({n}, {form.outputs})"
                findings.problem(self.where, text)
                return False
            return True
        if y.ndim == 2 and y.shape[1] == 1:
            self.targets = y = y[:, 0]
        if y.ndim == 2:
            numbers = y.astype(np.float64) if y.dtype.kind in "biuf" else np.zeros(y.shape)
            if not (np.isin(numbers, (0, 1)).all() and (numbers.sum(axis=1) == 1).all()):
                findings.problem(self.where, "labels in two dimensions must be one-hot rows of 0 and 1")
                return False
            findings.converted[f"{self.where}:labels"] = "one-hot to classes"
            self.targets = numbers.argmax(axis=1)
        elif y.ndim != 1 or y.dtype.kind not in "biufUS":
            findings.problem(
                self.where, f"labels must be text or whole numbers; they are {y.dtype} {y.shape}"
            )
            return False
        return True

    def _check_answers(self, answers: Block, units: Units, findings: Findings, n: int) -> bool:
        if not answers.holds_numbers(findings):
            return False
        if len(answers) != n:
            text = f"{self.name} has {n} examples, {answers.name} has {len(answers)}"
            findings.problem(self.where, text)
            return False
        return answers.fits(findings, units)

    def _label(self, example: Example, row: int, form: Form, findings: Findings) -> None:
        assert self.targets is not None
        if form.task_kind == "classification" and self.targets.dtype.kind in "US":
            example.label = self._text(self.targets, row, "label", findings)
            return
        value = self.targets[row]
        if form.task_kind == "regression":
            target = tuple(map(float, value))
            if finite(target):
                example.target = target
                return
            shown = ", ".join(f"{number:g}" for number in target)
            text = f"the value to predict is {shown}; a finite number is needed (rows count from 0)"
            findings.row(self.where, row, text, fix="fill it in or remove the row")
            return
        if self.targets.dtype.kind == "f":
            if not float(value).is_integer():  # also NaN and infinities
                findings.row(self.where, row, f"the label {value} is no class (rows count from 0)")
                return
            value = int(value)
        if self.classes is not None:
            index = int(value)
            if not 0 <= index < len(self.classes):
                findings.row(self.where, row, f"the label is not in 0..{len(self.classes) - 1}")
                return
            example.label = self._text(self.classes, row, "label", findings, at=index)
            return
        example.label = str(int(value))
