"""Reads Parquet tables: columns mean what they mean in CSV, and rows count from 1 (see `header`, `tables`).

Numbers, text, and true or false can be cells; a null or NaN is an empty one. The index that pandas adds
without being asked is no column.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from easeml_core.data.findings import Findings, listed
from easeml_core.data.forms import Example, Form
from easeml_core.data.header import match_columns, name_columns
from easeml_core.data.tables import Rows
from easeml_core.data.text import plain
from easeml_core.data.tree import SourceFile

if TYPE_CHECKING:
    import pyarrow as pa

_CELLS = 1 << 18  # that are in memory at a time
_PANDAS_INDEX = "__index_level_"


def read_parquet(
    file: SourceFile, form: Form, max_rows: int, findings: Findings, *, labelled: bool
) -> Iterator[Example]:
    """The examples of one table; problems and broken rows go to `findings`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    where = f"data/{file.name}"
    try:
        # Text as a dictionary: one long text that a million rows share is in memory once.
        columns = columns_of(pq.read_schema(file.path))
        text = [field.name for field in columns if _is_text(field.type)]
        opened = pq.ParquetFile(file.path, read_dictionary=text, memory_map=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        findings.problem(where, f"cannot be read: {error}", fix="write it again as Parquet, or as CSV")
        return
    with opened:
        if not _check(opened.metadata.num_rows, columns, where, max_rows, findings):
            return
        names = [plain(field.name) for field in columns]
        header = name_columns(names, "", True, 0, where, form, findings, labelled=labelled)
        if header is not None:
            header = match_columns(header, where, form, findings)
        if header is None:
            return
        size = max(1, _CELLS // len(columns))
        try:
            batches = opened.iter_batches(size, columns=[field.name for field in columns])
            yield from Rows(file, header, form, findings, labelled).read(
                list(cells) for batch in batches for cells in zip(*map(_cells, batch.columns), strict=True)
            )
        except (pa.ArrowException, OSError) as error:
            findings.problem(where, f"cannot be read: {error}", fix="write it again as Parquet, or as CSV")


def columns_of(schema: pa.Schema) -> list[pa.Field]:
    """The columns that a tenant meant."""
    return [field for field in schema if not field.name.startswith(_PANDAS_INDEX)]


def _check(rows: int, columns: list[pa.Field], where: str, max_rows: int, findings: Findings) -> bool:
    import pyarrow.types as types

    odd = [
        f"{field.name} ({field.type})"
        for field in columns
        if not (
            _is_text(field.type)
            or types.is_integer(field.type)
            or types.is_floating(field.type)
            or types.is_decimal(field.type)
            or types.is_boolean(field.type)
        )
    ]
    if odd:
        text = f"has columns of neither numbers nor text: {listed(odd)}"
        findings.problem(where, text, fix="leave them out, or write them as numbers")
    elif not rows or not columns:
        findings.problem(where, "has no rows in it")
    elif rows > max_rows:
        findings.problem(where, f"has {rows:,} rows; at most {max_rows:,} are read")
    else:
        return True
    return False


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow.types as types

    if types.is_dictionary(kind):
        kind = kind.value_type
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _cells(column: pa.Array) -> list[str]:
    """The cells of a column as CSV would write them."""
    import pyarrow.types as types

    if types.is_dictionary(column.type):
        words = [str(word) for word in column.dictionary.to_pylist()]
        return ["" if index is None else words[index] for index in column.indices.to_pylist()]
    return [_cell(value) for value in column.to_pylist()]


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return str(int(value))
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value)) if whole else str(value)
