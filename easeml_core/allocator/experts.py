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

**Learned inside the history**, by the likelihood of tasks held out (FOLDS parts, random subsets of arms, as
only a few arms of a task are ever seen): whether tails are heavy or light, how much S is shrunk towards
constant correlation and towards its diagonal, how far the warped scale is from linear, and the share of each
bandwidth (stacking, by expectation-maximisation). With fewer than ENOUGH tasks there is nothing to hold out:
DEFAULT is used.
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
FOLDS, SUBSETS, SUBSET = 5, 2, 12
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
    n = len(qualities)
    if n < ENOUGH:
        return DEFAULT
    found: dict[warp.Soft, tuple[float, Settings]] = {}
    for soft in warp.SOFT:
        steep = warp.slope(mean_0, soft)
        completed = ragged.complete(
            warp.warp(qualities, soft), warp.warp(mean_0, soft), covariance_0 * np.outer(steep, steep)
        )
        jacobian = np.log(warp.slope(np.where(np.isnan(qualities), 0.5, qualities), soft))
        for tails in (HEAVY, LIGHT):
            held_out = _held_out(completed.rows, jacobian, np.isnan(qualities), tails)
            for shrinkage, table in held_out.items():
                shares = _stack(table)
                score = float(np.mean(_log_mean(table + np.log(shares))))
                if soft not in found or score > found[soft][0]:
                    chosen = Settings(tails, soft, shrinkage, tuple(float(share) for share in shares))
                    found[soft] = (score, chosen)
    best = max(found.values(), key=lambda entry: entry[0])
    preferred = found[warp.ERROR]
    return preferred[1] if best[0] - preferred[0] <= CLEARLY * min(SUBSET, qualities.shape[1]) else best[1]


def _held_out(
    rows: Array, jacobian: Array, gaps: npt.NDArray[np.bool_], tails: Tails
) -> dict[Shrinkage, Array]:
    """Log density of subsets of held-out tasks under each bandwidth, by shrinkage: `(cases, H)`.

    Where no held-out task knows all arms of any subset, all are taken to be equally likely.
    """
    n, k = rows.shape
    size, folds = min(SUBSET, k), min(FOLDS, n)
    fold = np.arange(n) % folds
    found: dict[Shrinkage, list[Array]] = {weights: [] for weights in tails.shrinkage}
    for part in range(folds):
        inside, outside = rows[fold != part], rows[fold == part]
        mean = inside.mean(axis=0)
        apart = inside - mean
        raw = apart.T @ apart / max(len(inside) - 1, 1)
        raw += 1e-6 * max(float(np.diagonal(raw).mean()), 1e-6) * np.eye(k)
        for weights in tails.shrinkage:
            covariance = shrink(raw, weights, len(inside))
            for draw in range(SUBSETS):
                arms = _subset(k, size, part * SUBSETS + draw)
                whole = ~gaps[np.ix_(np.flatnonzero(fold == part), arms)].any(axis=1)
                if not whole.any():
                    continue
                density = _densities(
                    outside[whole][:, arms] - mean[arms],
                    apart[:, arms],
                    covariance[np.ix_(arms, arms)],
                    tails,
                )
                extra = jacobian[fold == part][whole][:, arms].sum(axis=1)
                found[weights].append(density + extra[:, None])
    return {weights: np.vstack(tables) for weights, tables in found.items() if tables} or {
        tails.shrinkage[0]: np.zeros((1, len(tails.bandwidths)))
    }


def _subset(k: int, size: int, number: int) -> npt.NDArray[np.int64]:
    """Spread over the arms and different for every `number`, without a random generator."""
    # A multiplicative congruential order: importing NumPy's generators costs more than a decision.
    order = sorted(range(k), key=lambda arm: ((arm + 1) * 2654435761 + number * 40503) % 4294967291)
    return np.array(sorted(order[:size]), dtype=np.int64)


def _densities(new: Array, past: Array, covariance: Array, tails: Tails) -> Array:
    """Log density of each new task `(n, T)` under each bandwidth's mixture over past `(N, T)`: `(n, H)`.

    Up to a constant that is the same whatever is chosen.
    """
    size, nu = len(covariance), tails.nu
    factor = np.linalg.cholesky(covariance)
    x, c = np.linalg.solve(factor, new.T).T, np.linalg.solve(factor, past.T).T
    xx, cc, xc = (x * x).sum(axis=1)[:, None], (c * c).sum(axis=1)[None], x @ c.T
    log_det = float(np.log(np.diagonal(factor)).sum())
    columns = []
    for width in tails.bandwidths:
        pull = math.sqrt(1 - width**2)
        apart = np.maximum(xx - 2 * pull * xc + pull**2 * cc, 0.0) / width**2
        density = -0.5 * (nu + size) * np.log1p(apart / nu) - size * math.log(width) - log_det
        columns.append(_log_mean(density) - math.log(density.shape[1]) + student_constant(nu, size))
    return np.stack(columns, axis=1)


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
    for _ in range(_ROUNDS):
        joint = table + np.log(shares)
        likely = np.exp(joint - _log_mean(joint)[:, None])
        shares = (1 - LEAST_SHARE * width) * likely.mean(axis=0) + LEAST_SHARE
    return shares
