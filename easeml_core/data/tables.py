"""Reads CSV files of any usual delimiter, as text first: nothing is turned into NaN behind one's back.

Rows count from 1 below the header, as a spreadsheet shows them without it. The label column is `label`,
`target`, `class` or `y`, else the last; several values to predict are in columns of such a name and a number
(`y1`, `y2` or `target_1`, `target_2`), in the order of the numbers, else the last ones. A column `id` names
the examples. Without a header (a first row with numbers in it, see `_is_header`) columns count from the left
and the last ones are the label.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import IO

import numpy as np

from easeml_core.data.findings import Findings
from easeml_core.data.forms import Example, Form
from easeml_core.data.text import number, open_text, plain
from easeml_core.data.tree import SourceFile
from easeml_core.errors import Problem, TenantError

LABEL_NAMES = ("label", "target", "class", "y")
FILE_NAMES = ("file", "filename", "image", "path")
_DELIMITERS = ",;\t|"
csv.field_size_limit(1 << 24)


@dataclass(frozen=True)
class Header:
    """Columns of a table: `names` (lower case is compared), positions of the id and of the labels; `line`
    counts the lines of the file above the first row."""

    names: tuple[str, ...]
    delimiter: str
    given: bool
    id: int | None
    labels: tuple[int, ...]
    line: int

    @property
    def features(self) -> tuple[int, ...]:
        """Positions of the other columns."""
        return tuple(i for i in range(len(self.names)) if i != self.id and i not in self.labels)


def read_rows(lines: Iterable[str], delimiter: str, where: str, *, above: int = 0) -> Iterator[list[str]]:
    """The cells of each line; `above` counts the lines of the file before these.

    Raises `TenantError` naming the line where a quote opens a cell that does not end on that line: a
    forgotten quote would otherwise swallow all rows up to the next one.
    """
    # The line at the end is what a quote that is open in the last row runs into.
    reader = csv.reader(chain(lines, ["\n"]), delimiter=delimiter)
    line = above
    while True:
        line += 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            text, fix = f"is not a table: {error}", "check the quotes"
            raise TenantError([Problem(where, text, line=line, fix=fix)]) from None
        if above + reader.line_num > line:
            text = "a quote opens a cell that does not end on this line"
            fix = "close the quote, or take the line break out of the cell; write a quote in a cell twice"
            raise TenantError([Problem(where, text, line=line, fix=fix)])
        yield cells


def read_csv(file: SourceFile, form: Form, findings: Findings, *, labelled: bool) -> Iterator[Example]:
    """The examples of one table; problems and broken rows go to `findings`."""
    where = f"data/{file.name}"
    try:
        with open_text(file.path, where) as stream:
            header = read_header(stream, file, form, findings, labelled=labelled)
            if header is None:
                return
            rows = read_rows(stream, header.delimiter, where, above=header.line)
            order = _feature_order(header, where, form, findings)
            if order is None:
                return
            yield from _Rows(file, header, order, form, findings, labelled).read(rows)
    except TenantError as error:
        findings.problems.extend(error.problems)


def read_header(
    stream: IO[str], file: SourceFile, form: Form | None, findings: Findings, *, labelled: bool
) -> Header | None:
    """Find delimiter and columns; leaves `stream` at the first row. None after noting a problem.

    Raises `TenantError` where a quote is left open in the header.
    """
    where = f"data/{file.name}"
    line, above = "", -1
    start = stream.tell()
    while not line.strip():
        start, line, above = stream.tell(), stream.readline(), above + 1
        if not line:
            findings.problem(where, "has no rows in it")
            return None
    delimiter = "\t" if file.suffix == ".tsv" else _sniff(line)
    stream.seek(start)
    cells = next(read_rows([line], delimiter, where, above=above))
    names = [plain(cell) for cell in cells]
    stream.readline()
    given = _is_header(names, read_rows(iter(stream.readline, ""), delimiter, where, above=above + 1))
    stream.seek(start)
    if given is None:
        text = f"one cannot tell whether its first row ({', '.join(names)[:60]}) names the columns or is data"
        fix = "write a header above it in which every name begins with a letter, such as x1,x2,label"
        findings.problem(where, text, line=above + 1, fix=fix)
        return None
    if given:
        stream.readline()
        above += 1
    else:
        names = [str(i + 1) for i in range(len(cells))]
    if delimiter != ",":
        findings.converted[f"{where}:delimiter"] = {"\t": "tab"}.get(delimiter, delimiter)
    lower = [name.lower() for name in names]
    double = [name for name, count in Counter(lower).items() if count > 1]
    if double:
        findings.problem(where, f"two columns are called {double[0]!r}", fix="rename one of them")
        return None
    ident = lower.index("id") if "id" in lower else None
    labels = _label_columns(lower, ident, form, labelled)
    return Header(tuple(names), delimiter, given, ident, labels, above)


def _sniff(line: str) -> str:
    outside = "".join(line.split('"')[::2])
    return max(_DELIMITERS, key=lambda d: (outside.count(d), -_DELIMITERS.index(d)))


def _is_header(cells: list[str], below: Iterator[list[str]]) -> bool | None:
    """Whether the first row names the columns; None where nobody can tell.

    It does where no cell is a number, where a cell is a known name (`label`, `id` …), and where the cells
    count 0, 1, 2 … as pandas writes unnamed columns. Numbers and one known name, as in `1.5,2,y`, may be
    data all the same: it is if that word is in its column again in a row `below`.
    """
    known = [i for i, cell in enumerate(cells) if cell.lower() in (*LABEL_NAMES, *FILE_NAMES, "id")]
    others = [cell for i, cell in enumerate(cells) if i not in known and cell]
    numeric = [cell for cell in others if number(cell) is not None]
    counting = numeric in (list(map(str, range(len(numeric)))), list(map(str, range(1, len(numeric) + 1))))
    if len(known) == 1 and numeric and numeric == others:
        return _is_name(cells, known[0], counting, below)
    if known:
        return True
    if not numeric:
        return any(cells)
    return len(cells) > 2 and counting and numeric == cells


def _is_name(cells: list[str], at: int, counting: bool, below: Iterator[list[str]]) -> bool | None:
    """Whether cell `at` of a first row of numbers is its column's name rather than a class."""
    column = []
    for row in below:
        # A file put together from several has its header more than once.
        if len(row) != len(cells) or [plain(cell) for cell in row] == cells:
            continue
        column.append(plain(row[at]))
        if column[-1] == cells[at]:
            return None if counting else False
    # Of the known names, `y` is the one that people also call a class (y and n).
    if cells[at].lower() != "y":
        return True
    return True if column and (counting or all(number(text) is not None for text in column)) else None


