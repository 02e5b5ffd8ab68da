"""Colour refinement: which nodes of two link graphs can still stand for each other.

The method is that of Weisfeiler and Leman (1968); McKay and Piperno, Practical graph isomorphism II, J. Symb.
Comput. 60 (2014), section 3. One round costs as much as there are links.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

Graph = tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]]
"""Per node: the nodes that it links to, and those that link to it."""


def refine(
    ours: Graph, theirs: Graph, colours: list[int], others: list[int]
) -> tuple[tuple[list[int], list[int]] | None, int]:
    """Split colours until nodes of one colour see the same colours along their links, in both graphs alike.

    `colours` and `others` say which nodes are told apart to begin with. Returns the final colours of both
    graphs, or None where the graphs cannot be the same; and how many nodes and links were looked at.
    """
    looked_at, count = 0, len(set(colours))
    while Counter(colours) == Counter(others):
        seen: dict[tuple[int, tuple[int, ...], tuple[int, ...]], int] = {}
        colours = _round(ours, colours, seen)
        others = _round(theirs, others, seen)
        looked_at += sum(map(len, ours[0])) + sum(map(len, theirs[0])) + len(colours)
        now = len(set(colours))
        if now == count and Counter(colours) == Counter(others):
            return (colours, others), looked_at
        count = now
    return None, looked_at


def _round(
    graph: Graph, colours: list[int], seen: dict[tuple[int, tuple[int, ...], tuple[int, ...]], int]
) -> list[int]:
    signs = (
        (colour, tuple(sorted([colours[to] for to in after])), tuple(sorted([colours[of] for of in before])))
        for colour, after, before in zip(colours, *graph, strict=True)
    )
    return [seen.setdefault(sign, len(seen)) for sign in signs]
