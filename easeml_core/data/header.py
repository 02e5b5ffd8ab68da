"""Finds out how a table is delimited, whether its first row names the columns, and which is which.

The label column is `label`, `target`, `class` or `y`, else the last; several values to predict are in columns
of such a name and a number (`y1`, `y2` or `target_1`, `target_2`), in the order of the numbers, else the last
ones. A column `id` names the examples. A first column without a name is the index that pandas and R write
without being asked: it is no column. The others are features: they are matched by name with those of other
tables and of the data version before, or, without a header, by position.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import IO

from easeml_core.data.findings import Findings, listed
from easeml_core.data.forms import Form
from easeml_core.data.rows import read_rows
from easeml_core.data.text import number, plain
from easeml_core.data.tree import SourceFile

LABEL_NAMES = ("label", "target", "class", "y")
FILE_NAMES = ("file", "filename", "image", "path")
_DELIMITERS = ",;\t|"
DELIMIT = "delimit it by comma, semicolon, tab or |"
_EXCEL = re.compile(r"\ufeff?sep=.\s*", re.IGNORECASE)  # its word for the delimiter; the header shows it too
# Not read, for names may have such characters: they only explain what went wrong.
_ODD_DELIMITERS = {"^": "^", "~": "~", ":": "colons", " ": "spaces"}


@dataclass(frozen=True)
class Header:
    """Columns of a table: their `names`, whether those were `given`, the positions of the id, of the labels
    and of the features; `line` counts the lines of the file above the first row. `index`: cells before the
    first column in each row, 1 where there is an index that is no column."""

    names: tuple[str, ...]
    delimiter: str
    given: bool
    id: int | None
    labels: tuple[int, ...]
    features: tuple[int, ...]
    line: int
    index: int = 0

    @property
    def width(self) -> int:
        """Cells of a row."""
        return self.index + len(self.names)


def read_header(
    stream: IO[str], file: SourceFile, form: Form | None, findings: Findings, *, labelled: bool
) -> Header | None:
    """Find delimiter and columns; leaves `stream` at the first row. None after noting a problem.

    Raises `TenantError` where a quote is left open in the header.
    """
    where = f"data/{file.name}"
    line, above = "", -1
    start = stream.tell()
    while not line.strip() or _EXCEL.fullmatch(line):
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
    index = int(given and len(names) > 1 and not names[0])
    if index:
        findings.converted[f"{where}:index"] = "the first column has no name: taken for an index, left out"
    header = name_columns(names[index:], delimiter, given, above, where, form, findings, labelled=labelled)
    return None if header is None else replace(header, index=index)


def name_columns(
    names: Sequence[str],
    delimiter: str,
    given: bool,
    above: int,
    where: str,
    form: Form | None,
    findings: Findings,
    *,
    labelled: bool,
) -> Header | None:
    """Which column is what, by their `names`; see `Header` for the rest. None after noting a problem."""
    lower = [name.lower() for name in names]
    if "" in lower:
        fix = "name it, or remove it with all its cells"
        findings.problem(where, f"column {lower.index('') + 1} of {len(lower)} has no name", fix=fix)
        return None
    double = [name for name, count in Counter(lower).items() if count > 1]
    if double:
        findings.problem(where, f"two columns are called {double[0]!r}", fix="rename one of them")
        return None
    ident = lower.index("id") if "id" in lower else None
    labels = _label_columns(lower, ident, form, labelled)
    features = tuple(i for i in range(len(names)) if i != ident and i not in labels)
    return Header(tuple(names), delimiter, given, ident, labels, features, above)


def _sniff(line: str) -> str:
    outside = "".join(line.split('"')[::2])
    return max(_DELIMITERS, key=lambda d: (outside.count(d), -_DELIMITERS.index(d)))


def _is_header(cells: list[str], below: Iterator[list[str]]) -> bool | None:
    """Whether the first row names the columns; None where nobody can tell.

    It does where no cell is a number, where a cell is a known name (`label`, `id` …), and where the cells
    count 0, 1, 2 … as pandas writes unnamed columns, and numbers with a point below them show that they are
    no data. Numbers and one known name, as in `1.5,2,y`, may be data all the same: it is if that word is in
    its column again in a row `below`.
    """
    known = [i for i, cell in enumerate(cells) if cell.lower() in (*LABEL_NAMES, *FILE_NAMES, "id")]
    others = [cell for i, cell in enumerate(cells) if i not in known and cell]
    numeric = [cell for cell in others if number(cell) is not None]
    if not cells[0] and numeric == list(map(str, range(len(cells) - 1))):
        return True
    counting = numeric in (list(map(str, range(len(numeric)))), list(map(str, range(1, len(numeric) + 1))))
    if len(known) == 1 and numeric and numeric == others:
        return _is_name(cells, known[0], counting, below)
    if known:
        return True
    if not numeric:
        return any(cells)
    if len(cells) < 3 or numeric != cells or cells != list(map(str, range(len(cells)))):
        return False
    return True if any(set(cell) & set(".eE") for row in below for cell in row) else None


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


def match_columns(header: Header, where: str, form: Form, findings: Findings) -> Header | None:
    """`header` with its features and labels in the order of the other data; None after noting a problem.

    That order is the one of the data version before, where this table has the same columns, else that of the
    first table read. What is to be predicted may have columns besides.
    """
    if form.kind == "series":
        if form.shape != (1,):
            text = f"a table holds series of one value per step; the program wants {form.size}"
            findings.problem(where, text, fix="use .ts or .npz for several values per step")
            return None
        return header
    named = {name: i for i, name in enumerate(header.names)}
    wanted = _known_order("columns", [header.names[i] for i in header.features], header, findings)
    if wanted is not None and header.given and all(name in named for name in wanted):
        features = tuple(named[name] for name in wanted)
        rest = [i for i in range(len(named)) if i != header.id and i not in features]
        if header.labels and len(rest) == len(header.labels):
            header = replace(header, labels=tuple(rest) if len(rest) == 1 else header.labels)
        if not header.labels or sorted(rest) == sorted(header.labels):
            return _match_targets(replace(header, features=features), where, findings)
    if wanted is not None and header.given:
        _refuse([header.names[i] for i in header.features], wanted, where, findings)
        return None
    if len(header.features) != form.size:
        seen = "tab" if header.delimiter == "\t" else header.delimiter
        split = f" (delimiter {seen!r})" if seen else ""
        text = (
            f"has {len(header.features)} columns beside {'id and ' if header.id is not None else ''}label"
            f"{split}; the program wants {form.size}"
        )
        fix = "change the program in task.yaml or the columns"
        if form.kind == "image":
            fix = "write `file,label` above its rows where it names images, else as many columns as pixels"
            if {name.lower() for name in header.names} & {*FILE_NAMES}:
                text, fix = "names images, of which there are none under data/", "upload them, too"
        if odd := odd_delimiter(header):
            text, fix = f"{text}; {odd}", DELIMIT
        findings.problem(where, text, fix=fix)
        return None
    if not header.given:
        if wanted is not None:
            findings.warnings.append(f"{where} names no columns: they were taken to be {listed(wanted)}")
        return header
    findings.converted["columns"] = [header.names[i] for i in header.features]
    return _match_targets(header, where, findings)


def odd_delimiter(header: Header) -> str | None:
    """What a table of one column seems to be delimited by that tables may not be, in words."""
    if len(header.names) > 1:
        return None
    odd = next((d for d in _ODD_DELIMITERS if d in header.names[0]), None)
    return None if odd is None else f"it seems to be delimited by {_ODD_DELIMITERS[odd]}"


def _known_order(kind: str, names: list[str], header: Header, findings: Findings) -> list[str] | None:
    """The order that columns of a `kind` had in the tables before, or in the data version before."""
    order: list[str] | None = findings.converted.get(kind)
    earlier = findings.earlier.get(kind)
    if order is None and earlier is not None and header.given and sorted(earlier) == sorted(names):
        order = findings.converted[kind] = list(earlier)
    return order


def _match_targets(header: Header, where: str, findings: Findings) -> Header | None:
    """Several values to predict keep the order of their names, too."""
    if len(header.labels) < 2:
        return header
    names = [header.names[i] for i in header.labels]
    wanted = _known_order("targets", names, header, findings)
    if wanted is None:
        wanted = findings.converted["targets"] = names
    if sorted(names) != sorted(wanted):
        _refuse(names, wanted, where, findings)
        return None
    return replace(header, labels=tuple(header.names.index(name) for name in wanted))


def _refuse(names: list[str], wanted: list[str], where: str, findings: Findings) -> None:
    missing = [name for name in wanted if name not in names]
    besides = [name for name in names if name not in wanted]
    said = [f"it lacks {listed(missing)}"] if missing else []
    said += [f"it has {listed(besides)} besides"] if besides else []
    text = f"its columns differ from those of the other data: {' and '.join(said)}"
    findings.problem(where, text, fix="name the columns alike everywhere")
