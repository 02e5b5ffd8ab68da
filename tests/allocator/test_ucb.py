from __future__ import annotations

import math

import numpy as np
import pytest

from easeml_core.allocator import ucb


def test_cost_aware_beta_is_the_papers():
    beta = ucb.beta_cost_aware(3, tasks=10, most_arms=8, highest_cost=50.0, delta=0.1)
    assert beta == pytest.approx(2 * 50 * math.log(math.pi**2 * 10 * 8 * 9 / 0.6))


def test_cost_oblivious_beta_is_the_papers():
    assert ucb.beta_cost_oblivious(4, arms=100, delta=0.5) == pytest.approx(math.log(100 * 16 / 0.5))


def test_bounds_divide_by_cost():
    mean, deviation, costs = np.array([0.5, 0.6]), np.array([0.1, 0.2]), np.array([1.0, math.inf])
    np.testing.assert_allclose(ucb.upper_bounds(mean, deviation, 4.0, costs), [0.7, 0.6])
    np.testing.assert_allclose(ucb.upper_bounds(mean, deviation, 4.0), [0.7, 1.0])


def test_beta_never_falls_below_zero():
    assert ucb.beta_cost_oblivious(1, arms=1, delta=0.99) >= 0
    assert ucb.beta_cost_aware(1, tasks=1, most_arms=1, highest_cost=1.0, delta=0.99) >= 0


@pytest.mark.parametrize(("plays", "delta"), [(0, 0.5), (1, 0.0), (1, 1.0), (1, math.nan)])
def test_refuses_what_makes_no_sense(plays, delta):
    with pytest.raises(ValueError, match="got"):
        ucb.beta_cost_oblivious(plays, arms=3, delta=delta)
    with pytest.raises(ValueError, match="got"):
        ucb.beta_cost_aware(plays, tasks=1, most_arms=3, highest_cost=1.0, delta=delta)


def test_bounds_hold_together_as_often_as_promised():
    """Drawn from the prior, all bounds of a whole run hold together in at least 1 - delta of the draws."""
    from easeml_core.allocator import gp

    draw = np.random.default_rng(0)
    k, delta, broken, repeats = 6, 0.3, 0, 200
    covariance = 0.01 * (0.5 * np.eye(k) + 0.5)
    costs = draw.uniform(1, 20, k)
    for _ in range(repeats):
        truth = draw.multivariate_normal(np.full(k, 0.5), covariance)
        arms = [int(a) for a in draw.permutation(k)]
        values = [float(truth[a] + 0.01 * draw.normal()) for a in arms]
        for play, before in enumerate(gp.path(np.full(k, 0.5), covariance, 1e-4, arms, values), start=1):
            beta = ucb.beta_cost_aware(play, tasks=1, most_arms=k, highest_cost=costs.max(), delta=delta)
            if (ucb.upper_bounds(before.mean, before.deviation, beta, costs) < truth).any():
                broken += 1
                break
    assert broken / repeats <= delta
