"""Matching: the public examples, a brute-force search as judge, and inputs made to take for ever."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from easeml_core.schema import (
    Category,
    Class,
    Link,
    Mapped,
    Node,
    Schema,
    Tensor,
    TooHard,
    Unmatched,
    annotated,
    load_schema,
    match_schemas,
)
from easeml_core.schema.dims import bindings
from easeml_core.schema.formulate import write
from easeml_core.schema.model import SINGLE, Dim
from easeml_core.schema.search import MAX_STEPS, Search
from tests.schema.conftest import example_files, skip_if_absent
from tests.schema.strategies import dim_lists, planted, schemas, singletons


@pytest.mark.parametrize("path", example_files("schema/match/*/*-src.json"), ids=lambda p: p.stem)
def test_examples_match_or_not(path: Path) -> None:
    skip_if_absent(path)
    data = load_schema(path.read_bytes())
    module = load_schema(path.with_name(path.name.replace("-src", "-dst")).read_bytes())
    found = match_schemas(module, data)
    if path.parent.name == "positive":
        assert isinstance(found, Mapped)
        assert holds(module, data, found)
        shown = annotated(module, found, data)
        assert load_schema(shown.as_dict()) == shown
    else:
        assert isinstance(found, Unmatched)
        assert all(found.reasons)


def holds(module: Schema, data: Schema, found: Mapped) -> bool:
    """Whether a mapping is one, by the rules and nothing else."""
    assert sorted(found.nodes) == sorted(module.nodes)
    assert sorted(found.nodes.values()) == sorted(data.nodes)
    for name, node in module.nodes.items():
        source = data.nodes[found.nodes[name]]
        assert node.singleton == source.singleton
        assert {found.nodes[target] for target in node.links} == set(source.links)
        assert all(link.holds(source.links[found.nodes[to]]) for to, link in node.links.items())
        keys = {SINGLE: SINGLE} if node.singleton else found.fields.get(name, {})
        assert sorted(keys.values()) == sorted(source.fields)
        for key, field in node.fields.items():
            other = source.fields[keys[key]]
            if isinstance(field, Category):
                assert isinstance(other, Category)
                assert found.classes[field.of] == other.of
                size = module.classes[field.of].dim
                assert found.dims.get(str(size), size) == data.classes[other.of].dim
            else:
                assert isinstance(other, Tensor)
                ways = bindings(field.dims, other.dims)
                assert any(way.items() <= found.dims.items() for way in ways)
    return True


def brute_force(module: Schema, data: Schema) -> bool:
    """The rules of paper and engine by trying every permutation of nodes and fields."""
    if module.collections and (
        (data.cyclic and not module.cyclic)
        or (module.undirected and not data.undirected)
        or (data.fan_in and not module.fan_in)
    ):
        return False
    if len(module.singletons) != len(data.singletons) or len(module.nodes) != len(data.nodes):
        return False
    for order in itertools.permutations(data.nodes):
        places = dict(zip(module.nodes, order, strict=True))
        ways: list[list[list[dict[object, Dim]]]] = []
        for name, node in module.nodes.items():
            source = data.nodes[places[name]]
            links = {places[target]: link for target, link in node.links.items()}
            if node.singleton != source.singleton or set(links) != set(source.links):
                break
            if len(node.fields) != len(source.fields):
                break
            if not all(link.holds(source.links[to]) for to, link in links.items()):
                break
            ways.append(list(_field_ways(module, node, data, source)))
        else:
            if _consistent(ways, {}):
                return True
    return False


def _field_ways(module: Schema, node: Node, data: Schema, source: Node) -> Iterator[list[dict[object, Dim]]]:
    """For each permutation of the fields: the choices of bindings."""
    for order in itertools.permutations(source.fields.values()):
        choices: list[list[dict[object, Dim]]] = []
        for field, other in zip(node.fields.values(), order, strict=True):
            if isinstance(field, Tensor) and isinstance(other, Tensor):
                choices.append([dict(way) for way in bindings(field.dims, other.dims)])
            elif isinstance(field, Category) and isinstance(other, Category):
                ways = bindings([module.classes[field.of].dim], [data.classes[other.of].dim])
                choices.append([{**way, ("class", field.of): other.of} for way in ways])
            else:
                choices.append([])
        for chosen in itertools.product(*choices):
            joined: dict[object, Dim] = {}
            if all(joined.setdefault(name, value) == value for way in chosen for name, value in way.items()):
                yield [joined]


def _consistent(ways: Sequence[Sequence[Sequence[dict[object, Dim]]]], bound: dict[object, Dim]) -> bool:
    if not ways:
        return True
    for (way,) in ways[0]:
        if all(bound.get(name, value) == value for name, value in way.items()) and _consistent(
            ways[1:], {**bound, **way}
        ):
            return True
    return False


@settings(max_examples=300, deadline=None)
@given(schemas(), schemas(named=False))
def test_agrees_with_trying_everything(module: Schema, data: Schema) -> None:
    found = match_schemas(module, data)
    assert isinstance(found, Mapped) == brute_force(module, data)
    assert isinstance(found, Unmatched) or holds(module, data, found)


@settings(max_examples=200, deadline=None)
@given(schemas(named=False, most_nodes=4), st.randoms(use_true_random=False))
def test_a_schema_matches_itself_renamed_and_loosened(data: Schema, draw: random.Random) -> None:
    module = loosened(data, draw)
    found = match_schemas(module, data)
    assert isinstance(found, Mapped)
    assert holds(module, data, found)


def loosened(data: Schema, draw: random.Random) -> Schema:
    """Everything under other names, in another order, sizes named, bounds wider."""

    def size(dim: Dim) -> Dim:
        return f"d{dim}" if draw.random() < 0.6 else dim

    def mixed(values: dict[str, Any]) -> dict[str, Any]:
        return dict(draw.sample(list(values.items()), len(values)))

    nodes = {}
    for name, node in mixed(dict(data.nodes)).items():
        fields = {
            key if key == SINGLE else f"x{key}": Tensor(tuple(map(size, field.dims)))
            if isinstance(field, Tensor)
            else Category(f"x{field.of}")
            for key, field in mixed(dict(node.fields)).items()
        }
        links = {f"x{to}": Link(max(0, link.low - 1), link.high) for to, link in node.links.items()}
        nodes[f"x{name}"] = Node(node.singleton, fields, links)
    classes = {f"x{name}": Class(size(held.dim)) for name, held in data.classes.items()}
    return Schema(nodes, classes, data.cyclic, data.undirected, data.fan_in)


@given(dim_lists(named=True), st.lists(st.integers(1, 3), min_size=1, max_size=5))
def test_bindings_make_the_lists_equal(module: tuple[Dim, ...], data: list[int]) -> None:
    closed = [str(dim).rstrip("?+*") if isinstance(dim, str) else dim for dim in module]
    for way in bindings(module, data):
        sizes = [way.get(str(dim), dim) for dim in closed]
        place = next((n for n, dim in enumerate(module) if str(dim)[-1] in "?+*"), len(module))
        assert data[:place] == sizes[:place]
        assert data[len(data) - len(module) + place + 1 :] == sizes[place + 1 :]
        assert all(size == sizes[place] for size in data[place : len(data) - len(module) + place + 1])


@pytest.mark.parametrize(
    ("module", "data", "ways"),
    [
        (["a", "a"], [16, 16], [{"a": 16}]),
        (["a", "a"], [16, 32], []),
        (["a+"], [16, 16, 16], [{"a": 16}]),
        (["a+"], [16, 32], []),
        (["a", "b?"], [16], [{"a": 16}]),
        (["a*", "b"], [16, 32], [{"a": 16, "b": 32}]),
        (["a"], ["x", "y?"], [{"a": "x"}]),
        (["a", "a"], ["x+"], [{"a": "x"}]),
        (["a*", "b"], ["x+"], [{"b": "x"}]),
        ([3], ["x"], []),
    ],
)
def test_dimension_lists(module: list[Dim], data: list[Dim], ways: list[dict[str, Dim]]) -> None:
    assert bindings(module, data) == ways


def test_reasons_name_what_fits_nothing() -> None:
    found = match_schemas(singletons(("a", "a"), ("a",)), singletons((16, 32), (16,)))
    assert found == Unmatched(
        (
            "nothing of the data fits t0 (tensor [a, a]) of the module; "
            "the data has t0 (tensor [16, 32]), t1 (tensor [16])",
            "nothing of the module takes t0 (tensor [16, 32]) of the data",
        )
    )
    assert match_schemas(singletons(("a",)), singletons((1,), (2,))) == Unmatched(
        ("the module has 1 singletons, the data 2",)
    )
    together = match_schemas(singletons(("a", "b"), ("b", "a")), singletons((1, 2), (1, 3)))
    assert isinstance(together, Unmatched)
    assert "not all of them together" in together.reasons[0]


# Below: inputs of at most 30 nodes (30 links or more per node) that are made to be hard.


def linked(graph: nx.Graph, dims: Callable[[int], tuple[Dim, ...]]) -> Schema:
    """A node per vertex, a link per edge and direction."""
    both = nx.convert_node_labels_to_integers(graph).to_directed()
    return Schema(
        {
            f"n{v}": Node(False, {"f": Tensor(dims(v))}, {f"n{u}": Link(0, None) for u in both[v]})
            for v in both.nodes
        },
        cyclic=True,
        fan_in=True,
    )


def shuffled(graph: nx.Graph) -> nx.Graph:
    names = list(graph.nodes)
    return nx.relabel_nodes(graph, dict(zip(names, random.Random(3).sample(names, len(names)), strict=True)))


def latin(square: list[list[int]]) -> nx.Graph:
    """The strongly regular graph of a Latin square: cells that share a row, a column or a symbol."""
    cells = [(i, j, square[i][j]) for i in range(len(square)) for j in range(len(square))]
    graph = nx.Graph()
    for one, two in itertools.combinations(cells, 2):
        if sum(x == y for x, y in zip(one, two, strict=True)) == 1:
            graph.add_edge(one, two)
    return graph


CYCLIC = latin([[(i + j) % 5 for j in range(5)] for i in range(5)])
OTHER = latin([[0, 1, 2, 3, 4], [1, 0, 3, 4, 2], [2, 3, 4, 0, 1], [3, 4, 1, 2, 0], [4, 2, 0, 1, 3]])


def chang() -> tuple[nx.Graph, nx.Graph]:
    """The triangular graph of 28 pairs and one of Chang's, which has the same parameters."""
    pairs = list(itertools.combinations(range(8), 2))
    graph = nx.Graph((one, two) for one, two in itertools.combinations(pairs, 2) if set(one) & set(two))
    other = graph.copy()
    switched = {(0, 4), (1, 5), (2, 6), (3, 7)}
    for one in switched:
        for two in set(pairs) - switched:
            if graph.has_edge(one, two):
                other.remove_edge(one, two)
            else:
                other.add_edge(one, two)
    return graph, other


