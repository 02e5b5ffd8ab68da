"""Series to translate into series: a real one, cut into what was and what came next."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_sample_image

from easeml_core.data import Limits, read_inputs
from easeml_core.errors import Problem
from tests.data.test_arrays import npz
from tests.data.uploads import spec_of

Put = Callable[[str, "bytes | str"], Path]
SPEC = spec_of("[Tensor[2]], [next]", "[Tensor[1]], [next]")


def windows(count: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """`count` pairs along the lines of a photograph: red and green of 5 to 9 pixels, then the next 3 or 4
    pixels' blue, as (T, 2) and (T', 1)."""
    photo = load_sample_image("flower.jpg").astype(np.float32) / 255
    given, wanted = [], []
    for i in range(count):
        line, long, short = photo[i], 5 + i % 5, 3 + i % 2
        given.append(line[:long, :2])
        wanted.append(line[long : long + short, 2:])
    return given, wanted


def flat(series: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    return np.concatenate(series), np.cumsum([0, *map(len, series)])


def packed(count: int = 20, **changed: Any) -> bytes:
    given, wanted = windows(count)
    (inputs, input_offsets), (targets, target_offsets) = flat(given), flat(wanted)
    arrays = {
        "inputs": inputs,
        "input_offsets": input_offsets,
        "targets": targets,
        "target_offsets": target_offsets,
    }
    return npz(**(arrays | changed))


def lines(count: int = 20, start: int = 0) -> str:
    given, wanted = windows(count + start)
    pairs = list(zip(given, wanted, strict=True))[start:]
    rows = [{"input": x.tolist(), "output": y.ravel().tolist()} for x, y in pairs]
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize("form", ["npz", "jsonl"])
def test_pairs_of_series(build: Any, put: Put, form: str) -> None:
    if form == "npz":
        put("data/d.npz", packed())
    else:
        put("data/d.jsonl", lines())
    version = build(SPEC)
    facts = version.facts
    assert (facts.kind, facts.task_kind, facts.shape) == ("series", "translation", (2,))
    assert (facts.target_shape, facts.outputs) == ((1,), 1)
    assert (facts.max_length, facts.target_max_length) == (9, 4)
    given, wanted = windows(20)
    assert np.allclose(version.values, flat(given)[0])
    assert version.offsets.tolist() == flat(given)[1].tolist()
    assert np.allclose(version.target_values, flat(wanted)[0])
    assert version.target_offsets.tolist() == flat(wanted)[1].tolist()
    assert version.ids[1] == ("d.npz[1]" if form == "npz" else "d.jsonl#2")
    at, y = version.target_offsets, version.target_values
    fit, held = (
        np.concatenate([y[at[i] : at[i + 1]] for i in part]) for part in (version.train, version.val)
    )
    assert facts.reference["mse"] == pytest.approx(((held - fit.mean(0)) ** 2).mean(), rel=1e-5)
    assert facts.reference["mae"] == pytest.approx(np.abs(held - np.median(fit, 0)).mean(), rel=1e-5)


def test_padded_arrays_say_the_same(build: Any, put: Put) -> None:
    given, wanted = windows(20)
    x, y = np.full((20, 9, 2), np.nan), np.zeros((20, 4, 1))
    for row, (a, b) in enumerate(zip(given, wanted, strict=True)):
        x[row, : len(a)], y[row, : len(b)] = a, b
    put("data/d.npz", npz(x=x, y=y, target_lengths=[len(b) for b in wanted]))
    version = build(SPEC)
    assert np.allclose(version.values, flat(given)[0])
    assert np.allclose(version.target_values, flat(wanted)[0])


def test_a_feed_of_another_form_keeps_the_split(build: Any, put: Put) -> None:
    put("data/d.npz", packed())
    first = build(SPEC)
    put("data/feed.jsonl", lines(20, start=20))
    second = build(SPEC, parent=first)
    assert (second.facts.n, second.facts.parent) == (40, first.facts.digest)
    split = dict(zip(second.manifest["content"], second.manifest["split"], strict=True))
    before = zip(first.manifest["content"], first.manifest["split"], strict=True)
    assert all(split[content] == part for content, part in before)


def test_several_tensors_per_step_are_joined_in_order(build: Any, put: Put) -> None:
    rows = [
        {"input": [{"b": [[i, 2], [3, 4]], "a": 1.5}], "output": [[i, i], [i, 1]], "id": f"s{i}"}
        for i in range(8)
    ]
    put("data/d.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    version = build(spec_of("[a :: Tensor[1], b :: Tensor[2, 2]], [next]", "[Tensor[2]], [next]"))
    assert version.facts.shape == (5,)
    assert version.values[3].tolist() == [1.5, 3, 2, 3, 4]
    assert version.ids[3] == "s3"
    assert version.target_values[6:8].tolist() == [[3, 3], [3, 1]]


def test_broken_lines_are_named_with_their_line(build: Any, put: Put) -> None:
    bad = [
        '{"input": [[1, 2]]}',
        '{"input": [[1, 2], [3]], "output": [1]}',
        '{"input": [[1, 2]], "output": [NaN]}',
        '{"input": [[1, 2]], "output": ["1"]}',
        '{"input": [], "output": [1]}',
        '{"input": [[1, 2]], "output": [1], "input": [[3, 4]]}',
        "[1, 2]",
        "{",
        '{"input": [[1, 2, 3]], "output": [1]}',
        '{"input": [[1, 1e99]], "output": [1]}',
        '{"input": [[1, ' + "9" * 5000 + ']], "output": [1]}',
        '{"input": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"input": [[1, 2]], "output": [1], "labels": "a"}',
    ]
    put("data/d.jsonl", lines(200).replace("\n", "\n\n", 1) + "\n".join(bad))
    version = build(SPEC)
    assert version.facts.n == 200
    found = [(item["file"], item["reason"]) for item in version.facts.quarantined]
    assert [file for file, _ in found] == [f"data/d.jsonl:{202 + i}" for i in range(len(bad))]
    for (_, reason), words in zip(
        found,
        [
            "no field output",
            "rows of different lengths",
            "not a finite number",
            "a value that is no number",
            "it has no values",
            "the field 'input' is given twice",
            "one JSON object",
            "it is no JSON",
            "shape (1, 3); the program wants (records, 2)",
            "not a finite number",
            "a number is too long",
            "nested more than 500 deep",
            "unknown field 'labels'",
        ],
        strict=True,
    ):
        assert words in reason


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (packed(input_offsets=[0, 5]), "the offsets of inputs must begin with 0 and end with"),
        (packed(target_offsets=np.zeros(21)), "must be whole numbers, one more than examples"),
        (packed(target_offsets=[0, 9, 3, 70]), "the offsets of targets must not fall"),
        (packed(targets=np.zeros((70, 2))), "targets has shape (70, 2); the program wants (steps of all, 1)"),
        (packed(target_offsets=[0, 70]), "inputs has 20 examples, targets has 1"),
    ],
)
def test_arrays_that_are_refused(refused: Any, put: Put, content: bytes, words: str) -> None:
    put("data/d.npz", content)
    assert words in refused(SPEC)


def test_ids_must_differ_and_be_text(refused: Any, put: Put) -> None:
    row = '{{"id": {}, "input": [[{}, 2]], "output": [1]}}\n'
    put("data/d.jsonl", "".join(row.format(ident, i) for i, ident in enumerate(['"a"', '"a"', "true", '""'])))
    said = refused(SPEC)
    assert "data/d.jsonl:2: the id 'a' is given twice" in said
    assert "lines 3, 4: the id must be text or a whole number" in said


def test_requests_hold_inputs_alone(build: Any, put: Put, tmp_path: Path) -> None:
    put("data/d.npz", packed())
    version = build(SPEC)
    request = tmp_path / "request"
    request.mkdir()
    (request / "q.jsonl").write_text('{"id": 7, "input": [[1, 2], [3, 4]]}\n' + '{"input": [1]}\n')
    inputs = read_inputs(request, facts=version.facts, limits=Limits(), staging=tmp_path / "staging")
    assert inputs.ids == ["7"]
    assert inputs.values[:].tolist() == [[1, 2], [3, 4]]
    text = "its values have shape (1,); the program wants (records, 2)"
    assert inputs.problems == (Problem("q.jsonl:2", text),)
