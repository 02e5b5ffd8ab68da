from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from easeml_core.allocator import priors
from easeml_core.allocator.priors import TaskHistory, build

ARMS = ("a", "b", "c", "d")
FEATURES = {"a": (0.0, 0.0), "b": (0.1, 0.0), "c": (1.0, 1.0)}


def ragged(seed, tasks, arms=ARMS, known=0.6):
    draw = np.random.default_rng(seed)
    base = draw.uniform(0.2, 0.9, tasks)
    return [
        TaskHistory(
            f"past-{i}",
            {a: float(np.clip(base[i] + 0.1 * draw.normal(), 0, 1)) for a in arms if draw.random() < known},
        )
        for i in range(tasks)
    ]


def test_without_history_it_is_the_catalogues():
    prior = build("vector-classification", ARMS, (), FEATURES, {"a": 0.9})
    assert prior.source == "the catalogue"
    assert prior.mean == pytest.approx([0.9, priors.MEAN, priors.MEAN, priors.MEAN])
    correlation = prior.covariance / np.outer(*[np.sqrt(np.diagonal(prior.covariance))] * 2)
    assert correlation[0, 1] > correlation[0, 2] > correlation[0, 3]  # near, far, without features
    assert correlation[0, 3] > 0.5  # how hard the task is moves all arms
    variance = priors.TASK_DEVIATION**2 + priors.MODEL_DEVIATION**2 + priors.OWN_DEVIATION**2
    assert np.diagonal(prior.covariance) == pytest.approx([variance] * 4)


@given(st.integers(0, 10**6), st.integers(0, 8), st.integers(1, 7), st.floats(0.1, 1))
@settings(max_examples=150, deadline=None)
def test_any_history_gives_a_proper_prior(seed, tasks, arms, known):
    names = tuple(f"m{index}" for index in range(arms))
    draw = np.random.default_rng(seed)
    features = {name: tuple(draw.random(3)) for name in names[: draw.integers(0, arms + 1)]}
    history = ragged(seed, tasks, (*names, "gone"), known)
    prior = build("x", names, history, features)
    assert prior.arms == names
    assert np.isfinite(prior.mean).all()
    assert ((prior.mean >= -1e-9) & (prior.mean <= 1 + 1e-9)).all() or known < 1
    np.testing.assert_array_equal(prior.covariance, prior.covariance.T)
    assert np.linalg.eigvalsh(prior.covariance).min() > 0
    # Order of history does not matter.
    again = build("x", names, history[::-1], features)
    np.testing.assert_array_equal(prior.mean, again.mean)
    np.testing.assert_array_equal(prior.covariance, again.covariance)


@given(st.integers(0, 10**6), st.integers(0, 6))
@settings(max_examples=50, deadline=None)
def test_permuting_the_arms_permutes_the_prior(seed, tasks):
    history = ragged(seed, tasks)
    order = np.random.default_rng(seed).permutation(4)
    prior, permuted = (build("x", names, history, FEATURES) for names in (ARMS, [ARMS[i] for i in order]))
    np.testing.assert_allclose(prior.mean[order], permuted.mean, atol=1e-10)
    np.testing.assert_allclose(prior.covariance[np.ix_(order, order)], permuted.covariance, atol=1e-10)


def test_a_complete_history_gives_the_closed_form():
    history = ragged(1, 6, known=1.1)
    table = np.array([[past.qualities[arm] for arm in ARMS] for past in history])
    start = build("x", ARMS, (), FEATURES)
    prior = build("x", ARMS, history, FEATURES)
    mean = (priors.KAPPA * start.mean + table.sum(axis=0)) / (priors.KAPPA + 6)
    apart, drift = table - mean, mean - start.mean
    scatter = priors.NU * start.covariance + priors.KAPPA * np.outer(drift, drift) + apart.T @ apart
    np.testing.assert_allclose(prior.mean, mean, atol=1e-12)
    np.testing.assert_allclose(prior.covariance, scatter / (priors.NU + 6), atol=1e-12)


def test_history_takes_over_smoothly():
    truth = np.array([0.9, 0.5, 0.7, 0.3])
    draw = np.random.default_rng(0)
    history = [
        TaskHistory(
            f"past-{i}", dict(zip(ARMS, (truth + 0.05 * draw.normal(size=4)).clip(0, 1), strict=True))
        )
        for i in range(400)
    ]
    builds = [build("x", ARMS, history[:n], FEATURES) for n in (0, 1, 2, 5, 20, 400)]
    off = [float(np.abs(prior.mean - truth).max()) for prior in builds]
    assert off == sorted(off, reverse=True)
    assert off[-1] < 0.02
    deviations = np.sqrt(np.diagonal(builds[-1].covariance))
    assert (deviations < 0.08).all()
    steps = [np.abs(b.mean - a.mean).max() for a, b in pairwise(builds)]
    assert max(steps) < 0.25  # no jump from one past task to the next
    assert builds[2].source == "the catalogue and 2 past tasks"


def test_an_arm_that_no_task_tried_follows_what_the_others_showed():
    easy = [TaskHistory(f"past-{i}", {"a": 0.95, "b": 0.93, "c": 0.94}) for i in range(5)]
    prior = build("x", ARMS, easy, FEATURES)
    assert prior.mean[3] > priors.MEAN
    assert prior.covariance[3, 3] > prior.covariance[0, 0]


@pytest.mark.parametrize(
    "history",
    [
        [TaskHistory("empty", {})],
        [TaskHistory("other arms", {"z": 0.4})],
        [TaskHistory("empty", {}), TaskHistory("other arms", {"z": 0.4})],
    ],
)
def test_a_history_that_says_nothing_changes_nothing(history):
    prior, start = build("x", ARMS, history, FEATURES), build("x", ARMS, (), FEATURES)
    np.testing.assert_array_equal(prior.mean, start.mean)
    np.testing.assert_array_equal(prior.covariance, start.covariance)


@pytest.mark.parametrize(
    "history",
    [
        [TaskHistory("one", {"a": 0.5})],
        [TaskHistory(f"{i}", dict.fromkeys(ARMS, 0.5)) for i in range(50)],
        [TaskHistory(f"{i}", dict.fromkeys(ARMS, float(i % 2))) for i in range(50)],
        [TaskHistory("same", {"a": 0.0}), TaskHistory("same", {"a": 1.0})],
    ],
    ids=["one cell", "all equal", "only 0 and 1", "conflicting"],
)
def test_degenerate_histories(history):
    prior = build("x", ARMS, history, FEATURES)
    assert np.linalg.eigvalsh(prior.covariance).min() > 1e-6
    assert (np.sqrt(np.diagonal(prior.covariance)) > 0.01).all()  # never over-confident


@pytest.mark.parametrize("quality", [float("nan"), float("inf"), -0.1, 1.1])
def test_history_refuses_what_is_no_quality(quality):
    with pytest.raises(ValueError, match="past: quality of a"):
        TaskHistory("past", {"a": quality})


@pytest.mark.parametrize("features", [{"a": (0.0,), "b": (0.0, 1.0)}, {"a": (float("nan"),)}])
def test_features_must_be_vectors_of_one_length(features):
    with pytest.raises(ValueError, match="feature"):
        build("x", ARMS, (), features)
