"""Exact Gaussian-process posterior over a finite set of arms, built one observation at a time.

Notation (shapes in brackets; symbols as in section 1.6 of the ease.ml paper, arXiv 1708.07308):

=========  =========  ================================================================================
symbol     shape      meaning
=========  =========  ================================================================================
K                     number of arms
t                     number of observations so far
mu_0       (K,)       prior mean of the arms' qualities
Sigma      (K, K)     prior covariance of the arms' qualities
s2                    variance of the noise of one observation (the paper's sigma^2)
a_i, y_i              arm and quality of observation i
mu_t       (K,)       posterior mean after t observations
var_t      (K,)       posterior variance of the latent quality (without noise); sigma_t is its root
L          (t, t)     lower Cholesky factor of Sigma[a, a] + s2 I
V          (t, K)     L^-1 Sigma[a, :]
=========  =========  ================================================================================

The paper prints the zero-mean posterior; this is the one with the prior mean:
``mu_t = mu_0 + Sigma[:, a] (Sigma[a, a] + s2 I)^-1 (y - mu_0[a])`` and
``var_t = diag(Sigma) - diag(Sigma[:, a] (Sigma[a, a] + s2 I)^-1 Sigma[a, :])``.

Because arms are a finite set, row t of L is already at hand: it is ``V[:t, a_t]``, with the pivot
``L[t, t]^2 = var_t[a_t] + s2``. So one more observation is one more row of V, O(t K), with no
factorisation at all, and every prefix of the observations has its exact posterior on the way.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from easeml_core.allocator.types import Array
from easeml_core.errors import FallbackError

log = logging.getLogger(__name__)

# Noise variance is at least this share of the largest prior variance (a deviation of 0.3 %): an exact
# observation would make repeats of one arm singular and the posterior over-confident.
NOISE_FLOOR = 1e-5
# Shares of the mean prior variance that are added to the diagonal, one after the other, until it works.
JITTERS = (0.0, 1e-10, 1e-8, 1e-6, 1e-4)
# A variance this far below zero, as a share of its prior, is rounding; further below, Sigma is not PSD.
_ROUNDING = 1e-9


class NotPositiveError(ArithmeticError):
    """A conditional variance came out negative beyond rounding: Sigma is not positive semi-definite."""


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """What is believed after some observations. Immutable: `observe` returns a new one.

    `mean` and `variance` have shape `(K,)`; `rows` is V, `(t, K)`; `jitter` is the share of the mean prior
    variance that had to be added to the diagonal of Sigma, 0 as a rule. The variance does not depend on the
    observed values, so equal observations, or a single one, never make it collapse.

    >>> prior = Posterior.prior(np.array([0.5, 0.5]), np.array([[0.04, 0.03], [0.03, 0.04]]), 1e-4)
    >>> after = prior.observe(0, 0.9)
    >>> after.mean.round(3), after.deviation.round(3)
    (array([0.899, 0.799]), array([0.01 , 0.133]))
    """

    mean: Array
    variance: Array
    covariance: Array
    noise: float
    rows: Array
    jitter: float = 0.0

    @classmethod
    def prior(cls, mean: Array, covariance: Array, noise: float) -> Posterior:
        """Start from mu_0 `(K,)`, Sigma `(K, K)` and s2, which is raised to the noise floor.

        Raises ValueError on wrong shapes and on anything not finite.
        """
        mean = np.asarray(mean, dtype=np.float64)
        covariance = np.asarray(covariance, dtype=np.float64)
        k = mean.shape[0]
        if mean.ndim != 1 or covariance.shape != (k, k):
            raise ValueError(f"mean {mean.shape} and covariance {covariance.shape} do not fit together")
        if not (np.isfinite(mean).all() and np.isfinite(covariance).all() and np.isfinite(noise)):
            raise ValueError("mean, covariance and noise must be finite")
        diagonal = np.diagonal(covariance)
        largest = float(diagonal.max(initial=0.0))
        floor = max(NOISE_FLOOR * largest, np.finfo(np.float64).tiny)
        return cls(mean, np.maximum(diagonal, 0.0), covariance, max(float(noise), floor), np.empty((0, k)))

    @property
    def deviation(self) -> Array:
        """sigma_t, shape `(K,)`."""
        return np.sqrt(self.variance)

    def with_jitter(self, share: float) -> Posterior:
        """The same prior (no observations yet) with `share` of its mean variance added to the diagonal."""
        added = share * float(self.variance.mean()) * np.eye(len(self.mean))
        return replace(Posterior.prior(self.mean, self.covariance + added, self.noise), jitter=share)

    def check(self) -> None:
        """Raise `NotPositiveError` where the diagonal of Sigma has a negative entry."""
        if (np.diagonal(self.covariance) < 0).any():
            raise NotPositiveError("the prior has a negative variance")

    def observe(self, arm: int, value: float, repeats: int = 1) -> Posterior:
        """The posterior after seeing the mean `value` of `repeats` observations of `arm`. O(t K).

        Raises ValueError on a value that is not finite, `NotPositiveError` where Sigma is not PSD.
        """
        if not np.isfinite(value):
            raise ValueError(f"an observation must be finite; got {value}")
        column = self.rows[:, arm]
        conditional = float(self.covariance[arm, arm] - column @ column)
        if conditional < -_ROUNDING * max(float(self.covariance[arm, arm]), self.noise):
            raise NotPositiveError(f"conditional variance {conditional:g} of arm {arm}")
        pivot = np.sqrt(max(conditional, 0.0) + self.noise / repeats)
        row = (self.covariance[arm] - column @ self.rows) / pivot
        variance = self.variance - row * row
        if (variance < -_ROUNDING * np.maximum(np.diagonal(self.covariance), self.noise)).any():
            raise NotPositiveError(f"variance {variance.min():g} after arm {arm}")
        mean = self.mean + row * ((value - self.mean[arm]) / pivot)
        variance, rows = np.maximum(variance, 0.0), np.concatenate((self.rows, row[None]))
        return Posterior(mean, variance, self.covariance, self.noise, rows, self.jitter)


def path(
    mean: Array,
    covariance: Array,
    noise: float,
    arms: Sequence[int],
    values: Sequence[float | None],
) -> tuple[Posterior, ...]:
    """The t + 1 posteriors before each observation and after the last, in the given order.

    A value of None stands for a trial that still runs: its arm is observed at its posterior mean (the
    "hallucinated" observation of GP-BUCB, Desautels et al. 2014), so the mean stays and the deviation
    shrinks, there and at the arms that are like it.

    Raises ValueError on what is not finite, `FallbackError` where Sigma is too far from positive
    semi-definite for every jitter.
    """
    return _steps(mean, covariance, noise, [(a, y, 1) for a, y in zip(arms, values, strict=True)])


def extend(steps: tuple[Posterior, ...], arm: int, value: float) -> tuple[Posterior, ...] | None:
    """`path` with one more observation, from the path before it; None where it has to start over."""
    try:
        return (*steps, steps[-1].observe(arm, value))
    except NotPositiveError:
        return None


def condition(
    mean: Array, covariance: Array, noise: float, arms: Sequence[int], values: Sequence[float]
) -> Posterior:
    """The posterior after all observations; repeats of an arm are merged (mean, noise / count).

    Merging changes nothing but the numerics: the joint posterior is the same. Raises as `path` does.
    """
    seen: dict[int, list[float]] = {}
    for arm, value in zip(arms, values, strict=True):
        seen.setdefault(arm, []).append(value)
    merged = [(arm, float(np.mean(repeated)), len(repeated)) for arm, repeated in seen.items()]
    return _steps(mean, covariance, noise, merged)[-1]


def _steps(
    mean: Array, covariance: Array, noise: float, observations: Sequence[tuple[int, float | None, int]]
) -> tuple[Posterior, ...]:
    """Observe `(arm, value, repeats)` one after the other, with as little jitter as works."""
    prior = Posterior.prior(mean, covariance, noise)
    for jitter in JITTERS:
        try:
            steps = [prior.with_jitter(jitter) if jitter else prior]
            steps[0].check()
            for arm, value, repeats in observations:
                seen = float(steps[-1].mean[arm]) if value is None else value
                steps.append(steps[-1].observe(arm, seen, repeats))
            return tuple(steps)
        except NotPositiveError as problem:
            log.warning("posterior failed with jitter %g of the prior variance: %s", jitter, problem)
    raise FallbackError("the prior covariance is not positive semi-definite, whatever the jitter")
