"""Reads the fields of a sample of an ease.ml data set directory: tensors, and categories as 0 and 1."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt

from easeml_core.data.array_files import open_npy
from easeml_core.data.records import MAX_NODES, Malformed
from easeml_core.data.sources import CATEGORY_END, CLASS_END
from easeml_core.data.text import number, open_text, plain
from easeml_core.data.tree import SourceFile
from easeml_core.language import DataType, Tensor

_LARGEST_CSV = 64 << 20  # bytes; the text of a tensor, which is read as a whole


def in_order(places: list[str], record: DataType) -> list[str]:
    """The files of a record's tensors, in the program's order: by name, else by the order of their names."""
    if len(places) != len(record.tensors):
        raise Malformed(f"it has {len(places)} tensors per record; the program wants {len(record.tensors)}")
    by_name = {PurePosixPath(place).name.partition(".")[0]: place for place in places}
    names = [tensor.name for tensor in record.tensors]
    if all(name in by_name for name in names):
        return [by_name[str(name)] for name in names]
    return sorted(places)


def rows_of(
    file: SourceFile, tensor: Tensor, many: bool, classes: Sequence[tuple[str, ...]]
) -> npt.NDArray[Any]:
    """The numbers of one field, a row per record; of a category, 1 where its class is among the first of
    `classes` that fits. Raises `Malformed`."""
    if file.name.lower().endswith(CATEGORY_END):
        return _one_hot(file, math.prod(tensor.dims), classes)
    array = _table(file) if file.suffix == ".csv" else _array(file)
    if array.dtype.kind not in "iuf" or array.size == 0:
        raise Malformed(f"{PurePosixPath(file.name).name} must be an array of numbers, and not empty")
    size = math.prod(tensor.dims)
    if many and len(array) > MAX_NODES:
        raise Malformed(f"it has more than {MAX_NODES:,} records")
    fits = array.shape == tensor.dims or (file.suffix == ".csv" and array.size == size)
    if many:
        fits = array.shape[1:] == tensor.dims or (file.suffix == ".csv" and array.shape[1:] == (size,))
    if not fits:
        wanted = ("records, " if many else "") + ", ".join(map(str, tensor.dims))
        raise Malformed(f"{PurePosixPath(file.name).name} has shape {array.shape}; wanted is ({wanted})")
    return array.reshape(len(array) if many else 1, size)


def _one_hot(file: SourceFile, size: int, classes: Sequence[tuple[str, ...]]) -> npt.NDArray[Any]:
    values = read_names(file)
    known = next((names for names in classes if len(names) == size and set(values) <= set(names)), None)
    if known is None or not values:
        name = PurePosixPath(file.name).name
        raise Malformed(f"{name} names no classes out of one list `<class>{CLASS_END}` of {size}")
    return np.eye(size)[[known.index(value) for value in values]]


def read_names(file: SourceFile) -> tuple[str, ...]:
    """The lines of a file that are not empty. Raises `TenantError` where it is no text."""
    with open_text(file.path, f"data/{file.name}") as stream:
        return tuple(plain(line) for line in stream if line.strip())


def _array(file: SourceFile) -> npt.NDArray[Any]:
    try:
        return open_npy(file.path)
    except Exception as error:  # numpy raises many classes on broken input
        raise Malformed(f"{PurePosixPath(file.name).name} cannot be read: {error}") from None


def _table(file: SourceFile) -> npt.NDArray[Any]:
    if file.path.stat().st_size > _LARGEST_CSV:
        raise Malformed(f"{PurePosixPath(file.name).name} is too large for text; save it as .ten.npy")
    with open_text(file.path, f"data/{file.name}") as stream:
        rows = [[number(cell) for cell in line.strip().split(",")] for line in stream if line.strip()]
    if len({len(row) for row in rows}) > 1 or any(cell is None for row in rows for cell in row):
        raise Malformed(f"{PurePosixPath(file.name).name} must be rows of as many numbers, with commas")
    return np.array(rows, dtype=np.float64)
