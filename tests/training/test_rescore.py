"""A packaged model on data that came after it: other examples, other classes, other shapes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from easeml_core.data import VersionFacts, open_version
from easeml_core.service.rescore import Question
from easeml_core.tracking import Tracking
from easeml_core.workorder import Outcome
from training.rescore import by_name, score_champion
from training.trial import run_attempt

SaveVersion = Callable[..., Path]


@pytest.fixture(params=["MLP", "LogisticRegression"])
def model(request: pytest.FixtureRequest, make_order: Callable[..., Path], mlflow_url: str) -> str:
    """The name of a registered model that tells ants, bees and cats by their first number: 0, 4 and 8."""
    learning = {"learning_rate": 0.03} if request.param == "MLP" else {}
    result = run_attempt(make_order(request.param, "vector", search=learning, max_epochs=8).parent)
    assert result.outcome is Outcome.SUCCEEDED, result
    name = f"clinic.rescored-{request.param.lower()}"
    Tracking(mlflow_url).register(name, str(result.model_uri), str(result.mlflow_run_id), {})
    return name


def animals(versions: Callable[..., Path]) -> tuple[np.ndarray, np.ndarray, VersionFacts]:
    version = open_version(versions("vector"))
    return np.array(version.inputs), np.array(version.targets), version.facts


def save(save_version: SaveVersion, folder: Path, facts: VersionFacts, **changed: Any) -> Path:
    """A data version of which all but one example are to validate on."""
    inputs, targets = changed.pop("inputs"), changed.pop("targets")
    known = facts.model_dump(
        exclude={"n", "n_train", "n_val", "validation_fraction", "validation_seed", "digest"}
    )
    split = {"train": np.arange(1), "val": np.arange(1, len(inputs))}
    return save_version(folder, known | changed, inputs=inputs, targets=targets, **split)


def test_classes_are_told_by_name(
    model: str, mlflow_url: str, versions: Callable[..., Path], save_version: SaveVersion, tmp_path: Path
) -> None:
    inputs, targets, facts = animals(versions)
    # A new class came, and one is gone: ants are 2 now, bees dogs, whom the model cannot know, cats stay 0.
    names = ("cat", "dog", "ant")
    folder = save(
        save_version,
        tmp_path / "new",
        facts,
        inputs=inputs,
        targets=np.array([2, 1, 0])[targets],
        classes=names,
    )
    verdict = score_champion(Question(mlflow_url, model, "1", "accuracy", folder))
    known = targets[1:] != 1
    assert verdict.reason == ""
    assert verdict.score == pytest.approx(known.mean(), abs=0.05), "it knows ants and cats, and no dog"
    loss = score_champion(Question(mlflow_url, model, "1", "log_loss", folder))
    assert loss.score is not None
    assert loss.score > (1 - known.mean()) * 30, "it gave dogs no probability at all"


def test_what_a_model_refuses_is_a_verdict_in_words(
    model: str, mlflow_url: str, versions: Callable[..., Path], save_version: SaveVersion, tmp_path: Path
) -> None:
    inputs, targets, facts = animals(versions)
    folder = save(
        save_version, tmp_path / "wide", facts, inputs=np.tile(inputs, 2), targets=targets, shape=(10,)
    )
    verdict = score_champion(Question(mlflow_url, model, "1", "accuracy", folder))
    assert (verdict.score, verdict.quality) == (None, None)
    assert verdict.reason.startswith("the model refuses the inputs: ")
    gone = score_champion(Question(mlflow_url, model, "99", "accuracy", folder))
    assert gone.reason.startswith("its model cannot be loaded: ")
    # Of one class only, no order can be right or wrong.
    ants = targets == 0
    folder = save(save_version, tmp_path / "ants", facts, inputs=inputs[ants], targets=targets[ants])
    assert score_champion(Question(mlflow_url, model, "1", "roc_auc", folder)).reason == "roc_auc is nan"


@pytest.mark.parametrize(
    ("known", "wanted", "expected"),
    [
        (("a", "b", "c"), ("a", "b", "c"), [0.1, 0.2, 0.3, 0.4]),  # and an output that stands for no class
        (("a", "b", "c"), ("c", "a"), [0.3, 0.1, 0.2, 0.4]),
        (("a", "b", "c"), ("b", "d", "a", "c"), [0.2, 0.0, 0.1, 0.3, 0.4]),
        (("a", "b", "c", "d"), ("x", "y"), [0.0, 0.0, 0.1, 0.2, 0.3, 0.4]),
    ],
)
def test_columns_by_name(known: tuple[str, ...], wanted: tuple[str, ...], expected: list[float]) -> None:
    answers = np.array([[0.1, 0.2, 0.3, 0.4]] * 2)
    np.testing.assert_array_equal(by_name(answers, known, wanted), [expected] * 2)
