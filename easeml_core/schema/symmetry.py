"""Which parts of a puzzle are alike, so that only one of them need be tried.

A part's *code* is what one sees walking through the puzzle from there, with names numbered as they are met.
Parts with equal codes are exchanged by a symmetry of everything that is left, so that a try that fails with
one fails with the others. Unequal codes prove nothing; then something is tried twice, no more.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

Constraint = tuple[int, tuple[int, ...]]
"""A label, equal for constraints that differ only in their names, and the names, in an order that counts."""
Code = tuple[Hashable, ...]


class Symmetry:
    """The symmetries of a puzzle with these constraints; `count` is told how much was looked at."""

    def __init__(self, names: int, constraints: Sequence[Constraint], count: Callable[[int], None]) -> None:
        self._constraints = constraints
        self._count = count
        self._of: list[list[int]] = [[] for _ in range(names)]
        for number, (_, own) in enumerate(constraints):
            for name in set(own):
                self._of[name].append(number)

    def representatives(self, names: Sequence[int], domains: Sequence[int]) -> list[int]:
        """One of each set of names that are alike now."""
        kept: list[int] = []
        for name in names:
            if not any(self._twins(name, other, domains) for other in kept):
                kept.append(name)
        codes = {self._code([name], None, domains): name for name in reversed(kept)} if len(kept) > 1 else {}
        return (
            [name for name in kept if codes.get(self._code([name], None, domains)) == name] if codes else kept
        )

    def constraint_code(self, number: int, domains: Sequence[int]) -> Code:
        """The code of one constraint."""
        return self._code([], number, domains)

    def _twins(self, name: int, other: int, domains: Sequence[int]) -> bool:
        """Whether exchanging the two names alone changes nothing."""
        mine, theirs = self._of[name], self._of[other]
        self._count(1 + (len(mine) if domains[name] == domains[other] else 0))
        if domains[name] != domains[other] or len(mine) != len(theirs):
            return False
        swap = {name: other, other: name}
        swapped = [
            (label, tuple(swap.get(n, n) for n in own))
            for label, own in map(self._constraints.__getitem__, mine)
        ]
        return sorted(swapped) == sorted(self._constraints[number] for number in theirs)

    def _code(self, roots: list[int], first: int | None, domains: Sequence[int]) -> Code:
        numbers = {name: number for number, name in enumerate(roots)}
        walk, seen = list(roots), set()
        code: list[Hashable] = [domains[name] for name in roots]

        def seen_as(name: int) -> tuple[int, int]:
            if domains[name].bit_count() == 1:
                return (-2, domains[name])  # what is decided is a constant, wherever it stands
            return (numbers.get(name, -1), 0)

        def visit(number: int) -> None:
            seen.add(number)
            label, own = self._constraints[number]
            for name in own:
                if domains[name].bit_count() > 1 and name not in numbers:
                    numbers[name] = len(numbers)
                    walk.append(name)
            code.append((label, tuple((seen_as(name), domains[name]) for name in own)))

        if first is not None:
            visit(first)
        for name in walk:
            found = [number for number in self._of[name] if number not in seen]
            self._count(1 + len(found))
            met = [(self._constraints[n][0], [seen_as(o) for o in self._constraints[n][1]], n) for n in found]
            for _, _, number in sorted(met):
                visit(number)
        return tuple(code)
