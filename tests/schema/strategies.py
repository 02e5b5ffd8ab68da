"""Random schemas for hypothesis."""

from __future__ import annotations

import random

from hypothesis import strategies as st

from easeml_core.schema import Category, Class, Link, Node, Schema, Tensor
from easeml_core.schema.model import SINGLE, Dim, Field

SIZES = st.integers(1, 3)
NAMES = st.sampled_from(["a", "b"])


@st.composite
def dim_lists(draw: st.DrawFn, *, named: bool) -> tuple[Dim, ...]:
    dim = SIZES | NAMES if named else SIZES
    dims: list[Dim] = draw(st.lists(dim, min_size=1, max_size=3))
    if named and draw(st.booleans()):
        place = draw(st.integers(0, len(dims)))
        ending = draw(st.sampled_from("?+*" if dims[:-1] else "+"))
        dims[place:place] = [draw(NAMES) + ending]
    return tuple(dims)


@st.composite
def fields(draw: st.DrawFn, classes: dict[str, Class], *, named: bool) -> Field:
    if classes and draw(st.integers(0, 3)) == 0:
        return Category(draw(st.sampled_from(sorted(classes))))
    return Tensor(draw(dim_lists(named=named)))


@st.composite
def schemas(draw: st.DrawFn, *, named: bool = True, most_nodes: int = 3) -> Schema:
    """Schemas that `load_schema` accepts."""
    sizes = SIZES | NAMES if named else SIZES
    classes = {f"class{i}": Class(draw(sizes)) for i in range(draw(st.integers(0, 2)))}
    count = draw(st.integers(1, most_nodes))
    names = draw(st.lists(st.sampled_from(["m", "n", "o", "p"]), min_size=count, max_size=count, unique=True))
    single = {name: draw(st.booleans()) for name in names}
    undirected, fan_in = draw(st.booleans()), draw(st.booleans())
    nodes = {}
    for name in names:
        field = fields(classes, named=named)
        if single[name]:
            nodes[name] = Node(True, {SINGLE: draw(field)})
            continue
        held = {f"f{i}": draw(field) for i in range(draw(st.integers(0, 3)))}
        targets = [other for other in names if not single[other] and draw(st.booleans())]
        links = {}
        for target in targets[: 1 if undirected and not fan_in else None]:
            low = draw(st.integers(0, 2))
            high = None if draw(st.booleans()) else draw(st.integers(max(low, 1), 3))
            links[target] = Link(low, high)
            if undirected and not fan_in:
                links[target] = Link(min(low, 2), 2)
        nodes[name] = Node(False, held or {"f": draw(field)}, links)
    used = {f.of for node in nodes.values() for f in node.fields.values() if isinstance(f, Category)}
    kept = {name: held for name, held in classes.items() if name in used}
    return Schema(nodes, kept, draw(st.booleans()), undirected, fan_in)


def singletons(*tensors: tuple[Dim, ...]) -> Schema:
    return Schema({f"t{i}": Node(True, {SINGLE: Tensor(dims)}) for i, dims in enumerate(tensors)})


def planted(seed: int, nodes: int = 30) -> tuple[Schema, Schema]:
    """A module of named dimensions and wildcards, and data that it takes, renamed and reordered."""
    draw = random.Random(seed)
    pool, most_fields, most_dims = draw.choice([2, 5, 30]), draw.choice([1, 3]), draw.choice([1, 3])
    share, density, wild = (
        draw.choice([0.0, 0.5, 1.0]),
        draw.choice([0.0, 0.1, 0.5, 1.0]),
        draw.choice([0.0, 0.4]),
    )
    sizes = {f"a{i}": draw.randint(1, draw.choice([2, 10])) for i in range(pool)}
    names = [f"n{i}" for i in range(nodes)]
    single = {name: draw.random() < share for name in names}
    renamed = dict(zip(names, draw.sample(names, nodes), strict=True))

    def tensors() -> tuple[Tensor, Tensor]:
        ours: list[Dim] = [draw.choice(list(sizes)) for _ in range(draw.randint(1, most_dims))]
        theirs: list[Dim] = [sizes[str(name)] for name in ours]
        if draw.random() < wild:
            ending, name, at = draw.choice("?+*"), draw.choice(list(sizes)), draw.randint(0, len(ours))
            times = {"?": draw.randint(0, 1), "+": draw.randint(1, 3), "*": draw.randint(0, 3)}[ending]
            ours[at:at], theirs[at:at] = [name + ending], [sizes[name]] * times
        return Tensor(tuple(ours)), Tensor(tuple(theirs))

    module: dict[str, Node] = {}
    data: dict[str, Node] = {}
    for name in names:
        held = [tensors() for _ in range(1 if single[name] else draw.randint(1, most_fields))]
        keys = [SINGLE] if single[name] else [f"f{i}" for i in range(len(held))]
        chosen = [to for to in names if not single[name] and not single[to] and draw.random() < density]
        links = {to: Link(0, draw.choice([None, 3])) for to in chosen}
        module[name] = Node(single[name], dict(zip(keys, (ours for ours, _ in held), strict=True)), links)
        theirs = draw.sample([theirs for _, theirs in held], len(held))
        changed = {renamed[to]: link for to, link in links.items()}
        data[renamed[name]] = Node(single[name], dict(zip(keys, theirs, strict=True)), changed)
    order = draw.sample(list(data), nodes)
    return (
        Schema(module, cyclic=True, fan_in=True),
        Schema({name: data[name] for name in order}, cyclic=True, fan_in=True),
    )
