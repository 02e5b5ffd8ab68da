"""The paper's prior: a kernel over the candidates' quality vectors on past tasks (ease.ml, section 1.9).

Notation: K arms; N past tasks; x `(K, N)` the vector of an arm: its quality on each of them, gaps filled by
the arm's average plus the task's offset; m `(K,)` its average; l, a, s2 length, variance and noise.

    rbf      a exp(-d^2 / 2)                                 d = |x_j - x_j'| / l
    matern   a (1 + sqrt(5) d + 5 d^2 / 3) exp(-sqrt(5) d)
    linear   a (x_j . x_j' / N + l)                          l here is a constant offset

Hyper-parameters maximise the log marginal likelihood of the past tasks, each a draw from
N(m, k(x, x) + s2 I), as scikit-learn's `GaussianProcessRegressor` does: l and s2 / a over a grid, a in
closed form for each. GP-UCB, GREEDY and HYBRID are the paper's with `rbf`.

Fewer than FEWEST results of an arm say too little of how far a new one may be from their average, a single
one nothing at all: the most likely variance is then close to 0, whatever comes, and a policy that believes
it explores nothing (DEEPLEARNING with one past task: 26 times the area of `priors.build`, with five 1.15
times). There the catalogue and the history together decide, as in `priors`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from easeml_core.allocator import priors
from easeml_core.allocator.types import Array, Prior

KERNELS = ("rbf", "linear", "matern")
LENGTHS = tuple(float(step) for step in np.geomspace(0.1, 10, 15))  # of the median distance
FEWEST = 6
NOISES = (1e-6, 1e-5, 1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0)  # s2 / a


def tuned(
    template: str, arms: Sequence[str], history: Sequence[priors.TaskHistory], kernel: str = "rbf"
) -> Prior:
    """The prior over `arms` from `history`; that of `priors.build` below FEWEST results of an arm on average.

    Carries the history on, for policies that learn from it. Raises ValueError for an unknown kernel.
    """
    if kernel not in KERNELS:
        raise ValueError(f"no kernel is called {kernel!r}; there are {', '.join(KERNELS)}")
    table, tasks = priors.known(arms, history)
    if np.count_nonzero(~np.isnan(table)) < FEWEST * len(arms):
        return priors.build(template, arms, history)
    filled = fill(table)
    covariance, noise = fit(filled, kernel)
    source = f"a kernel ({kernel}) over {len(filled)} past tasks"
    catalogue = priors.catalogue(arms, {}, {})
    return Prior(tuple(arms), filled.mean(axis=0), covariance, noise, source, table, catalogue, tasks)


def fill(table: Array) -> Array:
    """`table` `(N, K)` with gaps filled by the arm's average plus the task's offset, within [0, 1]."""
    known = ~np.isnan(table)
    sums, counts = np.where(known, table, 0.0).sum(axis=0), known.sum(axis=0)
    overall = float(table[known].mean())
    average = np.where(counts > 0, sums / np.maximum(counts, 1), overall)
    offset = np.where(known, table - average, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    return np.where(known, table, np.clip(average + offset[:, None], 0.0, 1.0))


def fit(table: Array, kernel: str) -> tuple[Array, float]:
    """Covariance `(K, K)` and noise variance of highest log marginal likelihood for `table` `(N, K)`.

    Where past tasks were all alike, so that it would be next to 0, the variance is that of one observation.
    """
    n, k = table.shape
    vectors, apart = table.T, (table - table.mean(axis=0)).T
    # Row by row: all differences at once would be K times the size of the table.
    distance = np.sqrt([((vectors - vector) ** 2).sum(axis=1) for vector in vectors])
    positive = distance[distance > 0]
    middle = float(np.median(positive)) if len(positive) else 1.0
    best: tuple[float, Array, float] | None = None
    for length in LENGTHS:
        shape = _shape(kernel, vectors, distance / (length * middle), length)
        # One decomposition serves all noises.
        values, basis = np.linalg.eigh(shape)
        projected = (basis.T @ apart) ** 2
        for ratio in NOISES:
            spectrum = np.maximum(values, 0.0) + ratio
            variance = max(float((projected / spectrum[:, None]).sum()) / (k * n), 1e-12)
            likelihood = -0.5 * k * n * np.log(variance) - 0.5 * n * float(np.log(spectrum).sum())
            if best is None or likelihood > best[0]:
                best = (likelihood, variance * shape, variance * ratio)
    assert best is not None
    _, covariance, noise = best
    lift = max(1.0, priors.NOISE / float(np.diagonal(covariance).mean()))
    return lift * covariance, lift * noise


def _shape(kernel: str, vectors: Array, scaled: Array, offset: float) -> Array:
    if kernel == "linear":
        made: Array = vectors @ vectors.T / vectors.shape[1] + offset
        return made
    if kernel == "rbf":
        return np.exp(-0.5 * scaled**2)
    root = np.sqrt(5.0) * scaled
    matern: Array = (1 + root + root**2 / 3) * np.exp(-root)
    return matern
