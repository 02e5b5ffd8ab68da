"""Trees to classify: the syntax of real functions, nested and flat, and trees that are none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from easeml_core.data import Limits, read_inputs
from tests.data.trees import WIDTH, flat, functions
from tests.data.uploads import spec_of

Put = Callable[[str, "bytes | str"], Path]
SPEC = spec_of(f"[Tensor[{WIDTH}]], [left, right]", "[Tensor[2]], []")
SMALL = spec_of("[Tensor[1]], [left, right]", "[Tensor[2]], []")


def lines(count: int = 30) -> str:
    rows = [{"label": name, "tree": tree} for name, tree in functions(count)]
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_syntax_trees(build: Any, put: Put) -> None:
    put("data/functions.jsonl", lines())
    version = build(SPEC)
    facts = version.facts
    assert (facts.kind, facts.task_kind, facts.shape) == ("tree", "classification", (WIDTH,))
    assert facts.classes == ("email.message", "statistics")
    trees = [flat(tree) for _, tree in functions(30)]
    assert facts.max_length == max(len(values) for values, _ in trees)
    assert version.children.dtype == np.int64
    for i, (values, children) in enumerate(trees):
        part = slice(version.offsets[i], version.offsets[i + 1])
        assert np.allclose(version.values[part], values)
        assert version.children[part].tolist() == children
        below = version.children[part]
        assert (below[below >= 0] > np.nonzero(below >= 0)[0]).all()  # a child comes after its parent


def test_flat_trees_are_the_same_content(build: Any, put: Put) -> None:
    put("data/functions.jsonl", lines())
    nested = build(SPEC)
    rows = []
    for name, tree in functions(30):
        values, children = flat(tree)
        order = np.random.default_rng(0).permutation(len(values))  # the root need not come first
        place = np.argsort(order)
        moved = [[None if c < 0 else int(place[c]) for c in children[i]] for i in order]
        nodes = [values[i] for i in order]
        rows.append({"label": name, "tree": {"nodes": nodes, "children": moved}})
    put("data/functions.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert build(SPEC).manifest["content"] == nested.manifest["content"]


def test_shape_alone_tells_trees_apart(build: Any, put: Put) -> None:
    leaf = {"value": 1}
    rows = [
        {"label": side, "tree": {"value": i, side: leaf}} for i in range(10) for side in ("left", "right")
    ]
    put("data/t.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    version = build(SMALL)
    assert len(set(version.manifest["content"])) == 20
    assert version.facts.warnings == []


def test_a_deep_tree_needs_no_stack(build: Any, put: Put) -> None:
    children = [[i + 1, -1] for i in range(8_999)] + [[-1, -1]]
    deep = {"nodes": [0] * 9_000, "children": children}
    text = '{"value": 1, "left": ' * 5_000 + "null" + "}" * 5_000
    rows = [json.dumps({"label": "ab"[i % 2], "tree": {"value": i}}) for i in range(40)]
    rows += [json.dumps({"label": "a", "tree": deep}), f'{{"label": "a", "tree": {text}}}']
    put("data/t.jsonl", "\n".join(rows))
    version = build(SMALL)
    assert version.facts.max_length == 9_000
    (broken,) = version.facts.quarantined
    assert broken["file"] == "data/t.jsonl:42"
    assert "nested more than 500 deep; write deep objects flat" in broken["reason"]


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ({"nodes": [1, 2], "children": [[1, -1], [0, -1]]}, "no root: its links lead in a circle"),
        ({"nodes": [1, 2, 3], "children": [[-1, -1], [2, -1], [1, -1]]}, "2 of its nodes lead in a circle"),
        ({"nodes": [1, 2, 3], "children": [[2, -1], [2, -1], [-1, -1]]}, "node 2 is the child of more than"),
        ({"nodes": [1, 2], "children": [[-1, -1], [-1, -1]]}, "it has 2 roots"),
        ({"nodes": [1, 2], "children": [[1, 7], [-1, -1]]}, "children must be from 0 to 1"),
        ({"nodes": [1, 2], "children": [[1, -2], [-1, -1]]}, "children must be from 0 to 1"),
        ({"nodes": [1, 2], "children": [[1], [-1]]}, "children must be rows of 2 whole numbers"),
        ({"nodes": [1, 2], "children": [[1, "0"], [-1, -1]]}, "children must be rows of 2 whole numbers"),
        ({"nodes": [1], "children": [[-1, -1], [-1, -1]]}, "it has 1 nodes and children of 2"),
        ({"nodes": [], "children": []}, "it has no values"),
        (
            {"nodes": [0] * 10_001, "children": [[i + 1, -1] for i in range(10_000)] + [[-1, -1]]},
            "10,001 nodes",
        ),
        ({"value": 1, "left": {"right": 3}}, "it has a record without value"),
        ({"value": 1, "next": {"value": 3}}, "unknown field 'next'; allowed: value, left, right"),
        ({"value": [1, 2]}, "value has shape (2,); the program wants (1,)"),
        ({"value": None}, "it has a value that is no number"),
        ({"value": True}, "it has a value that is no number"),
        ({"value": 1, "left": float("inf")}, "a value that is not a finite number"),
        ([], "it has no values"),
    ],
)
def test_what_is_no_tree_is_left_out_and_named(build: Any, put: Put, tree: Any, words: str) -> None:
    rows = [json.dumps({"label": "ab"[i % 2], "tree": {"value": i}}) for i in range(20)]
    put("data/t.jsonl", "\n".join([*rows, json.dumps({"label": "a", "tree": tree})]))
    (broken,) = build(SMALL).facts.quarantined
    assert broken["file"] == "data/t.jsonl:21"
    assert words in broken["reason"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("\n\n", "data/t.jsonl: has no lines in it"),
        (
            json.dumps([{"tree": {"value": 1}}], indent=1),
            "data/t.jsonl:1: begins one JSON value of many lines",
        ),
        (json.dumps({"tree": {"value": 1}}, indent=1), "data/t.jsonl:1: begins one JSON value of many lines"),
        ('{"tree": {"value": 1}}', "line 1: the label must be text or a whole number"),
        ('{"tree": {"value": 1}, "label": " "}', "line 1: the label must be text or a whole number"),
        ('{"tree": {"value": 1}, "label": "\\ud800"}', "line 1: the label must be text or a whole number"),
        ('{"tree": {"value": 1}, "label": 1.5}', "line 1: the label must be text or a whole number"),
        (b'{"tree": {"value": 1}, "label": "\xff"}', "data/t.jsonl:1: is not UTF-8 text"),
    ],
)
def test_files_that_are_refused(refused: Any, put: Put, content: bytes | str, words: str) -> None:
    put("data/t.jsonl", content)
    assert words in refused(SMALL)


def test_requests_need_no_label(build: Any, put: Put, tmp_path: Path) -> None:
    put("data/functions.jsonl", lines())
    version = build(SPEC)
    request = tmp_path / "request"
    request.mkdir()
    rows = [{"id": name + str(i), "tree": tree} for i, (name, tree) in enumerate(functions(3))]
    (request / "q.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    inputs = read_inputs(request, facts=version.facts, limits=Limits(), staging=tmp_path / "staging")
    assert inputs.ids == ["statistics0", "email.message1", "statistics2"]
    assert inputs.children.tolist() == version.children[: version.offsets[3]].tolist()
