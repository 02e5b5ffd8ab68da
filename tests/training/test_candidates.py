"""Every candidate of the catalogue trains, is packaged and answers the same in a process without our code."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from easeml_core.catalog import MODELS, Space
from easeml_core.catalog.pretrained import FILES
from easeml_core.data import open_version
from easeml_core.tracking import Tracking
from easeml_core.workorder import Outcome, TrialResult, WorkOrder, read_json
from training.examples import Examples
from training.models import TRAINABLE
from training.score import evaluate
from training.trial import run_attempt

# Whichever test comes first waits for all trials: 70 s on two free cores, several times that on busy ones.
pytestmark = pytest.mark.timeout(1200)

MakeOrder = Callable[..., Path]
# Template row, name: all that can be trained, and a network behind a normaliser.
# Pretrained ones need files, and have a test of their own.
CANDIDATES = [(row, name) for row, names in sorted(TRAINABLE.items()) for name in sorted(names - set(FILES))]
# Of series to numbers, only the end differs from series to classes: one of each kind of it will do.
SAME = {"RNN", "LSTM", "bi-LSTM", "CNN-1D"}
CANDIDATES = [(row, name) for row, name in CANDIDATES if row != "series-regression" or name not in SAME]
CANDIDATES.append(("image-classification", "SmallCNN+f0.4"))
SEARCHES: dict[str, dict[str, object]] = {
    "SVM": {"C": {".choice": [1.0, 10.0]}},
    "RandomForest": {"n_estimators": 5},
    "GradientBoosting": {"max_iter": 5},
    "KNN": {"n_neighbors": 3},
    "LogisticRegression": {"C": 1.0},
    "RidgeRegression": {"alpha": 1.0},
    "ROCKET": {"C": 0.1},
    "tree-kernel-SVM": {"C": 1.0},
}
# Loads models as anybody may who has MLflow and nothing of ours; a model that fails says so in its answer.
CLEAN_PROCESS = """
import json, sys
import mlflow, numpy as np
url, folder, models = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
mlflow.set_tracking_uri(url)
errors, metadata = {}, {}
for key, uri in models.items():
    try:
        model = mlflow.pyfunc.load_model(uri)
        inputs = np.load(f"{folder}/{key}.in.npy")
        np.save(f"{folder}/{key}.out.npy", model.predict(inputs))
        np.save(f"{folder}/{key}.one.npy", model.predict(inputs[:1]))
        metadata[key] = model.metadata.metadata
    except Exception as error:
        errors[key] = repr(error)
