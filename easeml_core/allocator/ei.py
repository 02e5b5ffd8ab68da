"""Expected improvement under a Gaussian posterior, and the rules that maximise it.

    tau(u) = u Phi(u) + phi(u),     EI(k) = sigma(k) tau((mu(k) - best) / sigma(k))

GP-EI (Mockus 1975; Snoek et al. 2012, who divide by the cost for "EI per second").
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from easeml_core.allocator.board import Board, TaskView
from easeml_core.allocator.gp import Posterior
from easeml_core.allocator.types import Array

SIGMA_FLOOR = 1e-9


def tau(u: Array) -> Array:
    """u Phi(u) + phi(u), elementwise; never negative."""
    phi = np.exp(-0.5 * u * u) / math.sqrt(2 * math.pi)
    # math.erfc, as far left as it goes: 1 - Phi would be 0 there.
    cdf = np.array([0.5 * math.erfc(-x / math.sqrt(2)) for x in u.reshape(-1)]).reshape(u.shape)
    improvement: Array = np.maximum(u * cdf + phi, 0.0)
    return improvement


def expected_improvement(mean: Array, deviation: Array, best: float) -> Array:
    """EI of each arm over `best`, shape `(K,)`, in quality."""
    sigma = np.maximum(deviation, SIGMA_FLOOR)
    improvement: Array = sigma * tau((mean - best) / sigma)
    return improvement


@dataclass(frozen=True)
class GpEi:
    """GP-EI within one task; with `per_second`, divided by the predicted cost."""

    per_second: bool = False

    @property
    def name(self) -> str:
        """`gp_ei` or `ei_per_second`."""
        return "ei_per_second" if self.per_second else "gp_ei"

    def scores(self, view: TaskView, board: Board) -> Array:
        """Expected improvement over the best observation, in quality, or in quality per second."""
        now = view.posterior
        improvement = expected_improvement(now.mean, now.deviation, view.incumbent)
        return improvement / view.costs if self.per_second else improvement

    def belief(self, view: TaskView) -> Posterior:
        """The posterior, running trials included."""
        return view.posterior

    def why(self, view: TaskView, arm: int, score: float) -> str:
        """The expectation and the improvement of the arm."""
        now = view.posterior
        unit = " per second" if self.per_second else ""
        return (
            f"{view.names[arm]} is expected to reach {now.mean[arm]:.2f} ± {now.deviation[arm]:.2f} and has "
            f"the highest expected improvement, {score:.2g}{unit}, of the {int(view.open.sum())} left"
        )
