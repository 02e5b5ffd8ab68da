"""Reads `.ts` files, the format of the UCR/UEA archive and of sktime: univariate or multivariate, of equal or
varying length, missing values as `?`.

A value missing inside a series is filled by linear interpolation, counted in `Findings.converted`; missing
values at the end of all dimensions shorten the series.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from easeml_core.data.findings import Findings
from easeml_core.data.forms import Example, Form
from easeml_core.data.text import number, open_text, plain
from easeml_core.data.tree import SourceFile
from easeml_core.errors import TenantError

ENDS = (".ts",)


def read_ts(file: SourceFile, form: Form, findings: Findings, *, labelled: bool) -> Iterator[Example]:
    """The examples of one file; problems and broken series go to `findings`."""
    where = f"data/{file.name}"
    try:
        with open_text(file.path, where) as stream:
            header: dict[str, list[str]] = {}
            for line, text in enumerate(stream, 1):
                text = text.strip()
                if not text or text.startswith("#"):
                    continue
                if "@data" in header:
                    row = header.setdefault("rows", [])
                    row.append("")
                    yield from _example(file, len(row), text, header, form, findings, labelled)
                elif text.startswith("@"):
                    name, *values = text.split()
                    header[name.lower()] = values
                    if name.lower() == "@data" and not _check(where, line, header, form, findings, labelled):
                        return
                else:
                    findings.problem(where, "has values before @data", line=line)
                    return
            if "@data" not in header:
                findings.problem(where, "has no @data line", fix="use the .ts format of the UCR archive")
            elif "rows" not in header:
                findings.problem(where, "has no series below its @data line")
    except TenantError as error:
        findings.problems.extend(error.problems)


def _flag(header: dict[str, list[str]], name: str) -> bool:
    values = header.get(name, [])
    return bool(values) and values[0].lower() == "true"


def _check(
    where: str, line: int, header: dict[str, list[str]], form: Form, findings: Findings, labelled: bool
) -> bool:
    if _flag(header, "@timestamps"):
        text = "has time stamps; series are read as values at equal steps"
        findings.problem(where, text, line=line, fix="resample them and set @timeStamps false")
        return False
    if labelled and not (_flag(header, "@classlabel") or _flag(header, "@targetlabel")):
        text = "says that its series have no class (@classLabel or @targetLabel true is missing)"
        findings.problem(where, text, line=line, fix="add the class at the end of each line, and @classLabel")
        return False
    declared = header.get("@dimensions") or header.get("@dimension")
    if _flag(header, "@univariate"):
        declared = ["1"]
    if declared and declared[0] != str(form.size):
        text = f"has {declared[0]} values per step; the program wants {form.size}"
        findings.problem(where, text, line=line, fix="change the program in task.yaml")
        return False
    return True


def _example(
    file: SourceFile,
    row: int,
    text: str,
    header: dict[str, list[str]],
    form: Form,
    findings: Findings,
    labelled: bool,
) -> Iterator[Example]:
    where, place = f"data/{file.name}", f"data/{file.name}#{row}"
    parts = text.split(":")
    label = None
    if _flag(header, "@classlabel") or _flag(header, "@targetlabel"):
        label = plain(parts.pop())
    target = None
    if labelled and form.task_kind == "regression":
        target = _target(label or "", form, where, row, findings)
        if target is None:
            return
        label = None
    elif labelled:
        known = [plain(name) for name in header.get("@classlabel", [])[1:]]
        if not label or label == "?":
            findings.row(where, row, "the class is missing", fix="add it or remove the series")
            return
        if known and label not in known:
            findings.row(where, row, f"the class {label!r} is not in the @classLabel line")
            return
    if len(parts) != form.size:
        reason = f"it has {len(parts)} values per step; the program wants {form.size}"
        findings.quarantine(place, reason)
        return
    try:
        columns = [_values(part) for part in parts]
    except ValueError as error:
        findings.quarantine(place, str(error))
        return
    lengths = {len(column) for column in columns}
    if len(lengths) != 1:
        findings.quarantine(place, f"its dimensions have different lengths: {sorted(lengths)}")
    elif (filled := fill_gaps(np.stack(columns, axis=1), findings)) is None:
        findings.quarantine(place, "all its values are missing")
    else:
        yield Example(f"{file.name}#{row}", place, filled, label=label, target=target, split=file.split)


def _target(text: str, form: Form, where: str, row: int, findings: Findings) -> tuple[float, ...] | None:
    """What is to be predicted, of values with commas between; None after noting a problem."""
    values = [number(cell) for cell in text.split(",")]
    known = tuple(value for value in values if value is not None and np.isfinite(value))
    if len(known) == len(values) == form.outputs:
        return known
    wanted = f"{form.outputs} finite number{'s' if form.outputs > 1 else ''}"
    findings.row(where, row, f"what is to be predicted must be {wanted}", fix="add it or remove the series")
    return None


def _values(text: str) -> npt.NDArray[np.float64]:
    """The values of one dimension. Raises ValueError naming what is neither a number nor missing."""
    cells = [cell.strip() for cell in text.split(",")] if text.strip() else []
    values = [np.nan if cell in ("?", "") or cell.lower() == "nan" else number(cell) for cell in cells]
    for cell, value in zip(cells, values, strict=True):
        if value is None:
            raise ValueError(f"it has the value {cell[:40]!r}, which is neither a number nor `?`")
    return np.array(values, dtype=np.float64)


def fill_gaps(values: npt.NDArray[np.float64], findings: Findings) -> npt.NDArray[np.float64] | None:
    """`values` (T, D) without NaN: cut after the last known step, gaps interpolated; None where a whole
    dimension is missing."""
    missing = np.isnan(values)
    if not missing.any():
        return values if len(values) else None
    if missing.all(axis=0).any():
        return None
    length = int(np.flatnonzero(~missing.all(axis=1))[-1]) + 1
    values, missing = values[:length].copy(), missing[:length]
    if missing.any():
        findings.count("series with gaps interpolated")
    steps = np.arange(length)
    for d in range(values.shape[1]):
        gaps = missing[:, d]
        values[gaps, d] = np.interp(steps[gaps], steps[~gaps], values[~gaps, d])
    return values
