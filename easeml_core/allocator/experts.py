"""What past tasks say of a new one: a mixture of experts, each a Student-t process.

Notation: K arms; N past tasks, `rows` z_u `(K,)` on the warped scale (`warp`), complete (`ragged`); m, S
their mean and shrunk covariance; h in (0, 1] a bandwidth; nu degrees of freedom (`Tails`).

**Experts.** Past task u at bandwidth h says: the new task is

    z ~ t_nu( m + sqrt(1 - h^2) (z_u - m),  h^2 S )

"like u, give or take h". At h = 1 all u say the same, t_nu(m, S): the usual Gaussian-process prior, with
heavier tails. Small h stays close to one past task. Every mixture over u has mean m and about covariance S
whatever h (a shrunk kernel density estimate, Silverman 1986, ch. 6), so bandwidths differ only in how much
they trust single tasks. As observations come, experts are weighed by how well they predicted them
(`belief`): where a past task is close it takes over, where none is the wide ones do.

**Learned inside the history**, by the likelihood of tasks held out (FOLDS parts; of each task a random subset
of the arms that it tried, as only some arms of a task are ever seen): whether tails are heavy or light, how
much S is shrunk towards constant correlation and towards its diagonal, how far the warped scale is from
linear, and the share of each bandwidth (stacking, by expectation-maximisation). With fewer than ENOUGH tasks
there is nothing to hold out: DEFAULT is used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from easeml_core.allocator import ragged, warp
from easeml_core.allocator.types import Array

ENOUGH = 6
FOLDS = 5
# Arms of a held-out task that are looked at. What luck puts into S adds up with every arm that is conditioned
# on: with few of them the shrinkage that leaves most of it in looks as good as any.
SUBSET = 24
LEAST_SHARE = 0.02
# Nats of log likelihood per arm by which another scale must predict better than `warp.ERROR` to replace it.
CLEARLY = 0.03
LEAST_VALUE = 1e-3  # of an eigenvalue of a correlation matrix
_ROUNDS = 30


class Shrinkage(NamedTuple):
    """How S is made of what was counted: the weights of constant correlation and of the diagonal, and how
    many standard errors a pair must be apart from constant correlation to be believed at all."""

    constant: float
    own: float
    doubt: float = 0.0


@dataclass(frozen=True, slots=True)
class Tails:
    """How often single results are far off, and what goes with it.

    `nu` degrees of freedom. `honest` is by how much the width of a prediction is multiplied, about what the
    likelihood of held-out predictions asks for (section `calibration` of the benchmark). `shrinkage` are the
    ones to choose from: the diagonal takes up the single cells that are far off, so it has no weight where
    there are none. `bandwidths`: with light tails one Gaussian says all that single past tasks could add,
    without their noise.
    """

    nu: float
    honest: float
    shrinkage: tuple[Shrinkage, ...]
    bandwidths: tuple[float, ...]


HEAVY = Tails(
    nu=3.0,
    honest=0.6,
    shrinkage=tuple(
        Shrinkage(*pair) for pair in ((0.1, 0.05), (0.1, 0.15), (0.4, 0.05), (0.4, 0.15), (0.9, 0.05))
    ),
    bandwidths=(0.4, 0.7, 1.0),
)
# At 30 degrees of freedom quantiles are those of the normal distribution to 2 %.
LIGHT = Tails(
    nu=30.0,
    honest=1.0,
    shrinkage=(
        *(Shrinkage(constant, 0.0) for constant in (0.05, 0.3, 0.6, 0.9)),
        *(Shrinkage(constant, 0.0, doubt=2.0) for constant in (0.05, 0.3)),
    ),
    bandwidths=(1.0,),
)
# Where nothing is known about how far off results are, the width is what the process says.
UNKNOWN = replace(HEAVY, honest=1.0)


@dataclass(frozen=True, slots=True)
class Settings:
    """What cross-validation chose. `shares` are those of the tails' bandwidths and sum to 1."""

    tails: Tails
    soft: warp.Soft
    shrinkage: Shrinkage
    shares: tuple[float, ...]


DEFAULT = Settings(UNKNOWN, warp.LINEAR, Shrinkage(0.4, 0.1), (0.05, 0.05, 0.9))


@dataclass(frozen=True, eq=False)
class Experts:
    """A mixture that shares one S. P experts: `centres` `(P, K)`, `widths` `(P,)` the h, `weights` `(P,)`
    their log prior weights, `owners` the past task each comes from (empty for the common one)."""

    tails: Tails
    mean: Array
    covariance: Array
    centres: Array
    widths: Array
    weights: Array
    owners: tuple[str, ...]


