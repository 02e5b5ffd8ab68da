"""Objectives: against scikit-learn where it has them, and the rules for degenerate input."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics

from easeml_core import objectives
from easeml_core.language import TEMPLATES
from easeml_core.objectives import OBJECTIVES

CLASSIFICATION = [name for name, o in OBJECTIVES.items() if "classification" in o.kinds]
NUMBERS = [name for name in OBJECTIVES if name not in CLASSIFICATION]


def _classified(seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    return generator.integers(0, 4, 60), generator.dirichlet(np.ones(4), 60)


def test_classification_scores_agree_with_sklearn() -> None:
    targets, probabilities = _classified()
    labels = probabilities.argmax(axis=1)
    expected = {
        "accuracy": metrics.accuracy_score(targets, labels),
        "balanced_accuracy": metrics.balanced_accuracy_score(targets, labels),
        "f1_macro": metrics.f1_score(targets, labels, average="macro"),
        "roc_auc": metrics.roc_auc_score(targets, probabilities, multi_class="ovr"),
        "log_loss": metrics.log_loss(targets, probabilities),
    }
    assert set(expected) == set(CLASSIFICATION)
    for name, value in expected.items():
        assert objectives.score(name, targets, probabilities, 4) == pytest.approx(value), name


@pytest.mark.parametrize("shape", [(40, 1), (40, 3)])
def test_regression_scores_agree_with_sklearn(shape: tuple[int, int]) -> None:
    generator = np.random.default_rng(2)
    targets = generator.normal(size=shape)
    predictions = targets + generator.normal(size=shape)
    for name, function in (
        ("mse", metrics.mean_squared_error),
        ("mae", metrics.mean_absolute_error),
        ("r2", metrics.r2_score),
    ):
        assert objectives.score(name, targets, predictions, shape[1]) == pytest.approx(
            function(targets, predictions)
        )
    flat = objectives.score("mse", targets.ravel(), predictions.ravel(), 1)
    assert flat == pytest.approx(objectives.score("mse", targets, predictions, shape[1]))


def test_psnr_is_ten_per_decade_and_a_perfect_recovery_is_finite() -> None:
    picture = np.full((2, 4, 4, 1), 0.5)
    assert objectives.score("psnr", picture, picture + 0.1, 0) == pytest.approx(20)
    assert objectives.score("psnr", picture, picture, 0) == objectives.BEST_PSNR


@pytest.mark.parametrize("name", CLASSIFICATION)
def test_perfect_and_undefined_classification(name: str) -> None:
    targets = np.array([0, 1, 2, 1])
    perfect = np.eye(4)[targets]
    assert objectives.quality(name, objectives.score(name, targets, perfect, 4)) == pytest.approx(1)
    assert math.isnan(objectives.score(name, np.array([], dtype=int), np.zeros((0, 4)), 4))
    assert math.isnan(objectives.score(name, targets, np.full((4, 4), np.nan), 4))
    with pytest.raises(ValueError, match="shape"):
        objectives.score(name, targets, perfect, 3)


def test_one_class_has_no_roc_auc_but_an_absent_class_does_no_harm() -> None:
    targets, probabilities = _classified()
    assert math.isnan(objectives.score("roc_auc", np.zeros(60, dtype=int), probabilities, 4))
    some = targets < 3
    assert 0 < objectives.score("roc_auc", targets[some], probabilities[some], 4) < 1


def test_log_loss_of_a_sure_mistake_is_finite() -> None:
    assert math.isfinite(objectives.score("log_loss", np.array([0]), np.array([[0.0, 1.0]]), 2))


@pytest.mark.parametrize("name", NUMBERS)
def test_undefined_numbers(name: str) -> None:
    ones = np.ones((3, 1))
    assert math.isnan(objectives.score(name, ones, ones * np.inf, 1))
    assert math.isnan(objectives.score(name, ones[:0], ones[:0], 1))
    with pytest.raises(ValueError, match="shape"):
        objectives.score(name, ones, np.ones((3, 2)), 1)
    if name == "r2":
        assert math.isnan(objectives.score(name, ones[:1], ones[:1], 1))


@given(
    st.sampled_from(sorted(OBJECTIVES)),
    st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=2).map(sorted),
    st.floats(-1, 1e6),
)
def test_quality_is_in_0_1_and_monotone(name: str, pair: list[float], reference: float) -> None:
    low, high = (objectives.quality(name, score, reference) for score in pair)
    assert 0 <= low <= 1
    assert 0 <= high <= 1
    assert (low <= high) if OBJECTIVES[name].higher_is_better else (low >= high)


def test_quality_of_known_scores() -> None:
    assert objectives.quality("accuracy", 0.93) == 0.93
    assert objectives.quality("log_loss", 0) == 1
    assert objectives.quality("log_loss", math.log(10)) == pytest.approx(0.1)
    assert objectives.quality("mse", 6.0, reference=6.0) == 0.5
    assert objectives.quality("r2", 0.0) == 0.5
    assert objectives.quality("r2", 1.0) == 1
    assert objectives.quality("r2", -math.inf) == 0
    assert objectives.quality("psnr", 30.0) == 0.5
    assert objectives.quality("mae", math.inf, reference=2.0) == 0
    assert math.isnan(objectives.quality("mse", math.nan))


def test_rows_of_the_template_table_name_objectives_of_their_kind() -> None:
    for row in TEMPLATES:
        kinds = [OBJECTIVES[name].kinds for name in row.objectives]
        assert frozenset.intersection(*kinds), row.id
