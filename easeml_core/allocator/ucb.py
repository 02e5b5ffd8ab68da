"""Upper confidence bounds of GP-UCB, cost-aware and cost-oblivious (ease.ml, section 1.6 and 1.8).

Cost-aware, for tenant i with t_i plays, n tenants, K* the most arms of any, c* the highest cost of any:

    beta_t^i = 2 c* log(pi^2 n K* t^2 / (6 delta)),      B_t^i(k) = mu(k) + sqrt(beta_t^i / c_k) sigma(k)

c* makes beta_t^i / c_k at least 2 log(pi^2 n K* t^2 / (6 delta)) for every arm, so that all intervals
hold together with probability 1 - delta, and makes B independent of the unit of cost.

Cost-oblivious: ``beta_t = log(K t^2 / delta)`` and ``B_t(k) = mu(k) + sqrt(beta_t) sigma(k)``.
"""

from __future__ import annotations

import math

import numpy as np

from easeml_core.allocator.types import Array

# Chance that some interval fails, as in the authors' prototype.
DELTA = 0.5


def beta_cost_aware(
    plays: int, *, tasks: int, most_arms: int, highest_cost: float, delta: float = DELTA
) -> float:
    """beta_t^i, in seconds, for play number `plays` (from 1) of a task; never negative."""
    _check(plays, delta)
    return max(0.0, 2 * highest_cost * math.log(math.pi**2 * tasks * most_arms * plays**2 / (6 * delta)))


def beta_cost_oblivious(plays: int, *, arms: int, delta: float = DELTA) -> float:
    """beta_t for play number `plays` (from 1) among `arms` arms; never negative."""
    _check(plays, delta)
    return max(0.0, math.log(arms * plays**2 / delta))


def upper_bounds(mean: Array, deviation: Array, beta: float, costs: Array | float = 1.0) -> Array:
    """B(k) for all arms, shape `(K,)`; `costs` are in the unit of `beta`, and may be infinite."""
    bounds: Array = mean + np.sqrt(beta / costs) * deviation
    return bounds


def _check(plays: int, delta: float) -> None:
    if plays < 1:
        raise ValueError(f"plays count from 1; got {plays}")
    if not 0 < delta < 1:
        raise ValueError(f"delta must be in (0, 1); got {delta}")