def shrink(covariance: Array, weights: Shrinkage, tasks: int) -> Array:
    """`covariance` `(K, K)`, counted over `tasks`, moved as `weights` say; variances stay.

    Doubt is a non-negative garrote (Breiman 1995): what is far from constant correlation stays nearly as it
    is, what is within the luck of so few tasks goes.
    """
    deviations = np.sqrt(np.maximum(np.diagonal(covariance), 1e-12))
    correlation = covariance / np.outer(deviations, deviations)
    k = len(covariance)
    common = (correlation.sum() - k) / (k * (k - 1)) if k > 1 else 0.0
    # A negative common correlation of many arms is not positive semi-definite; zero always is.
    constant, common = (weights.constant, common) if common >= 0 else (0.0, 0.0)
    if weights.doubt:
        error = weights.doubt * (1 - common**2) / math.sqrt(max(tasks, 1))
        apart = correlation - common
        correlation = common + apart * np.maximum(1 - error**2 / np.maximum(apart**2, 1e-300), 0.0)
    mixed = (1 - weights.constant - weights.own) * correlation + constant * common
    np.fill_diagonal(mixed, 1.0)
    if weights.doubt:
        mixed = _positive(mixed)
    shrunk: Array = mixed * np.outer(deviations, deviations)
    return shrunk


def _positive(correlation: Array) -> Array:
    """The correlation without its negative eigenvalues, which changing it entry by entry may leave."""
    values, vectors = np.linalg.eigh(correlation)
    if values[0] >= LEAST_VALUE:
        return correlation
    mended = (vectors * np.maximum(values, LEAST_VALUE)) @ vectors.T
    deviations = np.sqrt(np.diagonal(mended))
    positive: Array = mended / np.outer(deviations, deviations)
    return positive


def build(rows: Array, completed: ragged.Completed, names: Sequence[str], settings: Settings) -> Experts:
    """The experts of the past tasks `rows` `(P, K)`, called `names`, with m and S from `completed`."""
    mean, covariance = completed.mean, shrink(completed.covariance, settings.shrinkage, len(completed.rows))
    centres, widths, weights, owners = [], [], [], list[str]()
    for width, share in zip(settings.tails.bandwidths, settings.shares, strict=True):
        if width < 1 and not len(rows):
            continue
        own = mean[None] if width == 1 else mean + math.sqrt(1 - width**2) * (rows - mean)
        centres.append(own)
        widths.append(np.full(len(own), width))
        weights.append(np.full(len(own), math.log(share / len(own))))
        owners += [""] if width == 1 else list(names)
    stacked = np.concatenate(weights)
    stacked -= np.log(np.exp(stacked).sum())
    return Experts(
        settings.tails, mean, covariance, np.vstack(centres), np.concatenate(widths), stacked, tuple(owners)
    )


def learn(qualities: Array, mean_0: Array, covariance_0: Array) -> Settings:
    """Settings for the past tasks `qualities` `(N, K)` in [0, 1], NaN where unknown.

    `mean_0`, `covariance_0` are the catalogue's, as qualities. Deterministic.
    """
    qualities = qualities[~np.isnan(qualities).all(axis=1)]
    n = len(qualities)
    if n < ENOUGH:
        return DEFAULT
    fold = np.arange(n) % FOLDS
    found: dict[warp.Soft, tuple[float, Settings]] = {}
    for soft in warp.SOFT:
        table, start, steep = warp.warp(qualities, soft), warp.warp(mean_0, soft), warp.slope(mean_0, soft)
        spread = covariance_0 * np.outer(steep, steep)
        jacobian = np.log(warp.slope(qualities, soft))
        # What a held-out task tells must not help to fill in the others.
        parts = [
            _Part(
                table[fold == part],
                jacobian[fold == part],
                ragged.complete(table[fold != part], start, spread),
            )
            for part in range(FOLDS)
        ]
        for tails in (HEAVY, LIGHT):
            for shrinkage, densities in _held_out(parts, tails).items():
                shares = _stack(densities)
                score = float(np.mean(_log_mean(densities + np.log(shares))))
                if soft not in found or score > found[soft][0]:
                    chosen = Settings(tails, soft, shrinkage, tuple(float(share) for share in shares))
                    found[soft] = (score, chosen)
    best = max(found.values(), key=lambda entry: entry[0])
    preferred = found[warp.ERROR]
    arms = float(np.minimum((~np.isnan(qualities)).sum(axis=1), SUBSET).mean())
    return preferred[1] if best[0] - preferred[0] <= CLEARLY * arms else best[1]


