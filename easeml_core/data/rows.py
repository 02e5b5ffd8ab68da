"""The rows of a table in a text file, cell by cell."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from itertools import chain

from easeml_core.errors import Problem, TenantError

csv.field_size_limit(1 << 24)


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
