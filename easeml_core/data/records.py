"""Objects of a program's type, as JSON writes them, turned into arrays.

M nodes, A numbers per node (all tensors of the type, flattened, in order), R links. Nodes come in pre-order:
the root first, then what its first link leads to with all below, and so on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from easeml_core.language.program import DataType

NODES, CHILDREN = "nodes", "children"
MAX_NODES = 1_000_000  # of one object: what a list of steps may hold
_NONE = -1


class Malformed(Exception):  # noqa: N818 - a finding about an example, not a fault
    """Why an object is not of its type, in words for its tenant; "it" is the object."""


@dataclass(frozen=True, slots=True)
class Nodes:
    """`values` (M, A) float32, finite; `children` (M, R) int64: position of each child, -1 for none."""

    values: npt.NDArray[np.float32]
    children: npt.NDArray[np.int64]

    def as_bytes(self) -> npt.NDArray[np.uint8]:
        """(total, 1): node by node the little-endian float32 of its values and, where there are two links or
        more, a byte per link, 1 where it leads on. Of one link, the number of nodes says as much."""
        numbers = self.values.astype("<f4").view(np.uint8).reshape(len(self.values), -1)
        if self.children.shape[1] > 1:
            numbers = np.concatenate([numbers, (self.children != _NONE).astype(np.uint8)], axis=1)
        return numbers.reshape(-1, 1)


def read_object(value: Any, record: DataType) -> Nodes:
    """Turn parsed JSON into nodes. Raises `Malformed`.

    A record is a mapping of its tensors' names (`value` for the only one without a name, else `value_1`,
    `value_2` …) and of its links, each a record or null; one with a single tensor may be that alone. A chain
    may be a list of records. Any links may also be written flat, however deep they go:
    `{"nodes": [record, …], "children": [[1, 2], [-1, -1], …]}`.
    """
    links = len(record.links)
    if links == 1 and isinstance(value, list):
        values = _rows(value, record)
        return Nodes(values, chain(len(values)))
    flat = isinstance(value, dict) and value.keys() == {NODES, CHILDREN}
    if flat and links and not {NODES, CHILDREN} & set(record.names):
        values = _rows(value[NODES], record)
        return arrange(values, _children(value[CHILDREN], links))
    return _nested(value, record)


def arrange(values: npt.NDArray[np.float32], children: npt.NDArray[np.int64]) -> Nodes:
    """Bring nodes in any order into pre-order. Raises `Malformed` where their links make no tree."""
    count, links = children.shape
    if count != len(values):
        raise Malformed(f"it has {len(values)} nodes and children of {count}")
    given = children[children != _NONE]
    if given.size and not (given.min() >= 0 and given.max() < count):
        raise Malformed(f"its children must be from 0 to {count - 1}, or -1 for none")
    parents = np.bincount(given, minlength=count)
    if parents.max() > 1:
        raise Malformed(f"node {int(parents.argmax())} is the child of more than one node")
    roots = np.flatnonzero(parents == 0)
    if len(roots) != 1:
        seen = f"{len(roots)} roots" if len(roots) else "no root: its links lead in a circle"
        raise Malformed(f"it has {seen}; every node but one must be a child")
    order, stack = [], [int(roots[0])]
    below = children.tolist()
    while stack:
        node = stack.pop()
        order.append(node)
        stack += [child for child in reversed(below[node]) if child != _NONE]
    if len(order) < count:
        raise Malformed(f"{count - len(order)} of its nodes lead in a circle")
    place = np.full(count + 1, _NONE, dtype=np.int64)  # the last one is what -1 finds
    place[order] = np.arange(count)
    return Nodes(values[order], place[children[order]].reshape(count, links))


def chain(count: int) -> npt.NDArray[np.int64]:
    """The children (count, 1) of nodes of which each leads to the next."""
    following = np.arange(1, count + 1, dtype=np.int64)
    following[-1] = _NONE
    return following[:, None]


def _children(value: Any, links: int) -> npt.NDArray[np.int64]:
    rows = value if isinstance(value, list) else []
    plain = [[_NONE if child is None else child for child in row] for row in rows if isinstance(row, list)]
    try:
        children = np.asarray(plain)
    except ValueError:
        children = np.zeros(0)
    if children.dtype.kind != "i" or len(plain) != len(rows) or children.shape[1:] != (links,):
        raise Malformed(f"its children must be rows of {links} whole numbers, -1 or null for none")
    return children.astype(np.int64)


def _nested(value: Any, record: DataType) -> Nodes:
    values: list[npt.NDArray[np.float32]] = []
    children: list[list[int]] = []
    stack: list[tuple[Any, int, int]] = [(value, _NONE, 0)]
    while stack:
        item, parent, link = stack.pop()
        here = len(values)
        if here >= MAX_NODES:
            raise Malformed(f"it has more than {MAX_NODES:,} nodes")
        if parent != _NONE:
            children[parent][link] = here
        values.append(_numbers(item, record))
        children.append([_NONE] * len(record.links))
        below = item if isinstance(item, dict) else {}
        for number in reversed(range(len(record.links))):
            child = below.get(record.links[number])
            if child is not None:
                stack.append((child, here, number))
    links = np.array(children, dtype=np.int64).reshape(len(values), len(record.links))
    return Nodes(np.stack(values), links)


def _rows(value: Any, record: DataType) -> npt.NDArray[np.float32]:
    """Records without links, (M, A)."""
    if not isinstance(value, list) or not value:
        raise Malformed("it has no values")
    if len(value) > MAX_NODES:
        raise Malformed(f"it has more than {MAX_NODES:,} nodes")
    if any(isinstance(item, dict) for item in value):
        return np.stack([_numbers(item, record, alone=True) for item in value])
    (dims,) = [tensor.dims for tensor in record.tensors] if len(record.tensors) == 1 else [None]
    if dims is None:
        raise Malformed(f"each of its records must be a mapping with {', '.join(keys_of(record))}")
    array = _array(value)
    size = math.prod(dims)
    if array.shape[1:] not in (dims, (size,), () if size == 1 else dims):
        raise Malformed(
            f"its values have shape {array.shape}; the program wants ({_shown(('records', *dims))})"
        )
    return finite_numbers(array.reshape(len(value), size))


def _numbers(item: Any, record: DataType, *, alone: bool = False) -> npt.NDArray[np.float32]:
    """The numbers of one record, (A,). `alone`: it may have no links."""
    keys = keys_of(record)
    if not isinstance(item, dict):
        if len(keys) != 1:
            raise Malformed(f"it must be a mapping with {', '.join(keys)}")
        item = {keys[0]: item}
    links = () if alone else record.links
    odd = item.keys() - {*keys, *links}
    if odd:
        allowed = ", ".join((*keys, *links))
        raise Malformed(f"it has the unknown field {min(odd)[:40]!r}; allowed: {allowed}")
    parts = []
    for key, tensor in zip(keys, record.tensors, strict=True):
        if key not in item:
            raise Malformed(f"it has a record without {key}")
        array = _array(item[key])
        size = math.prod(tensor.dims)
        if array.shape not in (tensor.dims, (size,), () if size == 1 else tensor.dims):
            raise Malformed(f"{key} has shape {array.shape}; the program wants ({_shown(tensor.dims)})")
        parts.append(array.reshape(size))
    return finite_numbers(np.concatenate(parts))


def _array(value: Any) -> npt.NDArray[Any]:
    try:
        array = np.asarray(value)
    except ValueError:
        raise Malformed("it has rows of different lengths where an array is needed") from None
    if array.dtype.kind not in "iuf" or array.size == 0:
        raise Malformed("it has no values" if array.size == 0 else "it has a value that is no number")
    return array


def finite_numbers(array: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """`array` in 32 bits. Raises `Malformed` where a number is not finite, or too large."""
    with np.errstate(over="ignore"):
        numbers = array.astype(np.float32)
    if not np.isfinite(numbers).all():
        raise Malformed("it has a value that is not a finite number")
    return numbers


@lru_cache(maxsize=8)
def keys_of(record: DataType) -> tuple[str, ...]:
    """What each tensor is called."""
    single = sum(tensor.name is None for tensor in record.tensors) == 1
    keys: list[str] = []
    for number, tensor in enumerate(record.tensors, 1):
        name = tensor.name or ("value" if single else f"value_{number}")
        while tensor.name is None and name in (*record.names, *keys):
            name += "_"
        keys.append(name)
    return tuple(keys)


def _shown(dims: tuple[int | str, ...]) -> str:
    return ", ".join(map(str, dims)) + ("," if len(dims) == 1 else "")
