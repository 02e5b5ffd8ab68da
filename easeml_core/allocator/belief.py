"""What the default policy believes of one task: experts, weighed by how well they predicted its trials.

Notation: K arms of the template; t observations z_1..z_t of arms a_1..a_t on the warped scale; for each
family of experts (`experts.Experts`, which share S): L `(t, t)` the Cholesky factor of S[a, a], V `(t, K)`
= L^-1 S[a, :], and for its experts p = 1..P with centre c_p and bandwidth h_p the innovations
e_p `(t,)` = L^-1 (z - c_p[a]). Then, since the covariance of expert p is h_p^2 S,

    mean      mu_p    = c_p + V' e_p                                                           (K,)
    scale     s_p     = h_p sqrt(diag S - sum_i V_i^2) sqrt((nu + q_p) / (nu + t)),  q_p = |e_p|^2 / h_p^2
    evidence  log w_p = prior - log|L| - t log h_p - (nu + t)/2 log(1 + q_p / nu) + c(nu, t)

(Student-t process, Shah, Wilson & Ghahramani 2014). V is shared, so one more observation costs O(t K) for a
family and O(t) for each expert; mu_p is only computed for the EXPERTS of most weight.

Predictions keep the tails of nu degrees of freedom however much was observed: the scale of a task is learned
from its trials, but that a single model surprises on a single task never ceases to happen. The scale is
multiplied by `honest` (`experts.Tails`).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from easeml_core.allocator import warp
from easeml_core.allocator.experts import LIGHT, Experts, Tails, student_constant
from easeml_core.allocator.types import Array
from easeml_core.errors import FallbackError

log = logging.getLogger(__name__)

EXPERTS = 12
# Shares of the distribution that are summed for an expectation, finer where improvements are.
SHARES: tuple[tuple[float, float], ...] = (
    *((0.05 + 0.1 * step, 0.1) for step in range(9)),
    *((0.925, 0.05), (0.97, 0.03), (0.99, 0.015), (0.998, 0.005)),
)
JITTERS = (1e-9, 1e-7, 1e-5, 1e-3)  # shares of the mean variance, one after the other until it works


@dataclass(frozen=True, eq=False)
class Family:
    """What one family of experts makes of a task's observations; symbols as in the module's notation."""

    experts: Experts
    played: tuple[int, ...]
    rows: Array  # V, (t, K)
    innovations: Array  # e, (P, t)
    left: Array  # diag S - sum V^2, (K,)
    log_det: float
    jitter: float = JITTERS[0]  # what the diagonal needed

    @classmethod
    def of(cls, experts: Experts, arms: Sequence[int], values: Sequence[float]) -> Family:
        """Condition on all observations at once. Raises `FallbackError` where S cannot be factored."""
        index = np.array(arms, dtype=np.int64)
        covariance = experts.covariance
        factor, jitter = _factor(covariance[np.ix_(index, index)], float(np.diagonal(covariance).mean()))
        return cls._factored(experts, index[None], np.asarray(values)[None], factor[None], jitter)[0]

    @classmethod
    def of_many(cls, experts: Experts, arms: npt.NDArray[np.int64], values: Array) -> list[Family]:
        """`of` each of n tasks with t observations: of `arms` `(n, t)`, on the warped scale `(n, t)`."""
        each = zip(arms.tolist(), values.tolist(), strict=True)
        if len(arms) < 2:
            return [cls.of(experts, *task) for task in each]
        covariance = experts.covariance
        ridge = JITTERS[0] * float(np.diagonal(covariance).mean()) * np.eye(arms.shape[1])
        try:
            made = np.linalg.cholesky(covariance[arms[:, :, None], arms[:, None]] + ridge)
        except np.linalg.LinAlgError:  # of one of them: each then gets the jitter that it needs
            return [cls.of(experts, *task) for task in each]
        factors = np.asarray(made, dtype=np.float64)
        return cls._factored(experts, arms, values, factors, JITTERS[0])

    @classmethod
    def _factored(
        cls, experts: Experts, arms: npt.NDArray[np.int64], values: Array, factors: Array, jitter: float
    ) -> list[Family]:
        """As `of_many`, with L of each task, `(n, t, t)`."""
        covariance = experts.covariance
        inverses = np.asarray(np.linalg.inv(factors), dtype=np.float64)
        apart = values[:, None] - experts.centres[:, arms].swapaxes(0, 1)
        rows, innovations = inverses @ covariance[arms], apart @ inverses.swapaxes(1, 2)
        left = np.maximum(np.diagonal(covariance) - (rows * rows).sum(axis=1), 0.0)
        log_dets = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
        played = map(tuple, arms.tolist())
        made = zip(played, rows, innovations, left, log_dets.tolist(), strict=True)
        return [cls(experts, *parts, jitter) for parts in made]

    def observe(self, arm: int, value: float | None) -> Family:
        """One more observation; None for a trial that still runs: no innovation, less left to learn."""
        covariance = self.experts.covariance
        column = self.rows[:, arm]
        ridge = self.jitter * float(np.diagonal(covariance).mean())
        # As in `of`, where the ridge is on the diagonal: both ways give the same.
        pivot = math.sqrt(float(self.left[arm]) + ridge)
        row = (covariance[arm] - column @ self.rows) / pivot
        if value is None:
            innovation = np.zeros(len(self.innovations))
        else:
            expected = self.experts.centres[:, arm] + self.innovations @ column
            innovation = (value - expected) / pivot
        return Family(
            self.experts,
            (*self.played, arm),
            np.vstack([self.rows, row]),
            np.hstack([self.innovations, innovation[:, None]]),
            np.maximum(self.left - row * row, 0.0),
            self.log_det + math.log(pivot),
            self.jitter,
        )

    def evidence(self, without: str = "") -> tuple[Array, Array]:
        """log w `(P,)` and q `(P,)`; experts that come from the task `without` itself get no weight."""
        t, widths = len(self.played), self.experts.widths
        q = (self.innovations**2).sum(axis=1) / widths**2
        nu = self.experts.tails.nu
        density = -self.log_det - t * np.log(widths) - 0.5 * (nu + t) * np.log1p(q / nu)
        log_w = self.experts.weights + density + student_constant(nu, t)
        if without and without in self.experts.owners:
            own = np.array([owner == without for owner in self.experts.owners])
            log_w = np.where(own, -np.inf, log_w)
        return log_w, q

    def total(self, without: str = "") -> float:
        """Log evidence of the whole family."""
        log_w, _ = self.evidence(without)
        return _log_total(log_w)


@dataclass(frozen=True, eq=False)
class Prediction:
    """A mixture over C experts of the quality of each arm: `mean`, `scale` `(C, K)` on the warped scale, and
    the `tails` of each expert."""

    weights: Array
    mean: Array
    scale: Array
    tails: tuple[Tails, ...]
    soft: warp.Soft

    def qualities(self, arms: Sequence[int] | slice = slice(None)) -> Array:
        """Quality of `arms` at each of `SHARES`, by expert: `(C, arms, J)`."""
        nodes = np.stack([_nodes(tails) for tails in self.tails])
        return warp.unwarp(self.mean[:, arms, None] + self.scale[:, arms, None] * nodes[:, None], self.soft)

    def moments(self, qualities: Array) -> tuple[Array, Array]:
        """Expected quality and its deviation, each `(arms,)`, of what `qualities` returned."""
        mean = self.weights @ (qualities @ _MASSES)
        square = self.weights @ ((qualities * qualities) @ _MASSES)
        return mean, np.sqrt(np.maximum(square - mean * mean, 0.0))

    def improvement(self, qualities: Array, best: float) -> Array:
        """E[max(quality - best, 0)] `(arms,)`: expected improvement, in quality."""
        gain: Array = self.weights @ (np.maximum(qualities - best, 0.0) @ _MASSES)
        return gain

    def interval(self, arm: int, share: float) -> tuple[float, float]:
        """The central interval of an arm's quality that holds `share` of the mixture."""
        return self.intervals(arm, (share,))[0]

    def intervals(self, arm: int, shares: Sequence[float]) -> list[tuple[float, float]]:
        """The central interval for each of `shares`."""
        draws = np.stack([_draws(tails) for tails in self.tails])
        values = self.mean[:, arm, None] + self.scale[:, arm, None] * draws
        order = np.argsort(values, axis=None)
        mass = np.repeat(self.weights / draws.shape[1], draws.shape[1])[order].cumsum()
        ordered = values.reshape(-1)[order]
        edges = np.array([0.5 + side * share / 2 for share in shares for side in (-1, 1)])
        at = np.minimum(np.searchsorted(mass, edges), len(order) - 1)
        ends = warp.unwarp(ordered[at], self.soft).tolist()
        return list(zip(ends[::2], ends[1::2], strict=True))


