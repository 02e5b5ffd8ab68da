"""Reads CSV files of any usual delimiter, as text first: nothing is turned into NaN behind one's back.

Rows count from 1 below the header, as a spreadsheet shows them without it. Which column is what: see
`header`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from easeml_core.data.findings import Findings
from easeml_core.data.forms import Example, Form
from easeml_core.data.header import Header, match_columns, read_header
from easeml_core.data.rows import read_rows
from easeml_core.data.text import number, open_text, plain
from easeml_core.data.tree import SourceFile
from easeml_core.errors import TenantError


def read_csv(file: SourceFile, form: Form, findings: Findings, *, labelled: bool) -> Iterator[Example]:
    """The examples of one table; problems and broken rows go to `findings`."""
    where = f"data/{file.name}"
    try:
        with open_text(file.path, where) as stream:
            header = read_header(stream, file, form, findings, labelled=labelled)
            if header is None:
                return
            header = match_columns(header, where, form, findings)
            if header is not None:
                rows = read_rows(stream, header.delimiter, where, above=header.line)
                yield from Rows(file, header, form, findings, labelled).read(rows)
    except TenantError as error:
        findings.problems.extend(error.problems)


class Rows:
    """The rows of one table, turned into examples. Of a row, messages say `file#number`, as its id does."""

    def __init__(
        self,
        file: SourceFile,
        header: Header,
        form: Form,
        findings: Findings,
        labelled: bool,
    ) -> None:
        self.file, self.header, self.form = file, header, form
        self.findings, self.labelled = findings, labelled
        self.where = f"data/{file.name}"
        self.hint = file.split

    def read(self, rows: Iterable[list[str]]) -> Iterator[Example]:
        """The examples of `rows`, which lie below the header; what cannot be used is noted."""
        width = self.header.width
        row = 0
        for cells in rows:
            if not cells or (len(cells) == 1 and not cells[0].strip()):
                continue
            row += 1
            if len(cells) != width:
                self._break(row, f"it has {len(cells)} cells, the first row has {width}")
            elif (example := self._example(row, cells[self.header.index :])) is not None:
                yield example
        if not row:
            self.findings.problem(self.where, "has no rows below its header")

    def _example(self, row: int, cells: list[str]) -> Example | None:
        texts = [cells[i] for i in self.header.features]
        if self.form.kind == "series":
            while texts and not texts[-1].strip():
                texts.pop()
        values = [number(text) for text in texts]
        bad = next((i for i, value in enumerate(values) if value is None), None)
        if bad is not None:
            text = texts[bad].strip()
            hint = " (a decimal comma?)" if number(text.replace(",", ".")) is not None else ""
            said = "is empty" if not text else f"holds {text[:40]!r}, which is no number{hint}"
            self._break(row, f"column {self.header.names[self.header.features[bad]]!r} {said}")
            return None
        value = np.array(values, dtype=np.float64)
        shape = (-1, 1) if self.form.kind == "series" else self.form.shape
        ident = f"{self.file.name}#{row}"
        if self.header.id is not None and not (ident := plain(cells[self.header.id])):
            self.findings.row(self.where, row, "the id is empty")
            return None
        example = Example(ident, f"{self.where}#{row}", value.reshape(shape), split=self.hint)
        if self.labelled:
            self._label(example, row, [cells[i] for i in self.header.labels])
        return example

    def _label(self, example: Example, row: int, cells: list[str]) -> None:
        if self.form.task_kind == "classification":
            example.label = plain(cells[0])
            if not example.label:
                self.findings.row(self.where, row, "the label is empty", fix="fill it in or remove the row")
                example.label = None
            return
        targets = [number(cell) for cell in cells]
        for cell, target in zip(cells, targets, strict=True):
            if target is None or not np.isfinite(target):
                shown = repr(cell.strip()[:40]) if cell.strip() else "empty"
                text = f"the value to predict is {shown}; a finite number is needed"
                self.findings.row(self.where, row, text, fix="fill it in or remove the row")
                return
        example.target = tuple(target for target in targets if target is not None)

    def _break(self, row: int, reason: str) -> None:
        self.findings.quarantine(f"{self.where}#{row}", reason)