def cycles(*lengths: int) -> nx.Graph:
    return nx.disjoint_union_all([nx.cycle_graph(length) for length in lengths])


def edges(graph: nx.Graph, name: Callable[[int], Dim]) -> Schema:
    """A tensor per edge of cycles, in their direction."""
    loop = nx.convert_node_labels_to_integers(graph)
    pairs = [(name(u), name(v)) for part in nx.connected_components(loop) for u, v in _around(loop, part)]
    return singletons(*random.Random(1).sample(pairs, len(pairs)))


def _around(graph: nx.Graph, part: set[int]) -> Iterator[tuple[int, int]]:
    start = min(part)
    yield from ((u, v) for u, v in nx.find_cycle(graph.subgraph(part), start))


GRAPHS = {
    "two cycles and one": (cycles(15, 15), cycles(30), False),
    "triangles and a hexagon": (cycles(*[3] * 10), cycles(*[3] * 8, 6), False),
    "a cycle": (cycles(30), shuffled(cycles(30)), True),
    "complete": (nx.complete_graph(30), nx.complete_graph(30), True),
    "bipartite": (nx.complete_bipartite_graph(15, 15), shuffled(nx.complete_bipartite_graph(15, 15)), True),
    "cubic": (nx.random_regular_graph(3, 30, seed=1), nx.random_regular_graph(3, 30, seed=2), False),
    "cubic, the same": (nx.random_regular_graph(3, 30, seed=1),) * 2 + (True,),
    "half": (nx.random_regular_graph(15, 30, seed=1), nx.random_regular_graph(15, 30, seed=2), False),
    "strongly regular": (CYCLIC, shuffled(OTHER), False),
    "strongly regular, the same": (OTHER, shuffled(OTHER), True),
    "strongly regular, of 28": (*chang(), False),
    "cliques": (
        nx.disjoint_union_all([nx.complete_graph(5)] * 6),
        nx.disjoint_union_all([nx.complete_graph(5)] * 4 + [nx.random_regular_graph(4, 10, seed=3)]),
        False,
    ),
}