assert not [m for m in sys.modules if m.split(".")[0] in ("training", "easeml_core")]
print(json.dumps([errors, metadata]))
"""


@dataclass(frozen=True)
class Tried:
    """A trial that ran here, and what its model answered in a clean process."""

    path: Path
    result: TrialResult
    answers: Path  # `.out.npy` for the whole validation split, `.one.npy` for its first example
    error: str | None
    metadata: dict[str, Any]

    @property
    def order(self) -> WorkOrder:
        return WorkOrder.read(self.path)


def kinds_of(row: str) -> tuple[str, str]:
    """Of inputs and of the task, by template row."""
    kind, _, task_kind = row.partition("-")
    general = {"autoencoder": "recovery"}.get(task_kind, task_kind)
    return ("bytes", general) if kind == "general" else (kind, task_kind)


def key_of(row: str, name: str) -> str:
    return f"{row}.{name}"


@pytest.fixture(scope="module")
def tried(
    order_maker: Callable[[Path], MakeOrder], tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, Tried]:
    """One small trial of every candidate; all models are loaded in one clean process, whose start is dear."""
    root = tmp_path_factory.mktemp("all")
    make_order = order_maker(root)
    found: dict[str, tuple[Path, TrialResult]] = {}
    models: dict[str, str] = {}
    url = ""
    for row, name in CANDIDATES:
        kind, task_kind = kinds_of(row)
        search = SEARCHES.get(name, {"learning_rate": 0.01})
        path = make_order(name, kind, task_kind, search=search, note="because", max_epochs=1, n=48)
        result = run_attempt(path.parent)
        key = key_of(row, name)
        found[key] = path, result
        if result.outcome is not Outcome.SUCCEEDED:
            continue
        order = WorkOrder.read(path)
        url, models[key] = order.mlflow_url, str(result.model_uri)
        examples = Examples(open_version(Path(order.version_dir)))
        np.save(root / f"{key}.in.npy", examples.inputs(examples.version.val))
    command = [sys.executable, "-I", "-c", CLEAN_PROCESS, url, str(root), json.dumps(models)]
    done = subprocess.run(command, check=True, cwd=root, stdout=subprocess.PIPE, text=True)
    errors, metadata = json.loads(done.stdout.splitlines()[-1])
    return {
        key: Tried(path, result, root / key, errors.get(key), metadata.get(key, {}))
        for key, (path, result) in found.items()
    }


def test_every_trainable_candidate_of_the_catalogue_has_a_builder() -> None:
    for template, names in TRAINABLE.items():
        offered = {name for name, facts in MODELS.items() if template in facts.templates}
        assert offered == names, template


@pytest.mark.parametrize(("row", "name"), CANDIDATES)
def test_a_model_gives_the_trials_score_without_our_code(
    tried: Mapping[str, Tried], row: str, name: str
) -> None:
    trial = tried[key_of(row, name)]
    result, order = trial.result, trial.order
    assert result.outcome is Outcome.SUCCEEDED, result.reason
    assert TrialResult.read(trial.path.parent / "result.json") == result
    assert result.quality is not None
    assert 0 <= result.quality <= 1
    assert trial.error is None
    examples = Examples(open_version(Path(order.version_dir)))
    validation = examples.version.val
    answers = np.load(f"{trial.answers}.out.npy")
    assert len(answers) == len(validation)
    np.testing.assert_allclose(np.load(f"{trial.answers}.one.npy"), answers[:1], rtol=1e-3, atol=1e-5)
    if examples.is_classification:
        assert answers.shape == (len(validation), examples.facts.outputs)
        np.testing.assert_allclose(answers.sum(1), 1.0, atol=1e-4)
    scored = evaluate(order.objective, examples.facts, examples.targets(validation), answers)
    assert scored.score == pytest.approx(result.score, rel=1e-4)


@pytest.mark.parametrize(("row", "name"), CANDIDATES)
def test_a_trial_is_found_in_mlflow(tried: Mapping[str, Tried], row: str, name: str) -> None:
    trial = tried[key_of(row, name)]
    result = trial.result
    tracking = Tracking(trial.order.mlflow_url)
    assert tracking.verify_files(str(result.model_uri), result.model_files) == []
    run = tracking.client.get_run(str(result.mlflow_run_id))
    assert run.info.status == "FINISHED"
    assert run.data.metrics["quality"] == pytest.approx(result.quality)
    assert run.data.tags["mlflow.note.content"] == "because"
    assert read_json(trial.path.parent / "run.json")["mlflow_run_id"] == result.mlflow_run_id
    children = tracking.client.search_runs(
        [run.info.experiment_id], f"tags.`mlflow.parentRunId` = '{run.info.run_id}'"
    )
    assert {child.info.status for child in children} == {"FINISHED"}
    assert len(children) == Space.parse(trial.order.search).size


@pytest.mark.parametrize(("row", "name"), CANDIDATES)
def test_a_model_says_what_it_is(tried: Mapping[str, Tried], row: str, name: str) -> None:
    """As anybody sees it through MLflow: classes in the order of the outputs, and which data it learnt."""
    trial = tried[key_of(row, name)]
    metadata = trial.metadata
    facts = open_version(Path(trial.order.version_dir)).facts
    assert metadata["classes"] == (["ant", "bee", "cat"] if facts.task_kind == "classification" else None)
    assert metadata["data_version"] == facts.digest
    assert metadata["shape"] == list(facts.shape)


@pytest.mark.parametrize(
    ("kind", "name"), [("image", "SmallCNN"), ("series", "GRU"), ("vector", "RandomForest")]
)
def test_the_same_order_gives_the_same_quality(make_order: MakeOrder, kind: str, name: str) -> None:
    search = SEARCHES.get(name, {"learning_rate": 0.003})
    first, second = (run_attempt(make_order(name, kind, search=search).parent) for _ in range(2))
    assert first.outcome is Outcome.SUCCEEDED, first.reason
    assert first.score == second.score
    assert first.train_score == second.train_score