def predict(
    families: Sequence[Family], family_weights: Sequence[float], soft: warp.Soft, without: str = ""
) -> Prediction:
    """Predict all arms by the experts of most weight, over all families, whose log weights are given.

    Within a family the task's own evidence weighs the experts. Between families it does not: m and S of a
    family that knows few tasks are made of this task's trials, too, which it then explains all too well.
    """
    logs, qs = zip(*(family.evidence(without) for family in families), strict=True)
    sizes = [len(q) for q in qs]
    shares = [values - _log_total(values) for values in logs]
    log_w = np.concatenate([own + weight for own, weight in zip(shares, family_weights, strict=True)])
    weights = np.exp(log_w - log_w.max())
    t = len(families[0].played)
    # Before any trial all experts count alike, and the few of most weight would not stand for them.
    keep = np.arange(len(weights)) if t == 0 else np.argsort(-weights, kind="stable")[:EXPERTS]
    keep = np.sort(keep[weights[keep] > 0])
    means, scales, all_tails = [], [], list[Tails]()
    start = 0
    for family, size, q in zip(families, sizes, qs, strict=True):
        of = keep[(keep >= start) & (keep < start + size)] - start
        start += size
        if not len(of):
            continue
        means.append(family.experts.centres[of] + family.innovations[of] @ family.rows)
        tails = family.experts.tails
        stretch = family.experts.widths[of] * np.sqrt((tails.nu + q[of]) / (tails.nu + t))
        scales.append(stretch[:, None] * np.sqrt(family.left))
        all_tails += [tails] * len(of)
    kept = weights[keep]
    return Prediction(kept / kept.sum(), np.vstack(means), np.vstack(scales), tuple(all_tails), soft)


def _log_total(logs: Array) -> float:
    """log of the sum of exp."""
    top = float(logs.max())
    return top + math.log(float(np.exp(logs - top).sum()))


def _factor(matrix: Array, variance: float) -> tuple[Array, float]:
    """The Cholesky factor, and the first of JITTERS that it worked with. Raises `FallbackError`."""
    for jitter in JITTERS:
        try:
            factor = np.linalg.cholesky(matrix + jitter * variance * np.eye(len(matrix)))
            return np.asarray(factor, dtype=np.float64), jitter
        except np.linalg.LinAlgError:
            log.warning("the covariance of %d trials needs more than %g jitter", len(matrix), jitter)
    raise FallbackError("the covariance of the trials is not positive definite, whatever the jitter")


_MASSES = np.array([mass for _, mass in SHARES])


@cache
def _nodes(tails: Tails) -> Array:
    return tails.honest * np.array([_quantile(tails, share) for share, _ in SHARES])


@cache
def _draws(tails: Tails) -> Array:
    return tails.honest * np.array([_quantile(tails, (step + 0.5) / 200) for step in range(200)])


def _quantile(tails: Tails, share: float) -> float:
    return warp.quantile(share, warp.normal if tails is LIGHT else warp.student)
