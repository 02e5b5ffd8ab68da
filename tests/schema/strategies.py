"""Random schemas for hypothesis."""

from __future__ import annotations

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
