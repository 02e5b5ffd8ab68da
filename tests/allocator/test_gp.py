from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from easeml_core.allocator import gp
from easeml_core.errors import FallbackError

MAX_ARMS = 8


def case(seed, k, t):
    """A random prior over k arms, with t observations of distinct or repeated arms."""
    draw = np.random.default_rng(seed)
    factor = draw.normal(size=(k, draw.integers(1, k + 1)))  # often of low rank
    covariance = 0.02 * factor @ factor.T / k + draw.choice([0.0, 1e-3]) * np.eye(k)
    return (
        draw.uniform(0, 1, k),
        covariance,
        float(draw.choice([1e-4, 1e-3, 1e-2])),
        [int(a) for a in draw.integers(0, k, t)],
        [float(y) for y in draw.uniform(0, 1, t)],
    )


cases = st.builds(case, st.integers(0, 10**6), st.integers(1, MAX_ARMS), st.integers(0, 12))


def dense(mean, covariance, noise, arms, values):
    """The textbook formula, with a dense solve, every repeat as an observation of its own."""
    noise = max(noise, gp.NOISE_FLOOR * float(np.diagonal(covariance).max()))
    if not arms:
        return mean, np.diagonal(covariance)
    across = covariance[:, arms]
    gram = covariance[np.ix_(arms, arms)] + noise * np.eye(len(arms))
    gain = np.linalg.solve(gram, across.T).T
    return mean + gain @ (np.array(values) - mean[arms]), np.diagonal(covariance) - (gain * across).sum(
        axis=1
    )


@given(cases)
@settings(max_examples=300, deadline=None)
def test_posterior_is_that_of_a_dense_reference(problem):
    mean, variance = dense(*problem)
    for posterior in (gp.condition(*problem), gp.path(*problem)[-1]):
        np.testing.assert_allclose(posterior.mean, mean, atol=1e-8)
        np.testing.assert_allclose(posterior.variance, np.maximum(variance, 0), atol=1e-8)


@given(cases)
@settings(max_examples=100, deadline=None)
def test_every_prefix_of_a_path_is_the_posterior_of_that_prefix(problem):
    mean, covariance, noise, arms, values = problem
    steps = gp.path(*problem)
    assert len(steps) == len(arms) + 1
    for t, step in enumerate(steps):
        expected_mean, expected_variance = dense(mean, covariance, noise, arms[:t], values[:t])
        np.testing.assert_allclose(step.mean, expected_mean, atol=1e-8)
        np.testing.assert_allclose(step.variance, np.maximum(expected_variance, 0), atol=1e-8)


