"""`easeml match` says the same of a program however it comes, and shows every row."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result

from easeml_core.language import TEMPLATES, parse
from easeml_core.schema import compile_program
from tests.cli.conftest import data_of

Easeml = Callable[..., Result]
PROGRAM = "{input: {[Tensor[6]], [next]}, output: {[Tensor[4]], []}}"


def test_a_program_finds_its_row_with_bindings_and_candidates(easeml: Easeml) -> None:
    answer = data_of(easeml("match", PROGRAM, "--json"))
    assert answer["template"] == "series-classification"
    assert answer["bindings"] == {"A": 6, "a": "next", "D": 4}
    assert "LSTM" in answer["candidates"]
    rows = {row["template"]: row for row in answer["rows"]}
    assert list(rows) == [row.id for row in TEMPLATES]
    assert rows["tree-classification"]["reason"] == "the input has 1 link, this row wants 2 links"
    assert rows["general-classification"]["fits"]
    assert all(row["fits"] == (row["reason"] is None) for row in rows.values())


def test_the_objective_tells_rows_apart(easeml: Easeml) -> None:
    assert (
        data_of(easeml("match", PROGRAM, "--objective", "mae", "--json"))["template"] == "series-regression"
    )


def test_people_see_a_table(easeml: Easeml, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    result = easeml("match", PROGRAM)
    assert result.exit_code == 0
    assert "this row" in result.stdout
    assert "A = 6, a = next, D = 4" in result.stdout
    assert "this row wants no link" in result.stdout


@pytest.fixture
def forms(tmp_path: Path) -> dict[str, list[object]]:
    """The arguments that mean `PROGRAM`, by what they are."""
    source, target = (json.dumps(schema.as_dict()) for schema in compile_program(parse(PROGRAM)))
    for name, text in (("in.json", source), ("out.json", target), ("program.txt", f"# mine\n{PROGRAM}\n")):
        (tmp_path / name).write_text(text)
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "task.yaml").write_text(f"program: |\n  {PROGRAM}\n")
    for sample in "ab":
        record = tmp_path / "set" / "train" / "input" / sample / "node"
        label = tmp_path / "set" / "train" / "output" / sample
        record.mkdir(parents=True)
        label.mkdir(parents=True)
        np.save(record / "t1.ten.npy", np.zeros((3, 6)))
        (label / "kind.cat.txt").write_text("one")
    (tmp_path / "set" / "train" / "output" / "kinds.class.txt").write_text("one\ntwo\nthree\nfour\n")
    return {
        "text": [PROGRAM],
        "file": [tmp_path / "program.txt"],
        "spec": [tmp_path / "task" / "task.yaml"],
        "folder": [tmp_path / "task"],
        "schemas": [tmp_path / "in.json", "--output", tmp_path / "out.json"],
        "data set": [tmp_path / "set"],
    }


@pytest.mark.parametrize("form", ["text", "file", "spec", "folder", "schemas", "data set"])
def test_every_form_means_the_same(easeml: Easeml, forms: dict[str, list[object]], form: str) -> None:
    answer = data_of(easeml("match", *forms[form], "--json"))
    assert answer["template"] == "series-classification"
    assert answer["bindings"] == {"A": 6, "a": "next", "D": 4}
    assert parse(answer["program"]).shape == parse(PROGRAM).shape
    assert list(answer["input"]["nodes"]) == ["node"]


def test_a_schema_alone_is_compared_by_its_input(easeml: Easeml, forms: dict[str, list[object]]) -> None:
    answer = data_of(easeml("match", forms["schemas"][0], "--json"))
    fitting = [row["template"] for row in answer["rows"] if row["fits"]]
    assert answer["template"] is None
    assert fitting[:3] == ["series-classification", "series-regression", "series-translation"]
    assert answer["input type"] == "{[Tensor[6]], [next]}"
    shown = easeml("match", forms["schemas"][0]).stdout
    assert "input type: {[Tensor[6]], [next]}" in shown
    assert "compared by their input" in shown


def test_a_spec_with_other_problems_still_shows_its_row(easeml: Easeml, tmp_path: Path) -> None:
    path = tmp_path / "task.yaml"
    path.write_text(f"program: |\n  {PROGRAM}\nobjective: r2\nbudget: {{trials: -1}}\n")
    assert data_of(easeml("match", path, "--json"))["template"] == "series-regression"


def test_what_a_spec_leaves_out_is_no_candidate(easeml: Easeml, tmp_path: Path) -> None:
    path = tmp_path / "task.yaml"
    path.write_text(f"program: |\n  {PROGRAM}\ncandidates: {{include: ['*'], exclude: [LSTM, GRU]}}\n")
    candidates = data_of(easeml("match", path, "--json"))["candidates"]
    assert "RNN" in candidates
    assert not {"LSTM", "GRU"} & set(candidates)


def test_a_module_takes_the_data_or_not(
    easeml: Easeml, forms: dict[str, list[object]], tmp_path: Path
) -> None:
    field = {"type": "tensor", "dim": ["a"]}
    nodes = {"chain": {"singleton": False, "fields": {"x": field}, "links": {"chain": [0, 1]}}}
    module = tmp_path / "module.json"
    module.write_text(json.dumps({"nodes": nodes}))
    result = easeml("match", *forms["data set"], "--module", module, "--json")
    assert result.exit_code == 0
    assert data_of(result) == {
        "matches": True,
        "nodes": {"chain": "node"},
        "fields": {"chain": {"x": "t1"}},
        "classes": {},
        "dims": {"a": 6},
    }
    assert "chain.x" in easeml("match", *forms["data set"], "--module", module).stdout
    module.write_text(json.dumps({"nodes": {"t": {"singleton": True, **field}}}))
    result = easeml("match", *forms["data set"], "--module", module, "--json")
    assert result.exit_code == 1
    assert data_of(result)["reasons"] == [
        "the module has 1 singletons, the data 0",
        "the module has 0 nodes with instances, the data 1",
    ]
    assert "does not match" in easeml("match", *forms["data set"], "--module", module).stdout


@pytest.mark.parametrize(
    ("name", "text", "code", "words"),
    [
        ("in.json", '{"nodes": {"n": {"fields": {"x": {"type": "tensor", "dim": [2]}}}}}', 1, "not linked"),
        ("in.json", '{"nodes": 3}', 1, "1 problem found"),
        ("program.txt", "{input: 3}", 1, "line 1, column 9"),
        ("program.txt", "{input: 3}".encode("utf-16"), 1, "line 1, column 9"),
        ("program.txt", b"{input: \xff}", 1, "1 problem found"),
        ("cat.png", b"\x89PNG\0", 1, "1 problem found"),
        ("task.yaml", "objective: mse", 1, "problem"),
    ],
)
def test_what_cannot_be_matched_is_said(
    easeml: Easeml, tmp_path: Path, name: str, text: str | bytes, code: int, words: str
) -> None:
    (tmp_path / name).write_bytes(text.encode() if isinstance(text, str) else text)
    result = easeml("match", tmp_path / name, "--json")
    assert result.exit_code == code
    assert words in data_of(result)["error"]


def test_nothing_there_is_a_wrong_call(easeml: Easeml) -> None:
    for what in ("nowhere", "", "/dev/zero"):
        assert easeml("match", what).exit_code == 2
    for option in ("--output", "--module"):
        assert easeml("match", PROGRAM, option, "nowhere.json").exit_code == 2
