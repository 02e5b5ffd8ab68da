"""Reads `.jsonl` files: one example per line, a JSON object.

`id` and, for classes or values to predict, `label` (or `target`, `class`, `y`); `input` (or `tree`) is the
object that goes in, `output` the one to answer with, both as `records` reads them. Lines count from 1.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from easeml_core.data.findings import Findings
from easeml_core.data.forms import Example, Form
from easeml_core.data.header import LABEL_NAMES
from easeml_core.data.records import Malformed, Nodes, read_object
from easeml_core.data.text import open_text, plain
from easeml_core.data.tree import SourceFile
from easeml_core.errors import TenantError
from easeml_core.language import DataType, Tensor
from easeml_core.spec.rules import MAX_OBJECT_BYTES

INPUT, TREE, OUTPUT = "input", "tree", "output"
MAX_TREE_NODES = 10_000  # models go through them node by node, all of a batch as long as the largest
MAX_DEPTH = 500  # brackets within brackets: the parser of JSON calls itself for each
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]')


def read_jsonl(file: SourceFile, form: Form, findings: Findings, *, labelled: bool) -> Iterator[Example]:
    """The examples of one file; problems and broken lines go to `findings`."""
    where = f"data/{file.name}"
    reader = _Lines(file, form, findings, labelled)
    try:
        with open_text(file.path, where) as stream:
            empty = True
            for number, line in enumerate(stream, 1):
                if not line.strip():
                    continue
                if empty and (line.startswith("[") or line.strip() == "{"):
                    said = "begins one JSON value of many lines; one object on each line is needed"
                    findings.problem(
                        where, said, line=number, fix="write a line per example: json.dumps(example)"
                    )
                    return
                empty = False
                try:
                    example = reader.example(number, parse_line(line))
                except Malformed as error:
                    findings.quarantine(f"{where}:{number}", str(error))
                    continue
                if example is not None:
                    yield example
            if empty:
                findings.problem(where, "has no lines in it")
    except TenantError as error:
        findings.problems.extend(error.problems)


def parse_line(line: str) -> dict[str, Any]:
    """The JSON object of one line. Raises `Malformed`, never because of how deep it goes."""
    if _is_too_deep(line):
        text = f"it is nested more than {MAX_DEPTH} deep; write deep objects flat, as nodes and children"
        raise Malformed(text)
    try:
        found = json.loads(line, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise Malformed(f"it is no JSON: {error.msg} (column {error.colno})") from None
    except (ValueError, RecursionError):
        raise Malformed("it is no JSON that can be read: a number is too long") from None
    if not isinstance(found, dict):
        raise Malformed("it must be one JSON object, in { and }")
    return found


def _is_too_deep(line: str) -> bool:
    if line.count("{") + line.count("[") <= MAX_DEPTH:
        return False
    depth = 0
    for match in _BRACKETS.finditer(line):
        depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(match[0], 0)
        if depth > MAX_DEPTH:
            return True
    return False


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise Malformed(f"the field {max(names, key=names.count)[:40]!r} is given twice")
    return found


def types_of(form: Form) -> tuple[DataType, DataType | None]:
    """The types of input and, of what is to be answered with, output."""
    if form.program is None:
        return DataType((Tensor(form.shape),), ("next",) if form.kind == "series" else ()), None
    return form.program.input, form.program.output if form.has_answers else None


def value_of(nodes: Nodes, form: Form, *, answer: bool = False) -> npt.NDArray[Any]:
    """Nodes as the value of an example of `form`, or as its answer. Raises `Malformed` where too long."""
    if form.kind == "bytes":
        value = nodes.as_bytes()
        if len(value) > MAX_OBJECT_BYTES:
            raise Malformed(f"it has {len(value):,} bytes; at most {MAX_OBJECT_BYTES:,} are read")
        return value
    if form.kind == "tree" and len(nodes.values) > MAX_TREE_NODES:
        raise Malformed(f"it has {len(nodes.values):,} nodes; at most {MAX_TREE_NODES:,} are read")
    if form.is_long:
        return nodes.values
    one: npt.NDArray[Any] = nodes.values[0].reshape((answer and form.target_shape) or form.shape)
    return one


class _Lines:
    """The lines of one file, turned into examples."""

    def __init__(self, file: SourceFile, form: Form, findings: Findings, labelled: bool) -> None:
        self.file, self.form, self.findings, self.labelled = file, form, findings, labelled
        self.where = f"data/{file.name}"
        self.hint = file.split
        self.input, self.output = types_of(form)

    def example(self, line: int, fields: dict[str, Any]) -> Example | None:
        """The example of one line; None after noting a problem. Raises `Malformed`."""
        key = next((key for key in (INPUT, TREE) if key in fields), None)
        if key is None:
            raise Malformed(f"it has no field {TREE if self.form.kind == 'tree' else INPUT}")
        odd = fields.keys() - {"id", key, OUTPUT, *LABEL_NAMES}
        if odd:
            raise Malformed(f"it has the unknown field {min(odd)[:40]!r}")
        ident = self._id(line, fields)
        if ident is None:
            return None
        nodes = read_object(fields[key], self.input)
        example = Example(ident, f"{self.where}:{line}", value_of(nodes, self.form), split=self.hint)
        if self.form.kind == "tree":
            example.children = nodes.children
        if self.labelled and self.output is not None:
            if OUTPUT not in fields:
                raise Malformed(f"it has no field {OUTPUT}")
            example.answer = value_of(read_object(fields[OUTPUT], self.output), self.form, answer=True)
        elif self.labelled and self.form.target_shape is None:
            self._label(example, line, fields)
        return example

    def _id(self, line: int, fields: dict[str, Any]) -> str | None:
        given = fields.get("id", f"{self.file.name}#{line}")
        if isinstance(given, str | int) and not isinstance(given, bool):
            ident = plain(str(given))
            if ident and _is_text(ident):
                return ident
        text = "the id must be text or a whole number, and not empty"
        self.findings.row(self.where, line, text, unit="line")
        return None

    def _label(self, example: Example, line: int, fields: dict[str, Any]) -> None:
        given = next((fields[name] for name in LABEL_NAMES if name in fields), None)
        if self.form.task_kind == "regression":
            values = given if isinstance(given, list) else [given]
            right = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
            if not right or len(values) != self.form.outputs or not _are_finite(values):
                text = f"the label must be {self.form.outputs} finite number"
                text += "s in a list" if self.form.outputs > 1 else ""
                self.findings.row(self.where, line, text, fix="fill it in or remove the line", unit="line")
                return
            example.target = tuple(map(float, values))
            return
        right = isinstance(given, str | int) and not isinstance(given, bool)
        label = plain(str(given)) if right else ""
        if not label or not _is_text(label):
            text = "the label must be text or a whole number, and not empty"
            self.findings.row(self.where, line, text, fix="fill it in or remove the line", unit="line")
            return
        example.label = label


def _are_finite(values: list[Any]) -> bool:
    try:
        return all(np.isfinite(float(value)) for value in values)
    except OverflowError:
        return False


def _is_text(text: str) -> bool:
    """Whether `text` can be written again: JSON may hold half of a character, or NUL."""
    return "\0" not in text and text.encode(errors="ignore").decode() == text
