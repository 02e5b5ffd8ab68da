"""How far can any policy come on the paper's synthetic tables? One that knows what makes them.

It believes exactly what `replay.protocol.synthetic` does: a task is of one of two groups, its qualities are
jointly normal with the group's mean and the generator's own covariance, and cut to [0, 1]. It chooses as
ours does, by expected improvement per cost over all tasks. What separates a policy from it is what cannot
be known of the generator from a history.
"""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

from easeml_core.allocator.types import Array
from easeml_core.replay import Table
from easeml_core.replay.protocol import (
    BASELINE_DEVIATION,
    BASELINES,
    NOISE_DEVIATION,
    hidden_models,
    split,
)

_SOLVED, _LEAST = 1e-12, 1e-9


class _Task:
    """One task: the posterior over its K arms within each of the groups, which share a covariance."""

    def __init__(self, covariance: Array) -> None:
        self.mean = np.repeat(np.array(BASELINES)[:, None], len(covariance), axis=1)  # (groups, K)
        self.covariance = covariance.copy()
        self.evidence = np.zeros(len(BASELINES))
        self.best = 0.0

    def gains(self) -> Array:
        """E[max(quality - best, 0)] of each arm, `(K,)`."""
        deviation = np.sqrt(np.maximum(np.diagonal(self.covariance), _LEAST))
        weights = np.exp(self.evidence - self.evidence.max())
        # Nothing is above 1, so neither is a gain beyond it.
        beyond = [_improvement(self.mean, deviation, edge) for edge in (self.best, 1.0)]
        gains: Array = np.maximum(weights @ (beyond[0] - beyond[1]) / weights.sum(), 0.0)
        return gains

    def observe(self, arm: int, quality: float) -> None:
        column = self.covariance[:, arm].copy()
        variance = column[arm] + _LEAST
        apart = quality - self.mean[:, arm]
        self.evidence -= 0.5 * apart**2 / variance
        self.mean += apart[:, None] * column / variance
        self.covariance -= np.outer(column, column) / variance
        self.best = max(self.best, quality)


def _improvement(mean: Array, deviation: Array, edge: float) -> Array:
    z = (mean - edge) / deviation
    found: Array = (mean - edge) * norm.cdf(z) + deviation * norm.pdf(z)
    return found


def covariance_of(sigma: float, alpha: float, models: int, seed: int = 0) -> Array:
    """Of the qualities of one task within its group, `(K, K)`, for the table that `synthetic` makes."""
    _, alike = hidden_models(sigma, alpha, models, seed)
    found: Array = alpha**2 * alike + BASELINE_DEVIATION**2 + NOISE_DEVIATION**2 * np.eye(models)
    return found


def area(table: Table, covariance: Array, seed: int) -> float:
    """Area under its average loss over the share of the total cost, in one repeat of the protocol."""
    now = table.rows(split(len(table.tasks), seed)[0])
    tasks = [_Task(covariance) for _ in now.tasks]
    left = np.ones(now.quality.shape, dtype=bool)
    rates = np.stack([task.gains() for task in tasks]) / now.cost
    total = 0.0
    while (loss := now.best - [task.best for task in tasks]).max() > _SOLVED:
        i, j = np.unravel_index(np.argmax(np.where(left, rates, -1.0)), left.shape)
        total += float(loss.mean() * now.cost[i, j])
        left[i, j] = False
        tasks[i].observe(int(j), float(now.quality[i, j]))
        rates[i] = tasks[i].gains() / now.cost[i]
    return total / now.total_cost
