"""Whether a module can take a data set: which node, field, class and dimension stands for which.

The rules are those of the open ease.ml engine: constraints first, then nodes and fields in any order, link
bounds of the data within those of the module, and what a name stands for is the same everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from easeml_core.schema.formulate import Written, write
from easeml_core.schema.model import SINGLE, Dim, Field, Node, Schema, Tensor
from easeml_core.schema.puzzle import Solution
from easeml_core.schema.search import MAX_STEPS, Search


@dataclass(frozen=True, slots=True)
class Mapped:
    """A match. Keys are the module's names, values the data set's.

    `fields` is by node; the one field of a singleton is not listed. `dims` holds the named dimensions that
    stand for something, without `?`, `+` and `*`.
    """

    nodes: Mapping[str, str]
    fields: Mapping[str, Mapping[str, str]]
    classes: Mapping[str, str]
    dims: Mapping[str, Dim]


@dataclass(frozen=True, slots=True)
class Unmatched:
    """No match, and every reason that could be told, in words."""

    reasons: tuple[str, ...]


def match_schemas(module: Schema, data: Schema, *, max_steps: int = MAX_STEPS) -> Mapped | Unmatched:
    """Match the schema of a data set against that of a module.

    Raises `TooHard` where neither answer was found within `max_steps`, which take less than a second.
    """
    reasons = [*_constraints(module, data), *_counts(module, data)]
    if reasons:
        return Unmatched(tuple(reasons))
    written = write(module, data)
    if written.reasons:
        return Unmatched(tuple(written.reasons))
    solution = Search(written.puzzle, max_steps).solve()
    return Unmatched((_together(module),)) if solution is None else _mapped(written, solution)


def annotated(module: Schema, mapped: Mapped, data: Schema) -> Schema:
    """The module's schema with `src-name`, `src-dim` and `src-dims`, by which modules find their fields."""

    def field(node: str, key: str, held: Field) -> Field:
        src_key = SINGLE if key == SINGLE else mapped.fields[node][key]
        src_name = None if key == SINGLE else src_key
        if isinstance(held, Tensor):
            source = data.nodes[mapped.nodes[node]].fields[src_key]
            return replace(
                held, src_name=src_name, src_dims=source.dims if isinstance(source, Tensor) else None
            )
        return replace(held, src_name=src_name)

    nodes = {
        name: Node(
            node.singleton,
            {key: field(name, key, held) for key, held in node.fields.items()},
            node.links,
            mapped.nodes[name],
        )
        for name, node in module.nodes.items()
    }
    classes = {name: replace(held, src_name=mapped.classes[name]) for name, held in module.classes.items()}
    return replace(module, nodes=nodes, classes=classes, src_dims=dict(mapped.dims))


def _constraints(module: Schema, data: Schema) -> list[str]:
    if not module.collections:
        return []
    told = (
        (data.cyclic and not module.cyclic, "links of the data may form cycles; the module takes none"),
        (
            module.undirected and not data.undirected,
            "links of the data have a direction; the module's have none",
        ),
        (
            data.fan_in and not module.fan_in,
            "instances of the data may have several incoming links (fan-in); the module takes one",
        ),
    )
    return [reason for refused, reason in told if refused]


def _counts(module: Schema, data: Schema) -> list[str]:
    return [
        f"the module has {len(ours)} {what}, the data {len(theirs)}"
        for what, ours, theirs in (
            ("singletons", module.singletons, data.singletons),
            ("nodes with instances", module.collections, data.collections),
        )
        if len(ours) != len(theirs)
    ]


def _together(module: Schema) -> str:
    said = "each part of the module fits some part of the data, but not all of them together"
    held = ["dimension"]
    held += ["class"] if module.classes else []
    held += ["link"] if any(node.links for node in module.collections.values()) else []
    return f"{said} (each {', '.join(held)} of a name must be the same everywhere)"


def _mapped(written: Written, solution: Solution) -> Mapped:
    nodes: dict[str, str] = {}
    for number in written.puzzle.nodes:
        value = solution.domains[number].bit_length() - 1
        nodes[written.names[number].own] = str(written.values[number][value])
    fields: dict[str, dict[str, str]] = {}
    classes: dict[str, str] = {}
    dims: dict[str, Dim] = {}
    taken = [iter(places) for places in written.kinds]
    for (node, key), option, ways in zip(written.items, solution.options, written.ways, strict=True):
        nodes[node], src_key = next(taken[option.kind])
        if key != SINGLE:
            fields.setdefault(node, {})[key] = src_key
        for name, held in ways[option].items():
            if name.what == "dim":
                dims[name.own] = held
            elif name.what == "class":
                classes[name.own] = str(held)
    return Mapped(nodes, fields, classes, dims)
