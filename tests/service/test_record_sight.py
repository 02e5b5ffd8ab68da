"""`easeml init` on trees, objects, pairs and directories: what it proposes, intake can read the data by."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ruamel.yaml import YAML

from easeml_core.data import Limits, VersionFacts, build_version
from easeml_core.errors import TenantError
from easeml_core.language import DataType, Tensor, match, parse
from easeml_core.service import inspect_data
from easeml_core.service.inspect_data import propose_spec
from easeml_core.service.record_sight import type_of_values
from tests.data.test_arrays import npz
from tests.data.test_parquet import packed, wine
from tests.data.test_recovery import patches, png
from tests.data.test_samples import digits
from tests.data.test_samples import trees as tree_samples
from tests.data.test_translation import lines as translation_lines
from tests.data.test_translation import packed as translation_arrays
from tests.data.trees import functions
from tests.data.uploads import NAME, spec_of

Files = dict[str, bytes]


@pytest.fixture(autouse=True)
def _all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is proposed does not hang on which rows can be trained."""
    monkeypatch.setattr(inspect_data, "models_for", lambda row: (row,))


def lines(rows: list[dict[str, Any]]) -> Files:
    return {"d.jsonl": "".join(json.dumps(row) + "\n" for row in rows).encode()}


def pairs(folder: Path) -> Files:
    noisy, clean = patches(10)
    sides = {"inputs": noisy, "targets": clean[:, ::2, ::2, :1].repeat(3, axis=3)}
    return {f"set/{side}/{i}.png": png(x[i], folder) for side, x in sides.items() for i in range(10)}


def lay(root: Path, files: Files) -> Path:
    for name, content in files.items():
        path = root / "data" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return root


def read_by(proposal: str, folder: Path, versions: Path) -> VersionFacts:
    fields = YAML(typ="safe").load(proposal)
    program = parse(fields["program"])
    template = match(program, fields["objective"]).template
    assert fields["objective"] in template.objectives
    sides = [str(side).removeprefix("{").removesuffix("}") for side in (program.input, program.output)]
    spec = spec_of(sides[0], sides[1], fields["objective"])
    return build_version(folder, spec, parent=None, limits=Limits(), versions_dir=versions, name=NAME)


OBJECT = "{[b :: Tensor[2, 2], a :: Tensor[1]], []}"
VECTORS = [{"label": i % 3, "input": [i, 2.5]} for i in range(12)]
CASES: dict[str, tuple[Callable[[Path], Files], str]] = {
    "trees": (
        lambda _: lines([{"label": name, "tree": tree} for name, tree in functions(20)]),
        "{input: {[Tensor[4]], [left, right]}, output: {[Tensor[2]], []}}",
    ),
    "flat trees": (
        lambda _: lines(
            [{"y": i % 2, "tree": {"nodes": [i, 2], "children": [[1, None], [-1, -1]]}} for i in range(10)]
        ),
        "{input: {[Tensor[1]], [left, right]}, output: {[Tensor[2]], []}}",
    ),
    "vectors": (lambda _: lines(VECTORS), "{input: {[Tensor[2]], []}, output: {[Tensor[3]], []}}"),
    "series and a number": (
        lambda _: lines([{"y": i / 3, "input": [[i, 2]] * (1 + i % 3)} for i in range(12)]),
        "{input: {[Tensor[2]], [next]}, output: {[Tensor[1]], []}}",
    ),
    "series and numbers": (
        lambda _: lines([{"y": [i, 2], "input": [i] * (1 + i % 3)} for i in range(12)]),
        "{input: {[Tensor[1]], [next]}, output: {[Tensor[2]], []}}",
    ),
    "series and series": (
        lambda _: {"d.jsonl": translation_lines().encode()},
        "{input: {[Tensor[2]], [next]}, output: {[Tensor[1]], [next]}}",
    ),
    "arrays of both": (
        lambda _: {"d.npz": translation_arrays()},
        "{input: {[Tensor[2]], [next]}, output: {[Tensor[1]], [next]}}",
    ),
    "objects": (
        lambda _: lines([{"label": i % 2, "input": {"b": [[1, 2], [i, 3]], "a": 3}} for i in range(12)]),
        "{input: {[b :: Tensor[2, 2], a :: Tensor[1]], []}, output: {[Tensor[2]], []}}",
    ),
    "objects alone": (
        lambda _: lines([{"input": {"b": [[1, 2], [i, 3]], "a": 3}} for i in range(12)]),
        f"{{input: {OBJECT}, output: {OBJECT}}}",
    ),
    "pairs": (pairs, "{input: {[Tensor[16, 16, 3]], []}, output: {[Tensor[8, 8, 3]], []}}"),
    "arrays of pairs": (
        lambda _: {
            "d.npz": npz(
                x=np.zeros((9, 6, 6), np.uint8) + np.arange(9)[:, None, None], y=np.ones((9, 3, 3, 1))
            )
        },
        "{input: {[Tensor[6, 6, 1]], []}, output: {[Tensor[3, 3, 1]], []}}",
    ),
    "parquet": (
        lambda _: {"d.parquet": packed(wine())},
        "{input: {[Tensor[13]], []}, output: {[Tensor[3]], []}}",
    ),
    "directory": (
        lambda _: digits(),
        "{input: {[pixels :: Tensor[64]], []}, output: {[digit :: Tensor[3]], []}}",
    ),
    "directory of trees": (
        lambda _: tree_samples(),
        "{input: {[type :: Tensor[4]], [left, right]}, output: {[module :: Tensor[2]], []}}",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_proposal_fits_the_data(case: str, tmp_path: Path) -> None:
    make, program = CASES[case]
    folder = lay(tmp_path / "task", make(tmp_path))
    proposal = propose_spec(folder)
    assert f"  {program}\n" in proposal
    facts = read_by(proposal, folder, tmp_path / "versions")
    assert facts.n >= 9
    assert facts.n_quarantined == 0


@pytest.mark.parametrize(
    ("files", "words"),
    [
        (lines([{"input": [1, 2]}, {"input": {"a": 1}}]), "neither all lists nor all mappings"),
        (
            lines([{"input": {"a": [1]}, "y": 1}, {"input": {"a": [1, 2]}, "y": 2}]),
            "'a' has the shapes (2,) and (1,)",
        ),
        (lines([{"input": {"a": "x"}, "y": 1}]), "'a' holds something other than an array of numbers"),
        (lines([{"label": 1}]), "no line has an `input` or a `tree`"),
        ({"input/a/x.ten.npy": b"", "input/b/x.ten.npy": b""}, "of one side only"),
    ],
)
def test_it_says_when_it_cannot_tell(files: Files, words: str, tmp_path: Path) -> None:
    with pytest.raises(TenantError) as refused:
        propose_spec(lay(tmp_path, files))
    assert words in str(refused.value)


def test_a_row_that_cannot_be_trained_is_not_proposed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspect_data, "models_for", lambda row: ())
    with pytest.raises(TenantError, match="for which no candidate can be trained yet"):
        propose_spec(lay(tmp_path, lines(VECTORS)))


def test_links_are_found_however_deep_they_are() -> None:
    deep: Any = {"value": 1.5}
    for _ in range(5_000):
        deep = {"value": 2, "below": deep}
    found = type_of_values([{"value": 3, "above": {"value": 1}}, deep])
    assert found == DataType((Tensor((1,)),), ("above", "below"))