@given(cases, st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_order_of_observations_does_not_matter(problem, random):
    mean, covariance, noise, arms, values = problem
    order = list(range(len(arms)))
    random.shuffle(order)
    again = (mean, covariance, noise, [arms[i] for i in order], [values[i] for i in order])
    for how in (gp.condition, lambda *p: gp.path(*p)[-1]):
        first, second = how(*problem), how(*again)
        np.testing.assert_allclose(first.mean, second.mean, atol=1e-8)
        np.testing.assert_allclose(first.variance, second.variance, atol=1e-8)


@given(cases)
@settings(max_examples=100, deadline=None)
def test_an_observation_never_makes_less_certain(problem):
    steps = gp.path(*problem)
    for before, after in pairwise(steps):
        assert (after.variance <= before.variance + 1e-12).all()
        assert (after.variance >= 0).all()


EQUAL = np.full((3, 3), 0.04)


@pytest.mark.parametrize(
    ("covariance", "arms", "values"),
    [
        pytest.param(0.04 * np.eye(3), [], [], id="no observation"),
        pytest.param(0.04 * np.eye(3), [1], [0.7], id="one observation"),
        pytest.param(0.04 * np.eye(3), [0, 1, 2], [0.5] * 3, id="all equal to the mean"),
        pytest.param(EQUAL, [0] * 30 + [1, 1], [0.9] * 30 + [0.1, 0.2], id="thirty copies and a conflict"),
        pytest.param(EQUAL, [0, 1, 2], [0.1, 0.5, 0.9], id="one factor, conflicting"),
        pytest.param(np.zeros((3, 3)), [0, 0], [0.2, 0.9], id="no prior variance at all"),
        pytest.param(1e-14 * np.eye(3), [0, 2], [0.0, 1.0], id="hardly any prior variance"),
        pytest.param(1e6 * np.eye(3), [0, 2], [0.0, 1.0], id="a huge prior variance"),
    ],
)
def test_degenerate_observations(covariance, arms, values):
    for posterior in (
        gp.condition(np.full(3, 0.5), covariance, 0.0, arms, values),
        gp.path(np.full(3, 0.5), covariance, 0.0, arms, values)[-1],
    ):
        assert np.isfinite(posterior.mean).all()
        assert (posterior.variance >= 0).all()
        assert (posterior.variance <= np.diagonal(covariance) + 1e-15).all()


def test_equal_or_single_observations_keep_the_prior_variance_elsewhere():
    mean, covariance = np.full(4, 0.5), 0.04 * np.eye(4)
    same = gp.condition(mean, covariance, 1e-4, [0, 1, 2], [0.8, 0.8, 0.8])
    different = gp.condition(mean, covariance, 1e-4, [0, 1, 2], [0.1, 0.5, 0.9])
    assert same.variance[3] == pytest.approx(0.04)
    np.testing.assert_array_equal(same.variance, different.variance)
    assert same.deviation[0] >= 0.0099  # the noise, not 4e-6


def test_merging_repeats_is_the_same_as_seeing_each():
    mean, covariance = np.array([0.5, 0.6]), np.array([[0.04, 0.02], [0.02, 0.04]])
    merged = gp.condition(mean, covariance, 1e-3, [0, 1, 0, 0], [0.9, 0.4, 0.7, 0.8])
    each = gp.path(mean, covariance, 1e-3, [0, 1, 0, 0], [0.9, 0.4, 0.7, 0.8])[-1]
    np.testing.assert_allclose(merged.mean, each.mean, atol=1e-12)
    np.testing.assert_allclose(merged.variance, each.variance, atol=1e-12)
    assert len(merged.rows) == 2


def test_a_running_trial_keeps_the_mean_and_narrows_the_deviation():
    mean, covariance = np.array([0.5, 0.6]), np.array([[0.04, 0.03], [0.03, 0.04]])
    before, after = gp.path(mean, covariance, 1e-4, [0], [None])
    np.testing.assert_allclose(before.mean, after.mean, atol=1e-15)
    assert (after.variance < before.variance).all()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_what_is_not_finite_is_refused(value):
    good = (np.full(2, 0.5), 0.04 * np.eye(2), 1e-4)
    with pytest.raises(ValueError, match="finite"):
        gp.condition(*good, [0], [value])
    with pytest.raises(ValueError, match="finite"):
        gp.condition(np.array([0.5, value]), good[1], 1e-4, [], [])
    with pytest.raises(ValueError, match="finite"):
        gp.condition(good[0], np.full((2, 2), value), 1e-4, [], [])
    with pytest.raises(ValueError, match="finite"):
        gp.condition(good[0], good[1], value, [], [])


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match="do not fit"):
        gp.condition(np.zeros(3), np.eye(2), 1e-4, [], [])


def test_a_covariance_that_is_not_quite_semi_definite_is_mended_and_logged(caplog):
    # Correlation 1 + 1e-6 between two arms: the lowest eigenvalue is -1e-6 of the variance.
    covariance = np.array([[1.0, 1.0 + 1e-6], [1.0 + 1e-6, 1.0]]) * 0.04
    posterior = gp.condition(np.full(2, 0.5), covariance, 0.0, [0, 1, 0], [0.9, 0.8, 0.9])
    assert np.isfinite(posterior.mean).all()
    indefinite = np.array([[1.0, 1.00003], [1.00003, 1.0]]) * 0.04
    gp.condition(np.full(2, 0.5), indefinite, 0.0, [0, 1], [0.9, 0.8])
    assert "jitter" in caplog.text


@pytest.mark.parametrize(
    "covariance",
    [np.array([[0.04, 0.4], [0.4, 0.04]]), np.diag([0.04, -0.04])],
    ids=["correlation of 10", "negative variance"],
)
def test_a_covariance_that_is_beyond_mending_falls_back(covariance):
    with pytest.raises(FallbackError, match="semi-definite"):
        gp.condition(np.full(2, 0.5), covariance, 1e-4, [0, 1], [0.9, 0.8])
