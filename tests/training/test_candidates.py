"""Every kind of candidate trains, is packaged and answers the same in a process without our code."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from easeml_core.catalog import MODELS
from easeml_core.data import open_version
from easeml_core.tracking import Tracking
from easeml_core.workorder import Outcome, TrialResult, WorkOrder, read_json
from training.examples import Examples
from training.models import TRAINABLE
from training.score import evaluate
from training.trial import run_attempt

MakeOrder = Callable[..., Path]


def test_every_trainable_candidate_of_the_catalogue_has_a_builder() -> None:
    for template, names in TRAINABLE.items():
        offered = {name for name, facts in MODELS.items() if template in facts.templates}
        assert offered == names, template


@pytest.mark.parametrize(
    ("candidate", "kind", "task_kind", "search"),
    [
        ("SmallCNN+f0.4", "image", "classification", {"learning_rate": [0.01]}),
        ("bi-LSTM", "series", "classification", {"learning_rate": [0.01]}),
        ("MLP", "vector", "regression", {"learning_rate": [0.01]}),
        ("SVM", "vector", "classification", {"C": [1.0, 10.0]}),
        ("RandomForest", "vector", "regression", {"n_estimators": [5]}),
    ],
)
def test_a_trial_leaves_a_model_that_gives_its_score(
    make_order: MakeOrder,
    tmp_path: Path,
    candidate: str,
    kind: str,
    task_kind: str,
    search: dict[str, list[object]],
) -> None:
    path = make_order(candidate, kind, task_kind, search=search, note="because")
    order = WorkOrder.read(path)
    result = run_attempt(path.parent)
    assert result.outcome is Outcome.SUCCEEDED, result.reason
    assert TrialResult.read(path.parent / "result.json") == result
    assert result.quality is not None
    assert 0 <= result.quality <= 1

    examples = Examples(open_version(order.version_dir))
    inputs = examples.inputs(examples.version.val)
    np.save(tmp_path / "inputs.npy", inputs)
    script = (
        "import sys, numpy as np, mlflow\n"
        "mlflow.set_tracking_uri(sys.argv[1])\n"
        "model = mlflow.pyfunc.load_model(sys.argv[2])\n"
        "np.save(sys.argv[4], model.predict(np.load(sys.argv[3])))\n"
        "assert not [m for m in sys.modules if m.split('.')[0] in ('training', 'easeml_core')]\n"
    )
    arguments = [order.mlflow_url, str(result.model_uri), tmp_path / "inputs.npy", tmp_path / "out.npy"]
    subprocess.run([sys.executable, "-I", "-c", script, *map(str, arguments)], check=True, cwd=tmp_path)
    answers = np.load(tmp_path / "out.npy")
    assert answers.shape == (len(inputs), examples.facts.outputs)
    scored = evaluate(order.objective, examples.facts, examples.targets(examples.version.val), answers)
    assert scored.score == pytest.approx(result.score, rel=1e-4)

    tracking = Tracking(order.mlflow_url)
    assert tracking.verify_files(str(result.model_uri), result.model_files) == []
    run = tracking.client.get_run(str(result.mlflow_run_id))
    assert run.info.status == "FINISHED"
    assert run.data.metrics["quality"] == pytest.approx(result.quality)
    assert run.data.tags["mlflow.note.content"] == "because"
    assert read_json(path.parent / "run.json") == {"mlflow_run_id": result.mlflow_run_id}
    children = tracking.client.search_runs(
        [run.info.experiment_id], f"tags.`mlflow.parentRunId` = '{run.info.run_id}'"
    )
    assert {child.info.status for child in children} == {"FINISHED"}
    assert len(children) == len(next(iter(search.values())))


def test_the_same_order_gives_the_same_quality(make_order: MakeOrder) -> None:
    first, second = (
        run_attempt(make_order("SmallCNN", "image", search={"learning_rate": [0.003]}).parent)
        for _ in range(2)
    )
    assert first.score == second.score
    assert first.train_score == second.train_score


def test_a_model_knows_its_classes(make_order: MakeOrder) -> None:
    import mlflow

    path = make_order("KNN", "vector")
    result = run_attempt(path.parent)
    mlflow.set_tracking_uri(WorkOrder.read(path).mlflow_url)
    model = mlflow.pyfunc.load_model(result.model_uri)
    assert model.metadata.metadata["classes"] == ["ant", "bee", "cat"]
    assert json.dumps(model.metadata.metadata)