@pytest.mark.parametrize("named", ["alike", "apart"])
@pytest.mark.parametrize("case", GRAPHS)
def test_symmetric_links_are_decided(case: str, named: str) -> None:
    ours, theirs, expected = GRAPHS[case]
    apart = named == "apart"
    module = linked(ours, lambda v: (f"a{v}",) if apart else ("a",))
    data = linked(theirs, lambda v: (v + 1,) if apart else (16,))
    assert decided(module, data) == expected


def one_cell(size: int) -> Callable[[int], Dim]:
    return lambda number: number % size + 1


def ring(*pairs: tuple[Dim, Dim]) -> Schema:
    """A node without links per pair, with two fields."""
    return Schema(
        {f"n{i}": Node(False, {"f": Tensor((f,)), "g": Tensor((g,))}) for i, (f, g) in enumerate(pairs)}
    )


FIELDS = {
    "one is different": (singletons(*[("a",)] * 30), singletons(*[(16,)] * 29, (32,)), False),
    "all are different": (singletons(*[("a",)] * 30), singletons(*[(i,) for i in range(1, 31)]), False),
    "each its own name": (
        singletons(*[(f"a{i}",) for i in range(30)]),
        singletons(*[(i,) for i in range(1, 31)]),
        True,
    ),
    "a cycle for a cycle": (edges(cycles(30), "a{}".format), edges(cycles(30), lambda v: v + 1), True),
    "two cycles for one": (edges(cycles(15, 15), "a{}".format), edges(cycles(30), lambda v: v + 1), False),
    "triangles for a hexagon": (
        edges(cycles(*[3] * 10), "a{}".format),
        edges(cycles(*[3] * 8, 6), lambda v: v + 1),
        False,
    ),
    "one for a cycle of two": (edges(cycles(30), "a{}".format), edges(cycles(30), one_cell(3)), True),
    "nodes in a ring": (
        ring(*[(f"a{i}", f"a{(i + 1) % 30}") for i in range(30)]),
        ring(*[(i + 1, (i + 1) % 15 + i // 15 * 15 + 1) for i in range(30)]),
        False,
    ),
}


@pytest.mark.parametrize("case", FIELDS)
def test_symmetric_fields_are_decided(case: str) -> None:
    module, data, expected = FIELDS[case]
    assert decided(module, data) == expected


def decided(module: Schema, data: Schema) -> bool:
    """The answer of a search that ends within its steps; a wrong mapping fails."""
    written = write(module, data)
    if written.reasons:
        return False
    search = Search(written.puzzle)
    solved = search.solve() is not None
    assert search.steps <= MAX_STEPS
    found = match_schemas(module, data)
    assert isinstance(found, Mapped) == solved
    return isinstance(found, Mapped) and holds(module, data, found)


@pytest.mark.parametrize("seed", range(40))
def test_a_match_among_thirty_nodes_is_found(seed: int) -> None:
    assert decided(*planted(seed))


def test_many_fields_are_decided() -> None:
    named = [[(f"a{i}_{j}", f"b{j}*") for j in range(6)] for i in range(30)]
    sizes = [[(i * 6 + j + 1, *[j + 1] * (j % 3)) for j in range(6)] for i in range(30)]
    schemas_of = [
        Schema({f"n{i}": Node(False, {f"f{j}": Tensor(d) for j, d in enumerate(held)}) for i, held in nodes})
        for nodes in (enumerate(named), reversed(list(enumerate(sizes))))
    ]
    assert decided(*schemas_of)


def test_too_many_fields_are_not_begun_with() -> None:
    many = Schema({"n": Node(False, {f"f{i}": Tensor((i + 1,)) for i in range(300)})})
    with pytest.raises(TooHard, match="more than 60,000 pairs"):
        match_schemas(many, many)


def test_a_search_that_takes_too_long_says_so() -> None:
    with pytest.raises(TooHard, match="within 1,000 steps"):
        match_schemas(linked(CYCLIC, lambda _: ("a",)), linked(OTHER, lambda _: (16,)), max_steps=1000)
