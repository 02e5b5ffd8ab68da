"""A one-to-one assignment to be found: the form in which `Search` gets the match of two schemas.

*Items* (fields of a module) are assigned to *kinds* (fields of the data that are alike; `capacity[k]` items
each, exactly). An *option* of an item is a kind and what *names* stand for then; a name stands for one value
everywhere. Some names are *nodes*: no two may be the same, and links between them (*arcs*) must be links of
the data. Names, values, items, options and kinds are numbers; sets of values or options are bit masks.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from easeml_core.schema.colours import Graph


@dataclass(frozen=True, slots=True)
class Option:
    """An item may be of this kind; then each of these names stands for the value of this number."""

    kind: int
    binds: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Arc:
    """Where `tail` stands for value v, `head` must stand for one of the values in the mask `after[v]`."""

    tail: int
    head: int
    after: tuple[int, ...]
    before: tuple[int, ...]


@dataclass(slots=True)
class Puzzle:
    """What to assign. `domains`: per name, a mask of the values it may stand for. `nodes`: the names that are
    nodes; values of theirs are nodes of the data, in `theirs`; `ours` is in the order of `nodes`."""

    domains: list[int]
    items: list[list[Option]]
    capacity: list[int]
    nodes: list[int] = field(default_factory=list)
    arcs: list[Arc] = field(default_factory=list)
    ours: Graph = ((), ())
    theirs: Graph = ((), ())


@dataclass(frozen=True, slots=True)
class Solution:
    """`domains` are what is left of the puzzle's: one value for each name that more than one place shares."""

    options: list[Option]
    domains: list[int]


@dataclass(slots=True)
class State:
    """`alive`: per item, a mask of the options that are left. `chosen`: per item, the kind that it has in an
    assignment that used to hold, -1 for none."""

    domains: list[int]
    alive: list[int]
    chosen: list[int]

    def copy(self) -> State:
        """Lists of its own; masks are numbers."""
        return State(self.domains.copy(), self.alive.copy(), self.chosen.copy())


class Item:
    """The options of an item as masks: `rows[name][value]` are those that bind the name to the value, `free`
    those that do not bind it, `kinds` those of a kind."""

    def __init__(self, options: list[Option]) -> None:
        self.options = options
        self.rows: dict[int, dict[int, int]] = {}
        self.free: dict[int, int] = {}
        self.kinds: dict[int, int] = {}
        for number, option in enumerate(options):
            self.kinds[option.kind] = self.kinds.get(option.kind, 0) | 1 << number
            for name, value in option.binds:
                row = self.rows.setdefault(name, {})
                row[value] = row.get(value, 0) | 1 << number
        for name, row in self.rows.items():
            bound = 0
            for mask in row.values():
                bound |= mask
            self.free[name] = ((1 << len(options)) - 1) & ~bound

    def sign(self) -> tuple[object, ...]:
        """Equal for items whose options differ only in their names."""
        order = {name: number for number, name in enumerate(self.rows)}
        return tuple((o.kind, tuple((order[name], value) for name, value in o.binds)) for o in self.options)
