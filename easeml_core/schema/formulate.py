"""Writes the match of two schemas as a puzzle for `Search`, and says what fits nothing by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from easeml_core.schema.colours import Graph
from easeml_core.schema.dims import bindings
from easeml_core.schema.model import SINGLE, Category, Dim, Field, Node, Schema, Tensor
from easeml_core.schema.puzzle import Arc, Option, Puzzle
from easeml_core.schema.search import Search, TooHard

MAX_PAIRS = 60_000
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Name:
    """What is the same everywhere: a named dimension, a class, or a node of the module."""

    what: Literal["dim", "class", "node"]
    own: str


Way = Mapping[Name, Dim]
"""What names stand for if one field stands for another."""


@dataclass(frozen=True, slots=True)
class Written:
    """A puzzle, and what its numbers mean: `names[n]` stands for one of `values[n]`; items and kinds are
    fields, as (node, field). `ways` has, by item and option, all that the option binds, also what no other
    item shares. `reasons` says what fits nothing, whatever the rest is."""

    puzzle: Puzzle
    names: list[Name]
    values: list[list[Dim]]
    items: list[tuple[str, str]]
    kinds: list[list[tuple[str, str]]]
    ways: list[dict[Option, Way]]
    reasons: list[str]


def write(module: Schema, data: Schema) -> Written:
    """The puzzle of two schemas that have the same number of singletons and of other nodes.

    Raises `TooHard` where they have too many different fields.
    """
    theirs = list(data.collections)
    kinds: dict[tuple[str | None, Field], list[tuple[str, str]]] = {}
    for name, node in data.nodes.items():
        for key, source in node.fields.items():
            # Alike singletons are interchangeable, and so are alike fields of one node.
            kinds.setdefault((None if node.singleton else name, _plain(source)), []).append((name, key))
    items = [(name, key) for name, node in module.nodes.items() for key in node.fields]
    if len(items) * len(kinds) > MAX_PAIRS:
        raise TooHard(f"there are more than {MAX_PAIRS:,} pairs of fields to compare")
    fits, reasons = _fits(module, data)
    found = [_all_ways(module, data, item, kinds, fits) for item in items]
    nodes = [Name("node", name) for name in fits]
    mentions = Counter(name for ways in found for name in {name for _, way in ways for name in way})
    names = nodes + [name for name, count in mentions.items() if count > 1 and name.what != "node"]
    table = _Table(names, {"node": theirs, "class": list(data.classes)})
    ways = [{Option(kind, table.numbered(way)): way for kind, way in reversed(ways)} for ways in found]
    options = [list(known) for known in ways]
    if not reasons:
        reasons = _lonely(module, data, options, items, list(kinds.values())) or _bounds(module, data)
    puzzle = Puzzle(
        domains=[*table.domains([list(map(theirs.index, others)) for others in fits.values()])],
        items=options,
        capacity=[len(places) for places in kinds.values()],
        nodes=list(range(len(fits))),
        arcs=_arcs(module, data, list(fits), theirs),
        ours=_graph(module, list(fits)),
        theirs=_graph(data, theirs),
    )
    return Written(puzzle, names, table.meanings(), items, list(kinds.values()), ways, reasons)


class _Table:
    """Numbers for names that are shared, and for what each kind of name can stand for."""

    def __init__(self, names: list[Name], known: Mapping[str, Sequence[Dim]]) -> None:
        self._names = names
        self._numbers = {name: number for number, name in enumerate(names)}
        self._values: dict[str, dict[Dim, int]] = {"dim": {}}
        self._values |= {what: {value: n for n, value in enumerate(held)} for what, held in known.items()}

    def numbered(self, way: Way) -> tuple[tuple[int, int], ...]:
        """What an option binds of shared names."""
        binds = []
        for name, value in way.items():
            number = self._numbers.get(name)
            if number is not None:
                values = self._values[name.what]
                binds.append((number, values.setdefault(value, len(values))))
        return tuple(binds)

    def domains(self, nodes: list[list[int]]) -> Iterator[int]:
        """All that a name can stand for; of nodes, only the given ones."""
        yield from (sum(1 << value for value in others) for others in nodes)
        yield from ((1 << len(self._values[name.what])) - 1 for name in self._names[len(nodes) :])

    def meanings(self) -> list[list[Dim]]:
        """What the values of each name are."""
        return [list(self._values[name.what]) for name in self._names]


def _all_ways(
    module: Schema,
    data: Schema,
    item: tuple[str, str],
    kinds: Iterable[tuple[str | None, Field]],
    fits: Mapping[str, list[str]],
) -> list[tuple[int, Way]]:
    """Every kind that an item can be by itself, and what names stand for then."""
    name, key = item
    node = module.nodes[name]
    found: list[tuple[int, Way]] = []
    for number, (parent, source) in enumerate(kinds):
        if node.singleton != (parent is None) or (parent is not None and parent not in fits[name]):
            continue
        place: Way = {} if parent is None else {Name("node", name): parent}
        found += [(number, {**place, **way}) for way in _ways(module, node.fields[key], data, source)]
    return found


def _plain(field: Field) -> Field:
    if isinstance(field, Tensor):
        return Tensor(field.dims)
    return replace(field, src_name=None)


def _ways(module: Schema, field: Field, data: Schema, source: Field) -> list[Way]:
    """Every way in which a field of the module can stand for one of the data, by itself."""
    if isinstance(field, Tensor) and isinstance(source, Tensor):
        found = bindings(field.dims, source.dims)
        own: dict[Name, Dim] = {}
    elif isinstance(field, Category) and isinstance(source, Category):
        found = bindings([module.classes[field.of].dim], [data.classes[source.of].dim])
        own = {Name("class", field.of): source.of}
    else:
        return []
    return [own | {Name("dim", name): value for name, value in binding.items()} for binding in found]


def _fits(module: Schema, data: Schema) -> tuple[dict[str, list[str]], list[str]]:
    """By node of the module: the nodes of the data with the same counts and a like link to itself."""
    fits: dict[str, list[str]] = {}
    reasons = []
    for name, node in module.collections.items():
        told = {other: _difference(name, node, other, held) for other, held in data.collections.items()}
        fits[name] = [other for other, reason in told.items() if reason is None]
        if not fits[name]:
            said = "; ".join(f"{other} {reason}" for other, reason in list(told.items())[:_SHOWN])
            reasons.append(f"no node of the data fits {name} of the module: {said}{_more(told)}")
    return fits, reasons


def _difference(name: str, node: Node, other: str, held: Node) -> str | None:
    for what, wanted, count in (
        ("tensors", len(node.of_type(Tensor)), len(held.of_type(Tensor))),
        ("categories", len(node.of_type(Category)), len(held.of_type(Category))),
        ("targets of links", len(node.links), len(held.links)),
    ):
        if wanted != count:
            return f"has {count} {what}, not {wanted}"
    if (name in node.links) != (other in held.links):
        return f"is {'not ' if name in node.links else ''}linked to itself"
    if name in node.links and not node.links[name].holds(held.links[other]):
        return f"has {held.links[other]} links to itself, not {node.links[name]}"
    return None


def _bounds(module: Schema, data: Schema) -> list[str]:
    """Why the links of the data cannot be shared out so that each is within the bounds of one of ours."""
    ours = [link for node in module.nodes.values() for link in node.links.values()]
    theirs = Counter(link for node in data.nodes.values() for link in node.links.values())
    items = [[Option(number, ()) for number, held in enumerate(theirs) if link.holds(held)] for link in ours]
    if len(ours) != theirs.total() or Search(Puzzle([], items, list(theirs.values()))).solve():
        return []
    return ["the links of the data have bounds that are not within those of the module's links"]


def _lonely(
    module: Schema,
    data: Schema,
    items: list[list[Option]],
    origins: list[tuple[str, str]],
    kinds: list[list[tuple[str, str]]],
) -> list[str]:
    """Fields of either side that fit no field of the other."""
    wanted = {option.kind for options in items for option in options}
    places = [place for number, kind in enumerate(kinds) for place in kind]
    reasons = []
    for (name, key), options in zip(origins, items, strict=True):
        if not options:
            field = module.nodes[name].fields[key]
            held = [
                f"{_called(*place)} {_described(data, data.nodes[place[0]].fields[place[1]])}"
                for place in places
                if data.nodes[place[0]].singleton == module.nodes[name].singleton
            ]
            said = ", ".join(held[:_SHOWN]) + _more(held)
            text = f"nothing of the data fits {_called(name, key)} {_described(module, field)} of the module"
            reasons.append(f"{text}; the data has {said}")
    for number, kind in enumerate(kinds):
        if number not in wanted:
            name, key = kind[0]
            source = _described(data, data.nodes[name].fields[key])
            reasons.append(f"nothing of the module takes {_called(name, key)} {source} of the data")
    return reasons


def _called(node: str, field: str) -> str:
    return node if field == SINGLE else f"{node}.{field}"


def _described(schema: Schema, field: Field) -> str:
    size = f" ({schema.classes[field.of].dim})" if isinstance(field, Category) else ""
    return f"({field}{size})"


def _more(held: Iterable[object]) -> str:
    left = len(list(held)) - _SHOWN
    return f" and {left} more" if left > 0 else ""


def _arcs(module: Schema, data: Schema, ours: list[str], theirs: list[str]) -> list[Arc]:
    """Links between different nodes of the module, with the links of the data within their bounds."""
    arcs = []
    tables: dict[tuple[int, int | None], tuple[tuple[int, ...], tuple[int, ...]]] = {}
    for tail, name in enumerate(ours):
        for target, link in module.nodes[name].links.items():
            if target == name:
                continue
            if (link.low, link.high) not in tables:
                after, before = [0] * len(theirs), [0] * len(theirs)
                for number, other in enumerate(theirs):
                    for to, held in data.nodes[other].links.items():
                        if to != other and link.holds(held):
                            after[number] |= 1 << theirs.index(to)
                            before[theirs.index(to)] |= 1 << number
                tables[link.low, link.high] = (tuple(after), tuple(before))
            arcs.append(Arc(tail, ours.index(target), *tables[link.low, link.high]))
    return arcs


def _graph(schema: Schema, names: list[str]) -> Graph:
    numbers = {name: number for number, name in enumerate(names)}
    after = [[numbers[target] for target in schema.nodes[name].links] for name in names]
    before: list[list[int]] = [[] for _ in names]
    for number, targets in enumerate(after):
        for target in targets:
            before[target].append(number)
    return after, before
