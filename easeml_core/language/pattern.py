"""Patterns of template rows, written as in the paper: `{[Tensor[A], *], [a]}`.

Capital letters stand for dimensions, small ones for link names, `*` for the tail of a list (none or more
further elements); `{*, *}` is anything. A variable that occurs twice must bind to the same value twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from easeml_core.language.program import DataType

Bindings = dict[str, int | str]

_GRAMMAR = r"""
start: "{" list "," list "}"
list: STAR | "[" [item ("," item)*] "]"
?item: tensor | LINK | STAR
tensor: "Tensor" "[" DIM ("," DIM)* "]"
DIM: /[A-Z]/
LINK: /[a-z]/
STAR: "*"
%ignore /\s+/
"""


class Mismatch(Exception):  # noqa: N818 - an answer, not a fault
    """Why a data type does not fit a pattern, for people; its subject is the input or the output."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """One side of a template row: a tuple of dimension variables per tensor, link variables, open tails."""

    tensors: tuple[tuple[str, ...], ...]
    more_tensors: bool
    links: tuple[str, ...]
    more_links: bool

    def bind(self, data_type: DataType, bindings: Bindings) -> Bindings:
        """`bindings` with those of `data_type` added. Raises `Mismatch` with the reason."""
        bindings = dict(bindings)
        _check_count("tensor", len(data_type.tensors), len(self.tensors), self.more_tensors)
        for number, (variables, tensor) in enumerate(zip(self.tensors, data_type.tensors, strict=False), 1):
            if len(variables) != len(tensor.dims):
                raise Mismatch(
                    f"has {_count(len(tensor.dims), 'dimension')} in tensor {number} ({tensor}), "
                    f"this row wants {len(variables)} (Tensor[{', '.join(variables)}])"
                )
            for variable, dim in zip(variables, tensor.dims, strict=True):
                _bind(bindings, variable, dim)
        _check_count("link", len(data_type.links), len(self.links), self.more_links)
        for variable, link in zip(self.links, data_type.links, strict=False):
            _bind(bindings, variable, link)
        return bindings


@cache
def parse_pattern(text: str) -> Pattern:
    """Parse a pattern's text. Raises ValueError: patterns are ours, so a wrong one is a bug."""
    from lark import Lark
    from lark.exceptions import LarkError

    try:
        tree = Lark(_GRAMMAR, parser="lalr").parse(text)
    except LarkError as error:
        raise ValueError(f"not a pattern: {text!r}: {error}") from error
    tensors, more_tensors = _items(tree.children[0], text)
    links, more_links = _items(tree.children[1], text)
    if any(isinstance(item, str) for item in tensors) or any(isinstance(item, tuple) for item in links):
        raise ValueError(f"tensors go in the first list, links in the second: {text!r}")
    return Pattern(tuple(map(tuple, tensors)), more_tensors, tuple(map(str, links)), more_links)


def _items(tree: Any, text: str) -> tuple[list[str | tuple[str, ...]], bool]:
    items: list[str | tuple[str, ...]] = []
    for child in tree.children:
        if child is None:
            continue
        children = getattr(child, "children", None)
        items.append(str(child) if children is None else tuple(map(str, children)))
    more = bool(items) and items[-1] == "*"
    if more:
        items.pop()
    if "*" in items:
        raise ValueError(f"`*` stands only at the end of a list: {text!r}")
    return items, more


def _check_count(what: str, count: int, wanted: int, more: bool) -> None:
    if count == wanted or (more and count > wanted):
        return
    allowed = _count(wanted, what) if wanted else f"no {what}"
    raise Mismatch(f"has {_count(count, what)}, this row wants {'at least ' if more else ''}{allowed}")


def _bind(bindings: Bindings, variable: str, value: int | str) -> None:
    if bindings.setdefault(variable, value) != value:
        raise Mismatch(f"has {value}, where {variable} already stands for {bindings[variable]}")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