def _label_columns(lower: list[str], ident: int | None, form: Form | None, labelled: bool) -> tuple[int, ...]:
    count = form.outputs if form is not None and form.task_kind == "regression" else 1
    named = [lower.index(name) for name in LABEL_NAMES if name in lower][:1]
    if count > 1:
        for base in LABEL_NAMES:
            numbered = [
                (re.fullmatch(rf"{base}[_.\- ]?(\d{{1,9}})", name), i) for i, name in enumerate(lower)
            ]
            several = sorted((int(match[1]), i) for match, i in numbered if match)
            if len(several) == count:
                return tuple(i for _, i in several)
        named = []
    if named:
        return tuple(named)
    if not labelled:
        return ()
    return tuple([i for i in range(len(lower)) if i != ident][-count:])


def _feature_order(header: Header, where: str, form: Form, findings: Findings) -> tuple[int, ...] | None:
    """Positions of the features, in the order of the first table read; None after noting a problem."""
    order = header.features
    if form.kind == "series":
        if form.shape != (1,):
            text = f"a table holds series of one value per step; the program wants {form.size}"
            findings.problem(where, text, fix="use .ts or .npz for several values per step")
            return None
        return order
    if len(order) != form.size:
        seen = "tab" if header.delimiter == "\t" else header.delimiter
        text = (
            f"has {len(order)} columns beside {'id and ' if header.id is not None else ''}label "
            f"(delimiter {seen!r}); the program wants {form.size}"
        )
        findings.problem(where, text, fix="change the program in task.yaml or the columns")
        return None
    if not header.given:
        return order
    names = [header.names[i] for i in order]
    wanted = findings.converted.setdefault("columns", names)
    if names == wanted:
        return order
    if sorted(names) != sorted(wanted):
        odd = sorted(set(names) ^ set(wanted))
        text = f"its columns differ from those of the other data: {', '.join(odd[:10])}"
        findings.problem(where, text, fix="name the columns alike everywhere")
        return None
    return tuple(header.names.index(name) for name in wanted)


