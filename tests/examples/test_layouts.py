"""Every example script writes a folder that the service accepts, and the same one each time."""

from __future__ import annotations

import hashlib
import itertools
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from easeml_core import catalog
from easeml_core.bucket import Bucket
from easeml_core.cli.main import app
from easeml_core.data import Limits, build_version, read_inputs
from easeml_core.language import TEMPLATES
from easeml_core.spec import load_spec
from examples import loop
from examples.catalogue import DEMONSTRATED, EXAMPLES
from examples.layout import Example, Layout

pytest.importorskip("mlxtend", reason="the examples extra is not installed")
pytest.importorskip("pyts", reason="the examples extra is not installed")

every = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: str(example.name))


def digest(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Layout]:
    out = tmp_path_factory.mktemp("examples")
    return {str(example.name): example.lay_out(out) for example in EXAMPLES}


def test_every_row_of_the_template_table_has_one(laid_out: dict[str, Layout]) -> None:
    specs = [load_spec((layout.folder / "task.yaml").read_bytes()) for layout in laid_out.values()]
    assert {spec.template for spec in specs} == {row.id for row in TEMPLATES}
    assert len({example.name.tenant for example in DEMONSTRATED}) >= 3
    assert set(DEMONSTRATED) < set(EXAMPLES)


@every
def test_validates(example: Example, laid_out: dict[str, Layout]) -> None:
    result = CliRunner().invoke(app, ["validate", str(laid_out[str(example.name)].folder), "--json"])
    answer = json.loads(result.stdout)
    assert answer["problems"] == []
    assert result.exit_code == 0
    assert answer["data"]["n_quarantined"] == 0
    assert answer["data"]["warnings"] == []


@every
def test_same_bytes_each_time(example: Example, laid_out: dict[str, Layout], tmp_path: Path) -> None:
    again, before = example.lay_out(tmp_path), laid_out[str(example.name)]
    assert digest(again.folder) == digest(before.folder)
    assert digest(again.inputs.parent) == digest(before.inputs.parent)


@every
def test_held_back_examples_can_be_read_and_none_is_in_the_training_data(
    example: Example, laid_out: dict[str, Layout], tmp_path: Path
) -> None:
    layout = laid_out[str(example.name)]
    spec = load_spec((layout.folder / "task.yaml").read_bytes())
    facts = build_version(
        layout.folder,
        spec,
        parent=None,
        limits=Limits(),
        versions_dir=tmp_path / "versions",
        name=example.name,
    )
    inputs = read_inputs(layout.inputs, facts=facts, limits=Limits(), staging=tmp_path / "staging")
    assert inputs.problems == ()
    assert sorted(inputs.ids) == sorted(layout.read_ids())
    folder = next((tmp_path / "versions").rglob("version.json")).parent
    assert not contents(folder, facts.kind) & contents(inputs.folder, facts.kind)


def contents(folder: Path, kind: str) -> set[bytes]:
    """Content of each example, as bytes."""
    import numpy as np

    if kind in ("image", "vector"):
        return {row.tobytes() for row in np.load(folder / "inputs.npy")}
    values, offsets = np.load(folder / "values.npy"), np.load(folder / "offsets.npy")
    return {values[start:end].tobytes() for start, end in itertools.pairwise(offsets)}


def test_lay_out_once_does_it_once(tmp_path: Path) -> None:
    example = EXAMPLES[0]
    layout = example.lay_out_once(tmp_path)
    before = (layout.folder / "task.yaml").stat().st_mtime_ns
    assert example.lay_out_once(tmp_path) == layout
    assert (layout.folder / "task.yaml").stat().st_mtime_ns == before
    (layout.inputs.parent / ".made-by").write_text("other code")
    example.lay_out_once(tmp_path)
    assert (layout.folder / "task.yaml").stat().st_mtime_ns > before


@every
def test_without_its_limits_a_task_is_the_same_with_every_candidate(
    example: Example, laid_out: dict[str, Layout], tmp_path: Path
) -> None:
    layout = laid_out[str(example.name)]
    folder = layout.without_limits(tmp_path)
    before, after = digest(layout.folder), digest(folder)
    assert before.pop("task.yaml") != after.pop("task.yaml")
    assert after == before
    old, new = (load_spec((at / "task.yaml").read_bytes()) for at in (layout.folder, folder))
    changed = {change.field for change in new.changes(old)}
    assert changed <= {"budget_trials", "budget_seconds", "stop_when", "include", "exclude"}
    assert (new.budget_trials, new.budget_seconds, new.stop_when) == (None, None, None)
    models = [model.name for model in catalog.models_for(new.template)]
    assert list(catalog.candidates_for(new)) == models


def test_limits_are_lifted_in_the_bucket_only_when_asked_for(tmp_path: Path) -> None:
    bucket, example = Bucket(str(tmp_path / "bucket")), EXAMPLES[0]
    key = f"{example.name.prefix}/task.yaml"
    for every, budget, news in ((False, 4, True), (True, None, True), (True, None, False), (False, 4, True)):
        shown = loop.submit(bucket, example, tmp_path / "out", lambda _: None, every=every)
        assert shown.news is news
        assert shown.layout == Layout.under(tmp_path / "out", example.name)
        assert load_spec(b"".join(bucket.chunks(key))).budget_trials == budget
