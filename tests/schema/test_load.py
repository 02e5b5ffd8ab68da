"""`schema.json`: the public examples load or not as they should; every problem has its path."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easeml_core.errors import TenantError
from easeml_core.schema import Schema, load_schema
from tests.schema.conftest import example_files, skip_if_absent
from tests.schema.strategies import schemas


@pytest.mark.parametrize("path", example_files("schema/validate/positive/*.json"), ids=lambda p: p.stem)
def test_right_examples_load_and_dump_back(path: Path) -> None:
    skip_if_absent(path)
    schema = load_schema(path.read_bytes())
    assert load_schema(json.dumps(schema.as_dict())) == schema


@pytest.mark.parametrize("path", example_files("schema/validate/negative/*.json"), ids=lambda p: p.stem)
def test_wrong_examples_do_not(path: Path) -> None:
    skip_if_absent(path)
    with pytest.raises(TenantError):
        load_schema(path.read_bytes())


@given(schemas())
def test_what_is_dumped_loads_as_the_same_schema(schema: Schema) -> None:
    assert load_schema(json.dumps(schema.as_dict())) == schema


TENSOR = {"singleton": True, "type": "tensor", "dim": ["a"]}
CATEGORY = {"type": "category", "class": "k"}
NODE = {"singleton": False, "fields": {"t": {"type": "tensor", "dim": [3]}}}


def with_node(**changes: object) -> dict[str, object]:
    return {"nodes": {"n": {**NODE, **changes}}}


@pytest.mark.parametrize(
    ("values", "path", "words"),
    [
        ({}, "nodes", "got nothing"),
        ({"nodes": {}}, "nodes", "at least one"),
        ({"nodes": {"n": TENSOR}, "node": {}}, None, 'the key "node" is not known'),
        ({"nodes": {"n": {**TENSOR, "dims": [1]}}}, "nodes.n", 'the key "dims" is not known'),
        ({"nodes": {"N": TENSOR}}, "nodes", 'the key "N" must be a name'),
        ({"nodes": {"n": {**TENSOR, "dim": [True]}}}, "nodes.n.dim[0]", "got true"),
        ({"nodes": {"n": {**TENSOR, "dim": ["a", "b?", "c+"]}}}, "nodes.n.dim", "at most one"),
        ({"nodes": {"n": {**TENSOR, "dim": ["a?"]}}}, "nodes.n.dim", "without dimensions"),
        ({"nodes": {"n": {**TENSOR, "dim": [2**60]}}}, "nodes.n.dim[0]", "whole number"),
        ({"nodes": {"n": {**TENSOR, "type": "image"}}}, "nodes.n.type", "tensor or category"),
        ({"nodes": {"n": {**TENSOR, "src-name": "é"}}}, "nodes.n.src-name", "must be a name"),
        (with_node(fields={}), "nodes.n", "a field or a link"),
        (with_node(singleton=1), "nodes.n.singleton", "true or false"),
        (with_node(links={"n": [2, 1]}), "nodes.n.links.n", "above the upper bound"),
        (with_node(links={"n": [0, 0]}), "nodes.n.links.n", "high from 1"),
        (with_node(links={"n": True}), "nodes.n.links.n", "got true"),
        (with_node(links={"x": 1}), "nodes.n.links.x", "x is no node"),
        ({"nodes": {"n": {**NODE, "links": {"t": 1}}, "t": TENSOR}}, "nodes.n.links.t", "t is a singleton"),
        (
            {**with_node(links={"n": [0, "inf"]}), "ref-constraints": {"undirected": True}},
            "nodes.n.links",
            "two links per instance",
        ),
        (
            {**with_node(links={"n": 3}), "ref-constraints": {"undirected": True}},
            "nodes.n.links",
            "two links per instance",
        ),
        ({"nodes": {"n": TENSOR}, "classes": {"c": {"dim": 3}}}, "classes.c", "no category"),
        ({"nodes": {"n": TENSOR}, "classes": {"c": {"dim": "a*"}}}, "classes.c.dim", "must be"),
        (
            with_node(fields={"c": {"type": "category", "class": "k"}}),
            "nodes.n.fields.c.class",
            "not declared",
        ),
        ({"nodes": {"n": TENSOR}, "src-dims": {"a": 1.5}}, "src-dims.a", "got 1.5"),
    ],
)
def test_a_problem_has_its_path(values: dict[str, object], path: str | None, words: str) -> None:
    with pytest.raises(TenantError) as caught:
        load_schema(json.dumps(values))
    assert [p.field for p in caught.value.problems if words in p.message] == [path]


def test_every_problem_is_named_at_once() -> None:
    values = {"nodes": {"n": {"type": "tensor", "singleton": True, "dim": [0, "B"]}}, "classes": 1}
    with pytest.raises(TenantError) as caught:
        load_schema(json.dumps(values), "in.json")
    assert {p.field for p in caught.value.problems} == {"nodes.n.dim[0]", "nodes.n.dim[1]", "classes"}
    assert {p.file for p in caught.value.problems} == {"in.json"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"nodes": {"n": 1, "n": 2}}', "'n' is given twice"),
        ('{\n"nodes": ', "no valid JSON"),
        (b'{"nodes": "\xff"}', "not UTF-8"),
        ("[" * 100_000, "nested too deep"),
        ("[]", "must hold an object"),
        ("{" + " " * 2_000_000 + "}", "larger than"),
        ('{"nodes": {"n": {"singleton": true, "type": "tensor", "dim": [NaN]}}}', "got NaN"),
    ],
)
def test_no_text_gets_past(text: str | bytes, words: str) -> None:
    with pytest.raises(TenantError, match=words):
        load_schema(text)


KEYS = st.sampled_from(["nodes", "n", "fields", "links", "dim", "type", "singleton", "classes", "class"])
LEAVES = st.none() | st.booleans() | st.integers() | st.sampled_from(["tensor", "inf", "a*", "é"])


@given(st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner)))
def test_any_json_is_a_schema_or_refused(value: object) -> None:
    try:
        schema = load_schema(json.dumps({"nodes": value}))
    except TenantError:
        return
    assert load_schema(schema.as_dict()) == schema