class _Part(NamedTuple):
    """Held-out tasks `(n, K)`, NaN where unknown, log dz/dq of each cell, and what the other tasks say."""

    table: Array
    jacobian: Array
    others: ragged.Completed


def _held_out(parts: Sequence[_Part], tails: Tails) -> dict[Shrinkage, Array]:
    """Log density of held-out tasks under each bandwidth, by shrinkage: `(cases, H)`.

    A case is a task and up to SUBSET of the arms that it tried.
    """
    cases = []
    for number, (table, jacobian, others) in enumerate(parts):
        mean = others.mean
        ridge = ragged.RIDGE * float(np.diagonal(others.covariance).mean())
        raw = others.covariance + ridge * np.eye(len(mean))
        shrunk = np.stack([shrink(raw, weights, len(others.rows)) for weights in tails.shrinkage])
        for tasks, arms in _tried(~np.isnan(table), _order(len(mean), number)):
            new = table[tasks[:, None], arms] - mean[arms]
            past = (others.rows - mean)[:, arms].swapaxes(0, 1)
            density = _densities(new, past, shrunk[:, arms[:, :, None], arms[:, None]], tails)
            cases.append(density + jacobian[tasks[:, None], arms].sum(axis=1)[:, None])
    return dict(zip(tails.shrinkage, np.concatenate(cases, axis=1), strict=True))


def _order(k: int, number: int) -> npt.NDArray[np.int64]:
    """An order of `k` arms, different for every `number`, without a random generator."""
    # A multiplicative congruential order: importing NumPy's generators costs more than a decision.
    order = sorted(range(k), key=lambda arm: ((arm + 1) * 2654435761 + number * 40503) % 4294967291)
    return np.array(order, dtype=np.int64)


def _tried(
    known: npt.NDArray[np.bool_], order: npt.NDArray[np.int64]
) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """The first SUBSET arms in `order` that each task tried, `(n, T)`, with the n tasks that have T such.

    `known` is `(N, K)`.
    """
    there = known[:, order]
    counts = np.minimum(there.sum(axis=1), SUBSET)
    first = order[np.argsort(~there, axis=1, kind="stable")]
    found = []
    for size in np.unique(counts[counts > 0]):
        tasks = np.flatnonzero(counts == size)
        found.append((tasks, first[tasks, :size]))
    return found


def _densities(new: Array, past: Array, covariances: Array, tails: Tails) -> Array:
    """Log density of each new task `(n, T)` under each bandwidth's mixture over the past `(n, N, T)`, with
    each of W `covariances` `(W, n, T, T)`: `(W, n, H)`.

    Up to a constant that is the same whatever is chosen.
    """
    size, nu = new.shape[1], tails.nu
    factors = np.linalg.cholesky(covariances)
    inverses = np.linalg.inv(factors)
    x, c = inverses @ new[:, :, None], inverses @ past.swapaxes(1, 2)
    xx, cc, xc = (x * x).sum(axis=2), (c * c).sum(axis=2), (x * c).sum(axis=2)
    log_det = np.log(np.diagonal(factors, axis1=2, axis2=3)).sum(axis=2)
    columns = []
    for width in tails.bandwidths:
        pull = math.sqrt(1 - width**2)
        apart = np.maximum(xx - 2 * pull * xc + pull**2 * cc, 0.0) / width**2
        density = _log_mean(-0.5 * (nu + size) * np.log1p(apart / nu)) - math.log(past.shape[1])
        columns.append(density - size * math.log(width) - log_det + student_constant(nu, size))
    return np.stack(columns, axis=2)


def student_constant(nu: float, size: int) -> float:
    """log of what the density of a `size`-dimensional Student's t is multiplied by, less that of a normal."""
    return math.lgamma((nu + size) / 2) - math.lgamma(nu / 2) - 0.5 * size * math.log(nu / 2)


def _log_mean(table: Array) -> Array:
    """log of the sum of exp along the last axis."""
    top = table.max(axis=-1)
    total: Array = top + np.log(np.exp(table - top[..., None]).sum(axis=-1))
    return total


def _stack(table: Array) -> Array:
    """Shares of the bandwidths that make the held-out tasks most likely; never below LEAST_SHARE."""
    width = table.shape[1]
    shares = np.full(width, 1 / width)
    for _ in range(_ROUNDS if width > 1 else 0):
        joint = table + np.log(shares)
        likely = np.exp(joint - _log_mean(joint)[:, None])
        shares = (1 - LEAST_SHARE * width) * likely.mean(axis=0) + LEAST_SHARE
    return shares
