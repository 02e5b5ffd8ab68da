"""What is believed of a template's arms before a task has any trial.

Notation: K arms; N past tasks; x_u `(K,)` the qualities of past task u, of which only some are known;
m_0, Sigma_0 the catalogue's mean and covariance; m, Sigma what comes out.

**Catalogue only (N = 0).** ``Sigma_0 = s_task^2 1 1' + s_model^2 k(f, f') + s_own^2 I``: how hard the task is
moves all arms together, arms with similar catalogue features f move together (RBF kernel k), and the rest
is an arm's own. It is the paper's SYN model (baseline + correlated part + white noise) as a belief.

**With history.** Each x_u is a draw from N(m, Sigma), with the conjugate belief
``Sigma ~ inverse Wishart`` worth NU past tasks that look like Sigma_0, ``m ~ N(m_0, Sigma / KAPPA)``. The
most likely m and Sigma are found by expectation-maximisation, which fills in unknown qualities by what the
known ones say (Little & Rubin, Statistical Analysis with Missing Data, ch. 11; Schafer 1997, ch. 5):

    m     = (KAPPA m_0 + sum_u E[x_u]) / (KAPPA + N)
    Sigma = (NU Sigma_0 + KAPPA (m - m_0)(m - m_0)' + sum_u Cov_u + (E[x_u] - m)(E[x_u] - m)') / (NU + N)

Every term is positive semi-definite, so Sigma is. With N = 0 this is the catalogue's belief; each past task
moves it a little further to the empirical one, with a weight of about N / (NU + N). An arm that no past
task tried keeps the catalogue's deviation and is tied to the others through the features.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from easeml_core.allocator.types import Array, Prior

log = logging.getLogger(__name__)

MEAN = 0.65  # expected quality of an arm without a strength: wide enough to be of little weight
TASK_DEVIATION, MODEL_DEVIATION, OWN_DEVIATION = 0.15, 0.08, 0.04
LENGTH = 0.5  # of the RBF kernel, as a share of the diagonal of the feature cube
NOISE = 0.01**2  # variance of one observation, as in the authors' prototype
NU, KAPPA = 5.0, 2.0  # past tasks that the catalogue is worth, for the covariance and for the mean
ROUNDS, TOLERANCE = 30, 1e-3  # of the expectation-maximisation; a tenth of the noise, in quality
_BLOCK = 64  # patterns


@dataclass(frozen=True, slots=True)
class TaskHistory:
    """Best quality of each arm that one past task of the template ran to success; any subset of arms."""

    task: str
    qualities: Mapping[str, float]

    def __post_init__(self) -> None:
        for arm, quality in self.qualities.items():
            if not 0.0 <= quality <= 1.0:  # also refuses NaN
                raise ValueError(f"{self.task}: quality of {arm} must be in [0, 1]; got {quality}")


def build(
    template: str,
    arms: Sequence[str],
    history: Sequence[TaskHistory] = (),
    features: Mapping[str, Sequence[float]] | None = None,
    strengths: Mapping[str, float] | None = None,
) -> Prior:
    """The prior over `arms` (K >= 1) of `template`.

    `history` may be ragged, may name arms that are not asked for, and its order does not matter.
    `features` are vectors of one length, scaled to [0, 1]; an arm without one is like no other.
    `strengths` are expected qualities in [0, 1] from the catalogue, `MEAN` where absent. Raises ValueError
    on features that are not finite or differ in length. Deterministic; O(rounds * patterns * K^3), where
    patterns is the number of different sets of arms that past tasks tried.
    """
    arms = tuple(arms)
    mean, covariance = catalogue(arms, features or {}, strengths or {})
    table, tasks = known(arms, history)
    if not len(table):
        return Prior(arms, mean, covariance, NOISE, "the catalogue")
    fitted_mean, fitted = _fit(table, mean, covariance)
    number = f"{len(table)} past task{'s' * (len(table) > 1)}"
    log.debug("prior of %s: %d arms, %s", template, len(arms), number)
    source = f"the catalogue and {number}"
    return Prior(arms, fitted_mean, fitted, NOISE, source, table, (mean, covariance), tasks)


def catalogue(
    arms: Sequence[str], features: Mapping[str, Sequence[float]], strengths: Mapping[str, float]
) -> tuple[Array, Array]:
    """m_0 `(K,)` and Sigma_0 `(K, K)`; arguments as for `build`."""
    k = len(arms)
    mean = np.array([float(strengths.get(arm, MEAN)) for arm in arms])
    kernel = np.eye(k)
    rows = np.array([index for index, arm in enumerate(arms) if arm in features], dtype=np.int64)
    if len(rows):
        vectors = [tuple(features[arms[index]]) for index in rows]
        if len({len(vector) for vector in vectors}) != 1:
            raise ValueError("feature vectors differ in length")
        points = np.array(vectors, dtype=np.float64)
        if not np.isfinite(points).all():
            raise ValueError("features must be finite")
        apart = ((points[:, None, :] - points[None, :, :]) ** 2).sum(axis=2)
        kernel[np.ix_(rows, rows)] = np.exp(-apart / (2 * LENGTH**2 * max(points.shape[1], 1)))
    own = np.eye(k) * OWN_DEVIATION**2
    return mean, np.full((k, k), TASK_DEVIATION**2) + MODEL_DEVIATION**2 * kernel + own


def known(arms: Sequence[str], history: Sequence[TaskHistory]) -> tuple[Array, tuple[str, ...]]:
    """Known qualities `(N, K)`, NaN where unknown, and the tasks' names, without tasks that know nothing; in
    a fixed order."""
    there = [past for past in history if any(arm in past.qualities for arm in arms)]
    there.sort(key=lambda past: (past.task, sorted(past.qualities.items())))
    rows = [[past.qualities.get(arm, np.nan) for arm in arms] for past in there]
    table = np.array(rows, dtype=np.float64).reshape(len(rows), len(arms))
    return table, tuple(past.task for past in there)


def _fit(table: Array, mean_0: Array, covariance_0: Array) -> tuple[Array, Array]:
    """Maximise the posterior of m and Sigma; stops when neither moves, or after ROUNDS."""
    n = len(table)
    known, pattern_of = np.unique(~np.isnan(table), axis=0, return_inverse=True)
    mean, covariance = mean_0, covariance_0
    for _ in range(ROUNDS):
        expected, spread = _expect(table, known, pattern_of.reshape(-1), mean, covariance)
        new_mean = (KAPPA * mean_0 + expected.sum(axis=0)) / (KAPPA + n)
        apart, drift = expected - new_mean, new_mean - mean_0
        scatter = NU * covariance_0 + KAPPA * np.outer(drift, drift) + spread + apart.T @ apart
        new_covariance = (scatter + scatter.T) / (2 * (NU + n))
        moved = max(
            np.abs(new_mean - mean).max(),
            np.abs(np.sqrt(np.diagonal(new_covariance)) - np.sqrt(np.diagonal(covariance))).max(),
        )
        mean, covariance = new_mean, new_covariance
        if moved < TOLERANCE:
            break
    return mean, covariance


def _expect(
    table: Array,
    known: npt.NDArray[np.bool_],  # (P, K), the different sets of known arms
    pattern_of: npt.NDArray[np.int64],  # (N,), which of them each task has
    mean: Array,
    covariance: Array,
) -> tuple[Array, Array]:
    """E[x_u] `(N, K)` given what is known of each task, and the sum of their covariances `(K, K)`."""
    expected = table.copy()
    spread = np.zeros_like(covariance)
    # In blocks: one call for many small systems is much faster, all at once may not fit in memory.
    for first in range(0, len(known), _BLOCK):
        mask = known[first : first + _BLOCK]
        rows = np.flatnonzero((pattern_of >= first) & (pattern_of < first + _BLOCK))
        of = pattern_of[rows] - first
        both = mask[:, :, None] & mask[:, None, :]
        # Sigma of the known arms, and 1 on the diagonal for the others. The own part of Sigma_0 keeps it
        # well away from singular: its weight never reaches zero.
        gram = np.where(both, covariance, np.eye(len(mean)))
        across = np.where(mask[:, :, None], covariance, 0.0)  # from known arms to all
        gain = np.linalg.solve(gram, across)
        apart = np.where(mask[of], table[rows] - mean, 0.0)
        filled = mean + np.einsum("nk,nkj->nj", apart, gain[of])
        expected[rows] = np.where(mask[of], table[rows], filled)
        unknown = ~mask[:, :, None] & ~mask[:, None, :]
        left = np.where(unknown, covariance - np.swapaxes(across, 1, 2) @ gain, 0.0)
        spread += np.tensordot(np.bincount(of, minlength=len(mask)), left, axes=1)
    return expected, spread
