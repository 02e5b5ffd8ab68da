"""A program with more outputs than the data has classes yet: feeds may bring them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import mlflow.pyfunc
import numpy as np
import pytest

from easeml_core.catalog import MODELS
from easeml_core.data import open_version
from easeml_core.workorder import Outcome
from training.examples import Examples
from training.score import evaluate
from training.trial import run_attempt

FITTED = [
    *(("vector", name) for name in ("LogisticRegression", "RandomForest", "GradientBoosting", "SVM", "KNN")),
    ("series", "ROCKET"),
    ("tree", "tree-kernel-SVM"),
]


@pytest.mark.parametrize(("kind", "name"), FITTED)
def test_a_candidate_that_is_fitted_in_one_go_leaves_room_for_a_class(
    kind: str,
    name: str,
    make_order: Callable[..., Path],
    versions: Callable[..., Path],
    mlflow_url: str,
    tmp_path: Path,
) -> None:
    folder = tmp_path / "version"
    shutil.copytree(versions(kind), folder)
    facts = json.loads((folder / "version.json").read_text())
    (folder / "version.json").write_text(json.dumps(facts | {"outputs": 5}))
    result = run_attempt(
        make_order(name, kind, version_dir=folder, search=MODELS[name].search.document()).parent
    )
    assert result.outcome is Outcome.SUCCEEDED, result.reason

    mlflow.set_tracking_uri(mlflow_url)
    model = mlflow.pyfunc.load_model(str(result.model_uri))
    examples = Examples(open_version(folder))
    validation = examples.version.val
    answers = np.asarray(model.predict(examples.inputs(validation)))
    classes = model.metadata.metadata["classes"]
    assert len(classes) == 3
    np.testing.assert_allclose(answers[:, :3].sum(axis=1), 1.0, atol=1e-4)
    padded = np.pad(answers, ((0, 0), (0, 5 - answers.shape[1])))
    scored = evaluate("accuracy", examples.facts, examples.targets(validation), padded)
    assert scored.score == pytest.approx(result.score)
    assert scored.score > 0.5
