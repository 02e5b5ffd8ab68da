"""Reads `.npz` files without ever unpickling, mapping their arrays from disk instead of loading them.

Accepted names: `x` `inputs` `data` `images` for the inputs, `y` `targets` `labels` `target` for what to
predict, each also with `_train`, `_val`, `_test` behind it; `ids`, `classes` and, for series, `lengths` are
optional.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from easeml_core.data.findings import Findings
from easeml_core.data.forms import Example, Form, split_hint
from easeml_core.data.images import resize_plane
from easeml_core.data.limits import Limits
from easeml_core.data.staging import finite, is_byte
from easeml_core.data.text import plain
from easeml_core.data.tree import SourceFile

INPUT_NAMES = ("x", "inputs", "data", "images", "values")
TARGET_NAMES = ("y", "targets", "labels", "target", "label")
_CHUNK = 1 << 20
# Below this size no ratio is suspicious.
_RATIO_FROM = 64 << 20
# A row of an array costs less than a file, but its id and label stay in memory too.
_ROWS_PER_FILE = 10


@dataclass(slots=True)
class Allowance:
    """What all `.npz` files of one upload may still take: `bytes` unpacked, `rows` in all their inputs."""

    bytes: int
    rows: int
    ratio: float

    @classmethod
    def of(cls, limits: Limits) -> Allowance:
        """The allowance of one upload."""
        rows = limits.max_files * _ROWS_PER_FILE
        return cls(limits.max_upload_bytes, rows, limits.max_expansion_ratio)


def read_npz(
    file: SourceFile,
    form: Form,
    dtype: str,
    allowance: Allowance,
    scratch: Path,
    findings: Findings,
    *,
    labelled: bool,
) -> Iterator[Example]:
    """The examples of one file, in its order; problems go to `findings`. `dtype` is how inputs are stored."""
    arrays = _members(file, allowance, scratch, findings)
    found = False
    for name in sorted(arrays):
        base, _, end = name.rpartition("_")
        hint = split_hint(end) if base else None
        base = (base if hint else name).lower()
        if base not in INPUT_NAMES:
            continue
        found = True
        suffix = name[len(base) :]
        targets = _first(arrays, [target + suffix for target in TARGET_NAMES])
        ids = _first(arrays, [f"ids{suffix}", f"id{suffix}"])
        lengths = arrays.get(f"lengths{suffix}")
        part = _Part(file, name, arrays[name], targets, ids, lengths, arrays.get("classes"), hint)
        yield from part.examples(form, dtype, allowance, findings, labelled=labelled)
    if not found and not findings.problems:
        text = f"has no inputs: expected an array named {', '.join(INPUT_NAMES[:-1])}; found {sorted(arrays)}"
        findings.problem(f"data/{file.name}", text, fix="numpy.savez_compressed(path, x=inputs, y=labels)")


def is_bytes(file: SourceFile) -> bool:
    """Whether all inputs are 8-bit numbers, by their headers."""
    try:
        with zipfile.ZipFile(file.path) as opened:
            for info in opened.infolist():
                name = info.filename.removesuffix(".npy").lower()
                if any(name == base or name.startswith(f"{base}_") for base in INPUT_NAMES):
                    with opened.open(info) as stream:
                        np.lib.format.read_magic(stream)
                        dtype = np.lib.format.read_array_header_1_0(stream)[2]
                    if dtype not in (np.dtype(np.uint8), np.dtype(bool)):
                        return False
    except Exception:
        return False  # it is reported when it is read
    return True


def _members(
    file: SourceFile, allowance: Allowance, scratch: Path, findings: Findings
) -> dict[str, npt.NDArray[Any]]:
    where = f"data/{file.name}"
    arrays: dict[str, npt.NDArray[Any]] = {}
    left = max(_RATIO_FROM, int(file.path.stat().st_size * allowance.ratio))
    try:
        with zipfile.ZipFile(file.path) as opened:
            for number, info in enumerate(opened.infolist()):
                name = info.filename.removesuffix(".npy")
                path = scratch / f"{number}.npy"
                with opened.open(info) as source, path.open("xb") as out:
                    while chunk := source.read(_CHUNK):
                        left -= len(chunk)
                        allowance.bytes -= len(chunk)
                        if min(left, allowance.bytes) < 0:
                            findings.problem(where, "unpacks to more than is allowed")
                            return {}
                        out.write(chunk)
                array = np.load(path, mmap_mode="r" if info.file_size > _CHUNK else None, allow_pickle=False)
                arrays[name] = array
    except Exception as error:  # numpy and zipfile raise many classes on broken input
        text = str(error) or type(error).__name__
        if "allow_pickle" in text:
            text = "it holds Python objects, which are never loaded"
        fix = "save plain arrays of numbers or text with numpy.savez_compressed"
        findings.problem(where, f"cannot be read: {text}", fix=fix)
        return {}
    return arrays


def _first(arrays: dict[str, npt.NDArray[Any]], names: list[str]) -> npt.NDArray[Any] | None:
    lower = {name.lower(): array for name, array in arrays.items()}
    return next((lower[name.lower()] for name in names if name.lower() in lower), None)


class _Part:
    """Inputs and targets that belong together."""

    def __init__(
        self,
        file: SourceFile,
        name: str,
        inputs: npt.NDArray[Any],
        targets: npt.NDArray[Any] | None,
        ids: npt.NDArray[Any] | None,
        lengths: npt.NDArray[Any] | None,
        classes: npt.NDArray[Any] | None,
        hint: str | None,
    ) -> None:
        self.where = f"data/{file.name}"
        self.lead = file.name if hint is None else f"{file.name}:{name}"
        self.name, self.inputs, self.targets, self.ids = name, inputs, targets, ids
        self.lengths, self.classes, self.hint = lengths, classes, hint

    def examples(
        self, form: Form, dtype: str, allowance: Allowance, findings: Findings, *, labelled: bool
    ) -> Iterator[Example]:
        if self.inputs.dtype.kind not in "biuf":
            findings.problem(self.where, f"{self.name} must hold numbers; it holds {self.inputs.dtype}")
            return
        if self.inputs.ndim < 1:
            findings.problem(self.where, f"{self.name} has shape (); one row per example is needed")
            return
        if self.inputs.size == 0:
            # Such an array may claim any number of rows and take no byte.
            findings.problem(self.where, f"{self.name} has shape {self.inputs.shape}: it holds no values")
            return
        allowance.rows -= len(self.inputs)
        if allowance.rows < 0:
            findings.problem(self.where, "has more examples than one upload may have")
            return
        if (shaped := self._shaped(form, findings)) is None:
            return
        if labelled and not self._check_targets(form, findings, len(shaped)):
            return
        for other, what in ((self.ids, "ids"), (self.lengths, "lengths")):
            if other is not None and (other.ndim != 1 or len(other) != len(shaped)):
                text = f"{what} must be one per example: {len(shaped)}; its shape is {other.shape}"
                findings.problem(self.where, text)
                return
        if not self._check_lengths(form, findings) or not self._check_classes(findings):
            return
        for row in range(len(shaped)):
            identifier = f"{self.lead}[{row}]"
            if self.ids is not None:
                given = self._text(self.ids, row, "id", findings)
                if given is None:
                    continue
                identifier = given
            value = self._value(shaped, row, form, dtype)
            example = Example(identifier, f"{self.where}[{row}]", value, split=self.hint)
            if labelled:
                self._label(example, row, form, findings)
            yield example

    def _shaped(self, form: Form, findings: Findings) -> npt.NDArray[Any] | None:
        x, wanted = self.inputs, form.shape
        if form.kind == "series":
            if x.ndim == 2 and wanted == (1,):
                return x[:, :, None]
            if x.ndim == 3 and x.shape[2] == wanted[0]:
                return x
            expected = f"(examples, steps, {wanted[0]})"
        else:
            if x.shape[1:] == wanted:
                return x
            if form.kind == "image":
                height, width, channels = wanted
                if x.ndim == 3 and channels == 1:
                    x = x[:, :, :, None]
                if x.ndim == 4 and x.shape[1:] == (channels, height, width):
                    findings.converted[f"{self.where}:{self.name}"] = "channels moved last"
                    return np.moveaxis(x, 1, 3)
                if x.ndim == 4 and x.shape[3] == channels and x.shape[1] and x.shape[2]:
                    if x.shape[1:] != wanted:
                        findings.converted[f"{self.where}:{self.name}"] = f"resized to {height}x{width}"
                    return x
            if x.ndim == 2 and x.shape[1] == form.size and form.kind == "image":
                findings.converted[f"{self.where}:{self.name}"] = f"rows folded to {wanted}"
                return x.reshape(-1, *wanted)
            if form.kind == "vector" and int(np.prod(x.shape[1:])) == form.size:
                findings.converted[f"{self.where}:{self.name}"] = "flattened"
                return x.reshape(len(x), form.size)
            expected = f"(examples, {', '.join(map(str, wanted))})"
        text = f"{self.name} has shape {x.shape}; the program wants {expected}"
        findings.problem(self.where, text, fix="change the program in task.yaml or the array")
        return None

    def _check_lengths(self, form: Form, findings: Findings) -> bool:
        if self.lengths is None or form.kind != "series":
            return True
        if self.lengths.dtype.kind not in "biuf":
            findings.problem(self.where, f"lengths must be whole numbers; they are {self.lengths.dtype}")
            return False
        steps = self.inputs.shape[1]
        given = self.lengths.astype(np.float64)
        fits = (given >= 0) & (given <= steps) & (given == np.floor(given))
        for row in np.flatnonzero(~fits).tolist():
            text = f"its length must be a whole number from 0 to {steps} (rows count from 0)"
            findings.row(self.where, row, text)
        return bool(fits.all())

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

    def _value(self, shaped: npt.NDArray[Any], row: int, form: Form, dtype: str) -> npt.NDArray[Any]:
        value = np.array(shaped[row])
        if form.kind == "series":
            if self.lengths is not None:
                return value[: int(self.lengths[row])].astype(np.float32)
            value = value.astype(np.float32)
            known = np.flatnonzero(~np.isnan(value).all(axis=1))
            return value[: known[-1] + 1] if len(known) else value[:0]
        if form.kind == "image" and value.shape != form.shape:
            planes = [
                resize_plane(np.ascontiguousarray(value[:, :, c], dtype=np.float32), *form.shape[:2])
                for c in range(form.shape[2])
            ]
            resized = np.stack(planes, axis=-1)
            whole = value.dtype == np.uint8 or (dtype == "uint8" and is_byte(value))
            return np.rint(resized).astype(np.uint8) if whole else resized
        return value

    def _check_targets(self, form: Form, findings: Findings, n: int) -> bool:
        y = self.targets
        if y is None:
            text = f"has no labels for {self.name}: expected an array named {', '.join(TARGET_NAMES)}"
            findings.problem(self.where, text, fix="numpy.savez_compressed(path, x=inputs, y=labels)")
            return False
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
