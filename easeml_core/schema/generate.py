"""Makes a random data set directory of a schema: to try a module, a reader or a matcher with.

Its links keep the schema's bounds and constraints because they are put together from separate pieces, each of
which does: for links to another kind, one instance with as many targets as it must have; for links to its own
kind, a tree, a chain or a clique.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np

from easeml_core.schema.links import Edge, Instance
from easeml_core.schema.model import SINGLE, Category, Dim, Field, Link, Schema
from easeml_core.schema.samples import CLASS_END, LINKS_END


def generate_data_set(
    schema: Schema, folder: Path, *, samples: int = 10, instances: int = 10, seed: int = 0
) -> None:
    """Write a data set of this many samples into the new folder `folder`; the same seed gives the same.

    Nodes get `instances` instances per sample, or as many as their links need. Raises ValueError where a
    dimension is named, or where no finite set of instances can keep the bounds and constraints.
    """
    draw = random.Random(seed)
    classes = {name: [f"{name}_{n}" for n in range(_size(held.dim))] for name, held in schema.classes.items()}
    numbers = np.random.default_rng(seed)

    def write(path: Path, field: Field, count: int | None) -> None:
        if isinstance(field, Category):
            values = draw.choices(classes[field.of], k=1 if count is None else count)
            path.with_name(f"{path.name}.cat.txt").write_text("\n".join(values) + "\n")
        else:
            shape = tuple(map(_size, field.dims))
            np.save(
                path.with_name(f"{path.name}.ten.npy"),
                numbers.random(shape if count is None else (count, *shape)),
            )

    folder.mkdir(parents=True)
    for name, values in classes.items():
        (folder / f"{name}{CLASS_END}").write_text("\n".join(values) + "\n")
    for number in range(samples):
        sample = folder / f"sample{number:03d}"
        sample.mkdir()
        links, counts = _links(schema, instances, draw)
        for name, node in schema.nodes.items():
            if node.singleton:
                write(sample / name, node.fields[SINGLE], None)
                continue
            (sample / name).mkdir()
            for key, field in node.fields.items():
                write(sample / name / key, field, counts[name])
        if schema.collections:
            lines = (f"{of[0]}/{of[1]} {to[0]}/{to[1]}\n" for of, to in sorted(links))
            (sample / f".{LINKS_END}").write_text("".join(lines))


def _size(dim: Dim) -> int:
    if isinstance(dim, str):
        raise ValueError(f"the dimension {dim} stands for no size; put a number there")
    return dim


class _Pool:
    """Hands out instances that have no link yet."""

    def __init__(self, schema: Schema) -> None:
        self.counts = dict.fromkeys(schema.collections, 0)

    def take(self, node: str, number: int) -> list[Instance]:
        first = self.counts[node]
        self.counts[node] += number
        return [(node, first + n) for n in range(number)]


def _links(schema: Schema, instances: int, draw: random.Random) -> tuple[set[Edge], dict[str, int]]:
    pool = _Pool(schema)
    links: set[Edge] = set()
    for name, node in schema.collections.items():
        for target, link in node.links.items():
            if target != name and schema.undirected:
                back = schema.nodes[target].links.get(name)
                if back is None:
                    raise ValueError(f"undirected links lead from {name} to {target}, and none may lead back")
                if name < target:
                    links |= _both_ways(_crossed(schema, pool, name, target, link, back))
            elif target != name:
                (root,) = pool.take(name, 1)
                links |= {(root, to) for to in pool.take(target, max(link.low, 1))}
    for name, node in schema.collections.items():
        if (own := node.links.get(name)) is not None:
            pieces = _undirected if schema.undirected else _tree
            links |= set(pieces(schema, pool, name, own, instances, draw))
        pool.take(name, max(0, instances - pool.counts[name], 1 - pool.counts[name]))
    return links, pool.counts


def _tree(
    schema: Schema, pool: _Pool, name: str, link: Link, instances: int, draw: random.Random
) -> Iterator[Edge]:
    """A tree whose inner instances have as many children as the bounds allow; a chain where that is one."""
    least = max(link.low, 1)
    (root,) = growing = pool.take(name, 1)
    for parent in growing:
        left = instances - pool.counts[name]
        if left < least and parent is not root:
            return
        most = max(least, left if link.high is None else min(link.high, left))
        children = pool.take(name, draw.randint(least, min(most, least + 2)))
        growing += children
        yield from ((parent, child) for child in children)


def _undirected(
    schema: Schema, pool: _Pool, name: str, link: Link, instances: int, draw: random.Random
) -> set[Edge]:
    """A chain where one link is enough, else a clique of the least size."""
    if link.low >= 2:
        if not schema.cyclic:
            raise ValueError(f"{name} must have {link.low} undirected links, which no tree has at its ends")
        return _both_ways(set(combinations(pool.take(name, link.low + 1), 2)))
    length = 2 if link.high == 1 else draw.randint(2, max(2, instances - pool.counts[name]))
    return _both_ways(set(pairwise(pool.take(name, length))))


def _crossed(schema: Schema, pool: _Pool, name: str, target: str, link: Link, back: Link) -> set[Edge]:
    """Each of some instances of both kinds linked to each of the other."""
    there, here = max(link.low, 1), max(back.low, 1)
    if min(there, here) > 1 and not schema.cyclic:
        raise ValueError(f"{name} and {target} must have several undirected links each, which forms a cycle")
    ours, theirs = pool.take(name, here), pool.take(target, there)
    return {(one, two) for one in ours for two in theirs}


def _both_ways(links: set[Edge]) -> set[Edge]:
    return links | {(to, of) for of, to in links}
