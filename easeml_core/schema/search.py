"""Finds a consistent one-to-one assignment, in a number of steps that is counted and bounded.

Notation as in `puzzle.py`: items, kinds, names, values, nodes, arcs.

Once every shared name is decided, what is left is a bipartite assignment, which is polynomial; only names are
tried out. After each try, three things shrink what is left: names and items restrict each other until
nothing changes (Mackworth 1977, AC-3), colour refinement restricts nodes, and the assignment must still
exist. After `PATIENCE` dead ends the search begins anew, also asks of each part of the data what may take it,
and tries only one of parts that are alike: else equal parts would be tried in all their orders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from easeml_core.errors import EasemlError
from easeml_core.schema.colours import refine
from easeml_core.schema.puzzle import Arc, Item, Option, Puzzle, Solution, State
from easeml_core.schema.symmetry import Symmetry

MAX_STEPS = 800_000
PATIENCE = 60
_FEW = 4  # values from which following links costs more than it drops, since colours drop most


class TooHard(EasemlError):  # noqa: N818 - says what the schemas are
    """It could not be decided within `MAX_STEPS`; not an answer either way."""


Try = Callable[[State], list[int]]
"""Restricts a state, and says which names must be looked at then."""


class Search:
    """One search; `steps` counts what it did: options, values and links that were looked at."""

    def __init__(self, puzzle: Puzzle, max_steps: int = MAX_STEPS) -> None:
        self.puzzle = puzzle
        self.steps = 0
        self.max_steps = max_steps
        self._items = [Item(options) for options in puzzle.items]
        names = range(len(puzzle.domains))
        self._places: list[list[int]] = [[] for _ in names]
        for number, item in enumerate(self._items):
            for name in item.rows:
                self._places[name].append(number)
        self._arcs: list[list[Arc]] = [[] for _ in names]
        for arc in puzzle.arcs:
            self._arcs[arc.tail].append(arc)
            self._arcs[arc.head].append(arc)
        self._nodes = frozenset(puzzle.nodes)
        self._weight = [len(self._places[name]) + len(self._arcs[name]) for name in names]
        # A node without fields is in no item that would choose for it.
        self._shared = [n for n in names if self._weight[n] > 1 or (n in self._nodes and not self._places[n])]
        self._dead_ends = 0
        self._symmetry: Symmetry | None = None

    def solve(self) -> Solution | None:
        """An option for each item, all consistent; None where there is no such. Raises `TooHard`."""
        items = self.puzzle.items
        root = State(self.puzzle.domains.copy(), [(1 << len(held)) - 1 for held in items], [-1] * len(items))
        if not all(root.alive) or not self._shrink(root, list(range(len(root.domains)))):
            return None
        stack: list[Iterator[State]] = [iter([root])]
        while stack:
            state = next(stack[-1], None)
            if state is None:
                stack.pop()
                self._dead_ends += 1
                if self._dead_ends == PATIENCE:
                    stack = [iter([root])]
                continue
            tries = self._tries(state)
            if tries is None:
                return Solution(self._options(state), state.domains)
            stack.append(self._tried(state, tries))
        return None

    def _tried(self, state: State, tries: list[Try]) -> Iterator[State]:
        for change in tries:
            tried = state.copy()
            self._count(len(state.domains) + len(state.alive))
            if self._shrink(tried, change(tried)):
                yield tried

    def _tries(self, state: State) -> list[Try] | None:
        """What to try next, one of which must hold; None where every shared name is decided."""
        left = [name for name in self._shared if state.domains[name].bit_count() > 1]
        if not left:
            return None
        name = min(left, key=lambda n: (state.domains[n].bit_count(), -self._weight[n]))
        ways = [[_be(name, value) for value in _bits(state.domains[name])]]
        if self._dead_ends >= PATIENCE:
            self._symmetry = self._symmetry or self._find_symmetry()
            ways += [self._item_takers(state, self._symmetry), self._node_takers(state, self._symmetry)]
        return min((tries for tries in ways if tries), key=len)

    def _item_takers(self, state: State, symmetry: Symmetry) -> list[Try]:
        """The items that may still take the kind that the fewest can; one of each set that is alike."""
        self._count(len(self.puzzle.capacity) + len(self._items))
        able: list[list[int]] = [[] for _ in self.puzzle.capacity]
        open_for = list(self.puzzle.capacity)
        for number, item in enumerate(self._items):
            left = [kind for kind, options in item.kinds.items() if state.alive[number] & options]
            if len(left) == 1:
                open_for[left[0]] -= 1
            else:
                self._count(len(left))
                for kind in left:
                    able[kind].append(number)
        kinds = [kind for kind, numbers in enumerate(able) if numbers and open_for[kind] > 0]
        if not kinds:
            return []
        kind = min(kinds, key=lambda k: len(able[k]))
        alike = {symmetry.constraint_code(number, state.domains): number for number in able[kind]}
        return [_take(number, self._items[number], kind) for number in alike.values()]

    def _node_takers(self, state: State, symmetry: Symmetry) -> list[Try]:
        """The nodes that may still be the node of the data that the fewest can; one of each set alike."""
        able = [
            [name for name in self.puzzle.nodes if state.domains[name] >> value & 1]
            for value in range(len(self.puzzle.nodes))
        ]
        self._count(len(able))
        value = min(
            (v for v, names in enumerate(able) if len(names) > 1), key=lambda v: len(able[v]), default=-1
        )
        return (
            [_be(n, value) for n in symmetry.representatives(able[value], state.domains)]
            if value >= 0
            else []
        )

    def _find_symmetry(self) -> Symmetry:
        labels: dict[object, int] = {}
        constraints = [
            (labels.setdefault(item.sign(), len(labels)), tuple(item.rows)) for item in self._items
        ]
        constraints += [
            (labels.setdefault((arc.after, arc.before), len(labels)), (arc.tail, arc.head))
            for arc in self.puzzle.arcs
        ]
        return Symmetry(len(self.puzzle.domains), constraints, self._count)

    def _shrink(self, state: State, names: list[int]) -> bool:
        """Drop what cannot be any more, beginning with what these names mean; whether anything is left."""
        while names:
            if not self._narrow(state, names) or not self._colour(state, names):
                return False
        return self._assign(state)

    def _narrow(self, state: State, names: list[int]) -> bool:
        """Names, items and links restrict each other; empties `names`."""
        domains = state.domains
        while names:
            name = names.pop()
            if not domains[name]:
                return False
            for number in self._places[name]:
                if not self._narrow_item(state, number, name, names):
                    return False
            if domains[name].bit_count() <= _FEW:
                for arc in self._arcs[name]:
                    if not self._follow(domains, arc, name, names):
                        return False
            if name in self._nodes and domains[name].bit_count() == 1:
                self._count(len(self._nodes))
                for other in self.puzzle.nodes:
                    if other != name and domains[other] & domains[name]:
                        domains[other] &= ~domains[name]
                        # One value less of many drops no option that capacities do not drop as well.
                        if domains[other].bit_count() <= _FEW and other not in names:
                            names.append(other)
        return True

    def _narrow_item(self, state: State, number: int, name: int, names: list[int]) -> bool:
        item, domains = self._items[number], state.domains
        row, allowed = item.rows[name], item.free[name]
        for value in _bits(domains[name]):
            allowed |= row.get(value, 0)
        self._count(domains[name].bit_count() + len(item.rows))
        alive = state.alive[number] & allowed
        state.alive[number] = alive
        for other, others in item.rows.items():
            if alive & item.free[other]:
                continue
            self._count(domains[other].bit_count())
            held = sum(1 << value for value in _bits(domains[other]) if others.get(value, 0) & alive)
            if not _keep(domains, other, held, names):
                return False
        return alive != 0

    def _follow(self, domains: list[int], arc: Arc, name: int, names: list[int]) -> bool:
        other, table = (arc.head, arc.after) if name == arc.tail else (arc.tail, arc.before)
        allowed = 0
        for value in _bits(domains[name]):
            allowed |= table[value]
        self._count(domains[name].bit_count())
        return _keep(domains, other, allowed, names)

    def _colour(self, state: State, names: list[int]) -> bool:
        """Nodes can only stand for nodes of the same colour, where those that are decided have their own."""
        nodes, domains = self.puzzle.nodes, state.domains
        if not self.puzzle.arcs:
            return True
        colours, others = [0] * len(nodes), [0] * len(nodes)
        for number, name in enumerate(nodes):
            if domains[name].bit_count() == 1:
                colours[number] = others[domains[name].bit_length() - 1] = number + 1
        refined, looked_at = refine(self.puzzle.ours, self.puzzle.theirs, colours, others)
        self._count(looked_at // 4)  # looking at a link takes about a quarter of the time of the other steps
        if refined is None:
            return False
        masks: dict[int, int] = {}
        for value, colour in enumerate(refined[1]):
            masks[colour] = masks.get(colour, 0) | 1 << value
        return all(
            _keep(domains, name, masks[colour], names) for name, colour in zip(nodes, refined[0], strict=True)
        )

    def _assign(self, state: State) -> bool:
        """Kuhn's algorithm with capacities: a kind that is left for each item, all kinds used up.

        Goes on from the assignment that held before, so that it costs what has changed.
        """
        self._count(1 + len(state.chosen) // 8)
        holders: list[list[int]] = [[] for _ in self.puzzle.capacity]
        homeless = []
        for number, kind in enumerate(state.chosen):
            if kind >= 0 and state.alive[number] & self._items[number].kinds[kind]:
                holders[kind].append(number)
            else:
                state.chosen[number] = -1
                homeless.append(number)
        return all(self._augment(number, state, holders) for number in homeless)

    def _augment(self, number: int, state: State, holders: list[list[int]]) -> bool:
        """Breadth first along "may move to that kind"; moves everybody on the way to a kind with room."""
        came: dict[int, int] = {}
        queue = [number]
        for mover in queue:
            kinds = self._items[mover].kinds
            self._count(1 + len(kinds) // 16)  # passing over a kind is quick as well
            for kind, mask in kinds.items():
                if kind in came or not state.alive[mover] & mask:
                    continue
                came[kind] = mover
                if len(holders[kind]) >= self.puzzle.capacity[kind]:
                    queue += holders[kind]
                    continue
                to = kind
                while to >= 0:
                    moved = came[to]
                    before, state.chosen[moved] = state.chosen[moved], to
                    holders[to].append(moved)
                    if before >= 0:
                        holders[before].remove(moved)
                    to = before
                return True
        return False

    def _options(self, state: State) -> list[Option]:
        """An option of its kind for each item of an assignment that holds."""
        return [
            item.options[(alive & item.kinds[kind]).bit_length() - 1]
            for item, kind, alive in zip(self._items, state.chosen, state.alive, strict=True)
        ]

    def _count(self, steps: int) -> None:
        self.steps += steps
        if self.steps > self.max_steps:
            raise TooHard(
                f"within {self.max_steps:,} steps it could not be decided whether the schemas match"
            )


def _be(name: int, value: int) -> Try:
    def change(state: State) -> list[int]:
        state.domains[name] = 1 << value
        return [name]

    return change


def _take(number: int, item: Item, kind: int) -> Try:
    def change(state: State) -> list[int]:
        state.alive[number] &= item.kinds[kind]
        return list(item.rows)

    return change


def _keep(domains: list[int], name: int, allowed: int, names: list[int]) -> bool:
    left = domains[name] & allowed
    if left != domains[name]:
        domains[name] = left
        if name not in names:
            names.append(name)
    return left != 0


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low
