"""Random data sets of a schema are of that schema."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings

from easeml_core.schema import (
    Link,
    Mapped,
    Node,
    Schema,
    Tensor,
    generate_data_set,
    infer_schema,
    load_schema,
    match_schemas,
)
from tests.schema.conftest import example_files, skip_if_absent
from tests.schema.strategies import schemas, singletons


@pytest.mark.parametrize("path", example_files("dataset/generate/positive/*.json"), ids=lambda p: p.stem)
def test_examples_come_back(path: Path, tmp_path: Path) -> None:
    skip_if_absent(path)
    schema = load_schema(path.read_bytes())
    generate_data_set(schema, tmp_path / "set")
    assert isinstance(match_schemas(schema, infer_schema(tmp_path / "set")), Mapped)


def generated(schema: Schema, **options: int) -> Schema:
    with tempfile.TemporaryDirectory() as folder:
        generate_data_set(schema, Path(folder, "set"), **options)
        return infer_schema(Path(folder, "set"))


@settings(max_examples=60, deadline=None)
@given(schemas(named=False))
def test_what_is_generated_matches(schema: Schema) -> None:
    try:
        found = match_schemas(schema, generated(schema, samples=2, instances=4))
    except ValueError as error:
        refusal = str(error)
    else:
        assert isinstance(found, Mapped), found
        return
    assert "undirected" in refusal  # nothing finite has such links


def linked(*, cyclic: bool = False, undirected: bool = False, fan_in: bool = False, **links: Link) -> Schema:
    nodes = {name: Node(False, {"x": Tensor((2,))}, {}) for name in ("m", "n")}
    for ends, link in links.items():
        of, to = ends.split("_")
        nodes[of] = Node(False, nodes[of].fields, {**nodes[of].links, to: link})
    return Schema(nodes, {}, cyclic, undirected, fan_in)


@pytest.mark.parametrize(
    "schema",
    [
        linked(n_n=Link(1, 1)),
        linked(n_n=Link(10, None)),
        linked(n_m=Link(10, 10), m_n=Link(10, 10)),
        linked(n_m=Link(0, None), n_n=Link(2, 2), m_m=Link(0, 1)),
        linked(n_n=Link(0, 2), undirected=True),
        linked(n_n=Link(2, 2), undirected=True, cyclic=True),
        linked(n_n=Link(5, 7), undirected=True, cyclic=True, fan_in=True),
        linked(n_m=Link(3, 4), m_n=Link(0, 1), undirected=True, fan_in=True),
        linked(n_m=Link(3, 3), m_n=Link(4, 4), undirected=True, cyclic=True, fan_in=True),
    ],
)
def test_bounds_and_constraints_are_kept(schema: Schema) -> None:
    found = match_schemas(schema, generated(schema))
    assert isinstance(found, Mapped), found


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (singletons(("a",)), "a stands for no size"),
        (linked(n_n=Link(2, 2), undirected=True), "no tree"),
        (linked(n_m=Link(0, 1), undirected=True), "none may lead back"),
        (linked(n_m=Link(2, 2), m_n=Link(2, 2), undirected=True, fan_in=True), "forms a cycle"),
    ],
)
def test_what_cannot_be_generated_is_said(schema: Schema, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        generated(schema)


def test_a_seed_gives_the_same_again(tmp_path: Path) -> None:
    schema = linked(n_n=Link(0, 3), n_m=Link(1, None))
    for folder, seed in (("one", 4), ("two", 4), ("three", 5)):
        generate_data_set(schema, tmp_path / folder, seed=seed)
    held = [
        {path.relative_to(tmp_path / name): path.read_bytes() for path in (tmp_path / name).rglob("*.*")}
        for name in ("one", "two", "three")
    ]
    assert held[0] == held[1]
    assert held[0] != held[2]
