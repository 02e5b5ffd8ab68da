"""The links of one sample (`.links.csv`): reading them, and what they promise about the whole data set.

A line is `node/index node/index`, from where and to where; an index counts instances from 0.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter

Instance = tuple[str, int]
Edge = tuple[Instance, Instance]

_LINE = re.compile(r"\s*([a-z_][0-9a-z_]*)/([0-9]{1,12})\s+([a-z_][0-9a-z_]*)/([0-9]{1,12})\s*", re.ASCII)


def parse_link(line: str) -> Edge | None:
    """The link that a line says, or None where it says none.

    >>> parse_link("node1/0 node1/1")
    (('node1', 0), ('node1', 1))
    """
    found = _LINE.fullmatch(line)
    if found is None:
        return None
    return (found[1], int(found[2])), (found[3], int(found[4]))


@dataclass(slots=True)
class LinkFacts:
    """What holds for the links of all samples that were added.

    `bounds`: per node and target, how many links instances that have any have; an instance without is an end.
    """

    bounds: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    undirected: bool = True
    _cyclic: dict[bool, bool] = field(default_factory=lambda: {True: False, False: False})
    _fan_in: dict[bool, bool] = field(default_factory=lambda: {True: False, False: False})

    def add(self, links: set[Edge]) -> None:
        """Add the links of one sample."""
        self.undirected = self.undirected and all((to, of) in links for of, to in links)
        for (node, target), count in _counts(links):
            low, high = self.bounds.get((node, target), (count, count))
            self.bounds[node, target] = (min(low, count), max(high, count))
        incoming = max(Counter(to for _, to in links).values(), default=0)
        for undirected in (True, False):
            self._fan_in[undirected] |= incoming > (2 if undirected else 1)
            self._cyclic[undirected] |= _joins_up(links) if undirected else _comes_back(links)

    def add_chain(self, node: str) -> None:
        """Without a file of links, the instances of a node are one chain."""
        self.undirected = False
        self.bounds[node, node] = (1, 1)

    @property
    def cyclic(self) -> bool:
        """Whether links form a cycle; there and back is none where links are undirected."""
        return self._cyclic[self.undirected]

    @property
    def fan_in(self) -> bool:
        """Whether an instance has more than one incoming link, or two where links are undirected."""
        return self._fan_in[self.undirected]


def _counts(links: Iterable[Edge]) -> Iterable[tuple[tuple[str, str], int]]:
    counted = Counter((of, target) for of, (target, _) in links)
    return (((node, target), count) for ((node, _), target), count in counted.items())


def _comes_back(links: set[Edge]) -> bool:
    before: dict[Instance, list[Instance]] = {}
    for of, to in links:
        before.setdefault(to, []).append(of)
    try:
        TopologicalSorter(before).prepare()
    except CycleError:
        return True
    return False


def _joins_up(links: set[Edge]) -> bool:
    """Whether undirected links connect what was connected already (union-find)."""
    parent: dict[Instance, Instance] = {}

    def root(of: Instance) -> Instance:
        while parent.setdefault(of, of) != of:
            parent[of] = of = parent[parent[of]]
        return of

    for one, two in {(min(link), max(link)) for link in links}:
        if root(one) == root(two):
            return True
        parent[root(one)] = root(two)
    return False
