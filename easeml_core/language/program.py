"""The syntax tree of a program, and its canonical text.

A data type is a recursive record (Li et al., Ease.ml, PVLDB 11(5), section 2): constant-size tensors, and
names of links to another object of the same type. No link is flat data, one a chain (a time series), two
a binary tree.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_DIM = 999_999_999
_NAME = re.compile(r"[a-z0-9_]+")


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of constant size, optionally named: `Tensor[28, 28, 1]`, `picture :: Tensor[28, 28, 1]`.

    `dims` holds at least one dimension, each from 1 to `MAX_DIM`. Raises ValueError otherwise.
    """

    dims: tuple[int, ...]
    name: str | None = None

    def __post_init__(self) -> None:
        if not self.dims or not all(1 <= dim <= MAX_DIM for dim in self.dims):
            raise ValueError(f"dimensions are whole numbers from 1 to {MAX_DIM}; got {list(self.dims)}")
        if self.name is not None:
            _check_name(self.name)

    def __str__(self) -> str:
        shape = f"Tensor[{', '.join(map(str, self.dims))}]"
        return shape if self.name is None else f"{self.name} :: {shape}"


@dataclass(frozen=True, slots=True)
class DataType:
    """One side of a program: its tensors, and its links to objects of the same type, in order.

    All names within it differ. Raises ValueError otherwise.
    """

    tensors: tuple[Tensor, ...] = ()
    links: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for link in self.links:
            _check_name(link)
        if len(set(self.names)) < len(self.names):
            raise ValueError(f"a name is given twice: {', '.join(self.names)}")

    @property
    def names(self) -> tuple[str, ...]:
        """All names in use, of tensors first, then of links."""
        return (*(tensor.name for tensor in self.tensors if tensor.name is not None), *self.links)

    def __str__(self) -> str:
        return f"{{[{', '.join(map(str, self.tensors))}], [{', '.join(self.links)}]}}"


@dataclass(frozen=True, slots=True)
class Program:
    """What goes in and what comes out.

    >>> print(Program(DataType((Tensor((28, 28, 1)),)), DataType((Tensor((10,)),))))
    {input: {[Tensor[28, 28, 1]], []}, output: {[Tensor[10]], []}}
    """

    input: DataType
    output: DataType

    def __str__(self) -> str:
        return f"{{input: {self.input}, output: {self.output}}}"

    @property
    def shape(self) -> tuple[tuple[tuple[int, ...], ...], int, tuple[tuple[int, ...], ...], int]:
        """Sizes and link counts without the names: equal shapes accept the same data."""
        return (
            tuple(tensor.dims for tensor in self.input.tensors),
            len(self.input.links),
            tuple(tensor.dims for tensor in self.output.tensors),
            len(self.output.links),
        )


def _check_name(name: str) -> None:
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"a field name is made of a-z, 0-9 and _; got {name!r}")
