"""What a data set or a module looks like in ease.ml's own terms: nodes, fields, links, classes, constraints.

This is the form of `schema.json` files of the open ease.ml engine (Karlaš et al., Ease.ml in Action, PVLDB
11(12)). It says more than a program does: categories, several kinds of nodes, named dimensions, bounds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Dim = int | str
"""A size, or a name that stands for one; in a tensor a name may end with `?`, `+` or `*` (`wildcard`)."""

SINGLE = "field"
"""How the one field of a singleton is called; in files it has no name of its own."""
_NAME = re.compile(r"[a-z_][0-9a-z_]*", re.ASCII)
WILDCARDS = {"?": (0, 1), "+": (1, None), "*": (0, None)}
"""How often a dimension with this ending may stand there; None is without a limit."""


def is_name(value: Any) -> bool:
    """Whether `value` may name a node, a field, a class or a dimension."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def wildcard(dim: Dim) -> str | None:
    """The ending `?`, `+` or `*` of a dimension, if it has one."""
    return dim[-1] if isinstance(dim, str) and dim[-1] in WILDCARDS else None


@dataclass(frozen=True, slots=True)
class Tensor:
    """A field that holds numbers. `src_name` and `src_dims`, set by a match, say what it was matched to."""

    dims: tuple[Dim, ...]
    src_name: str | None = None
    src_dims: tuple[Dim, ...] | None = None

    def __str__(self) -> str:
        return f"tensor [{', '.join(map(str, self.dims))}]"

    def as_dict(self) -> dict[str, Any]:
        """As in `schema.json`."""
        values: dict[str, Any] = {"type": "tensor", "dim": list(self.dims)}
        if self.src_name is not None:
            values["src-name"] = self.src_name
        if self.src_dims is not None:
            values["src-dim"] = list(self.src_dims)
        return values


@dataclass(frozen=True, slots=True)
class Category:
    """A field that holds one value of a class."""

    of: str
    src_name: str | None = None

    def __str__(self) -> str:
        return f"category of {self.of}"

    def as_dict(self) -> dict[str, Any]:
        """As in `schema.json`."""
        values = {"type": "category", "class": self.of}
        return values if self.src_name is None else {**values, "src-name": self.src_name}


Field = Tensor | Category


@dataclass(frozen=True, slots=True)
class Link:
    """How many links an instance has to a node, if it has any; `high` is None without a limit."""

    low: int
    high: int | None

    def holds(self, other: Link) -> bool:
        """Whether every number that `other` allows is allowed here too."""
        within = self.high is None or (other.high is not None and other.high <= self.high)
        return self.low <= other.low and within

    def __str__(self) -> str:
        return f"{self.low} to {'inf' if self.high is None else self.high}"

    def as_list(self) -> list[Dim]:
        """As in `schema.json`."""
        return [self.low, "inf" if self.high is None else self.high]


@dataclass(frozen=True, slots=True)
class Node:
    """A singleton, which is its one field, or a kind of instances with fields and links to other kinds."""

    singleton: bool
    fields: Mapping[str, Field]
    links: Mapping[str, Link] = field(default_factory=dict)
    src_name: str | None = None

    def of_type(self, kind: type[Field]) -> dict[str, Field]:
        """The fields that are tensors, or categories."""
        return {name: held for name, held in self.fields.items() if isinstance(held, kind)}

    def as_dict(self) -> dict[str, Any]:
        """As in `schema.json`."""
        values: dict[str, Any] = {"singleton": self.singleton}
        if self.singleton:
            values |= next(iter(self.fields.values())).as_dict()
        else:
            values["fields"] = {name: held.as_dict() for name, held in sorted(self.fields.items())}
            if self.links:
                values["links"] = {name: link.as_list() for name, link in sorted(self.links.items())}
        return values if self.src_name is None else {**values, "src-name": self.src_name}


@dataclass(frozen=True, slots=True)
class Class:
    """A set of `dim` category values; a name where the number is open."""

    dim: Dim
    src_name: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """As in `schema.json`."""
        return {"dim": self.dim} if self.src_name is None else {"dim": self.dim, "src-name": self.src_name}


@dataclass(frozen=True, slots=True)
class Schema:
    """One side of a task: what goes in, or what comes out.

    `cyclic`: links may form a cycle. `undirected`: every link has its reverse. `fan_in`: an instance may be
    linked to more than once (more than twice where undirected). `src_dims` is set by a match: what each named
    dimension stands for. `load_schema` checks what must hold between the parts.
    """

    nodes: Mapping[str, Node]
    classes: Mapping[str, Class] = field(default_factory=dict)
    cyclic: bool = False
    undirected: bool = False
    fan_in: bool = False
    src_dims: Mapping[str, Dim] | None = None

    @property
    def singletons(self) -> dict[str, Node]:
        """Nodes that are a single field."""
        return {name: node for name, node in self.nodes.items() if node.singleton}

    @property
    def collections(self) -> dict[str, Node]:
        """Nodes with any number of instances."""
        return {name: node for name, node in self.nodes.items() if not node.singleton}

    def as_dict(self) -> dict[str, Any]:
        """The canonical form, JSON-ready: names sorted, bounds and constraints written out."""
        values: dict[str, Any] = {
            "nodes": {name: node.as_dict() for name, node in sorted(self.nodes.items())}
        }
        if self.classes:
            values["classes"] = {name: held.as_dict() for name, held in sorted(self.classes.items())}
        values["ref-constraints"] = {
            "cyclic": self.cyclic,
            "undirected": self.undirected,
            "fan-in": self.fan_in,
        }
        if self.src_dims is not None:
            values["src-dims"] = dict(sorted(self.src_dims.items()))
        return values