class _Rows:
    """The rows of one table, turned into examples."""

    def __init__(
        self,
        file: SourceFile,
        header: Header,
        order: tuple[int, ...],
        form: Form,
        findings: Findings,
        labelled: bool,
    ) -> None:
        self.file, self.header, self.order = file, header, order
        self.form, self.findings, self.labelled = form, findings, labelled
        self.where = f"data/{file.name}"
        self.hint = file.split

    def read(self, rows: Iterator[list[str]]) -> Iterator[Example]:
        width = len(self.header.names)
        row = 0
        for cells in rows:
            if not cells or (len(cells) == 1 and not cells[0].strip()):
                continue
            row += 1
            if len(cells) != width:
                self._break(row, f"it has {len(cells)} cells, the first row has {width}")
            elif (example := self._example(row, cells)) is not None:
                yield example

    def _example(self, row: int, cells: list[str]) -> Example | None:
        texts = [cells[i] for i in self.order]
        if self.form.kind == "series":
            while texts and not texts[-1].strip():
                texts.pop()
        values = [number(text) for text in texts]
        bad = next((i for i, value in enumerate(values) if value is None), None)
        if bad is not None:
            text = texts[bad].strip()
            hint = " (a decimal comma?)" if number(text.replace(",", ".")) is not None else ""
            said = "is empty" if not text else f"holds {text[:40]!r}, which is no number{hint}"
            self._break(row, f"column {self.header.names[self.order[bad]]!r} {said}")
            return None
        value = np.array(values, dtype=np.float64)
        shape = (-1, 1) if self.form.kind == "series" else self.form.shape
        ident = f"{self.file.name}#{row}"
        if self.header.id is not None and not (ident := plain(cells[self.header.id])):
            self.findings.row(self.where, row, "the id is empty")
            return None
        example = Example(ident, f"{self.where}:{row}", value.reshape(shape), split=self.hint)
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
        self.findings.quarantine(f"{self.where}:{row}", reason)


def file_labels(file: SourceFile, findings: Findings) -> dict[str, str] | None:
    """Labels by file name of a table with a column `file` (or `filename`, `image`, `path`) and a label.

    None where the table is not of this kind.
    """
    where = f"data/{file.name}"
    labels: dict[str, str] = {}
    try:
        with open_text(file.path, where) as stream:
            header = read_header(stream, file, None, Findings(), labelled=True)
            lower = [name.lower() for name in header.names] if header is not None else []
            column = next((lower.index(name) for name in FILE_NAMES if name in lower), None)
            if header is None or column is None:
                return None
            rows = read_rows(stream, header.delimiter, where, above=header.line)
            for row, cells in enumerate(rows, 1):
                if not any(cell.strip() for cell in cells):
                    continue
                if len(cells) != len(header.names):
                    text = f"it has {len(cells)} cells, the first row has {len(header.names)}"
                    findings.row(where, row, text)
                    continue
                name, label = plain(cells[column]).removeprefix("./"), plain(cells[header.labels[0]])
                if not label:
                    findings.row(where, row, "the label is empty", fix="fill it in or remove the row")
                elif labels.setdefault(name, label) != label:
                    findings.row(where, row, f"{name!r} already has the label {labels[name]!r}")
    except TenantError as error:
        findings.problems.extend(error.problems)
    return labels
