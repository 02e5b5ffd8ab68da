"""Completes a ragged table of past tasks: what each probably reached with the arms that it never tried.

Notation: N past tasks, K arms, z `(N, K)` on the warped scale, NaN where unknown; m `(K,)`, S `(K, K)`.

Each row is a draw from N(m, S). m and S are found by expectation-maximisation under a weak conjugate belief
worth NU and KAPPA tasks of the catalogue's m_0, S_0 (Little & Rubin, Statistical Analysis with Missing Data,
ch. 11), so that one past task moves them a little and a hundred decide them. A row costs O(t^2 K) for its
t known arms, or O(u^2 K) for its u unknown ones, whichever is less.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from easeml_core.allocator.types import Array

NU, KAPPA = 2.0, 1.0
ROUNDS = 3
RIDGE = 1e-6  # share of the mean variance


@dataclass(frozen=True, eq=False)
class Completed:
    """`rows` `(N, K)` without gaps, and the m `(K,)` and S `(K, K)` that filled them; `spread` `(K, K)` is
    the summed covariance of what was filled in."""

    rows: Array
    mean: Array
    covariance: Array
    spread: Array


def complete(table: Array, mean_0: Array, covariance_0: Array, past: Completed | None = None) -> Completed:
    """Fill the gaps of `table` `(N, K)`; N may be 0, a row may be empty. Deterministic.

    `past` are rows that were completed before and stay as they are: they come first in the result. This
    spares the time that filling them again would take, for a change of next to nothing.
    """
    known = ~np.isnan(table)
    old = np.empty((0, len(mean_0))) if past is None else past.rows
    mean, covariance = (mean_0, covariance_0) if past is None else (past.mean, past.covariance)
    spread_past = np.zeros_like(covariance_0) if past is None else past.spread
    rows, spread = np.vstack([old, np.where(known, table, mean_0)]), spread_past
    # Without gaps the first round is exact.
    for _ in range(1 if known.all() else ROUNDS):
        new, left = _expect(table, known, mean, covariance)
        rows, spread = np.vstack([old, new]), spread_past + left
        n = len(rows)
        mean = (KAPPA * mean_0 + rows.sum(axis=0)) / (KAPPA + n)
        apart, drift = rows - mean, mean - mean_0
        scatter = NU * covariance_0 + KAPPA * np.outer(drift, drift) + spread + apart.T @ apart
        covariance = (scatter + scatter.T) / (2 * (NU + n))
    return Completed(rows, mean, covariance, spread)


def _expect(
    table: Array, known: npt.NDArray[np.bool_], mean: Array, covariance: Array
) -> tuple[Array, Array]:
    """E[z_u] `(N, K)` given what is known of each row, and the sum of their covariances `(K, K)`."""
    k = len(mean)
    rows = np.where(known, table, mean)
    steady = covariance + RIDGE * float(np.diagonal(covariance).mean()) * np.eye(k)
    precision: Array | None = None
    # What is left of a row is V'V, or S less V'V. Stacked: one large product is far faster than many.
    added, taken = [np.empty((0, k))], [np.empty((0, k))]
    filled = 0
    for row, there in zip(rows, known, strict=True):
        if there.all():
            continue
        gone, apart = ~there, row[there] - mean[there]
        if there.sum() <= gone.sum():
            near = steady[there]
            whitening = np.linalg.inv(np.linalg.cholesky(near[:, there]))
            taken.append(whitening @ near)
            row[gone] = mean[gone] + (whitening @ apart) @ taken[-1][:, gone]
            filled += 1
        else:
            if precision is None:
                precision = np.asarray(np.linalg.inv(steady), dtype=np.float64)
            far = precision[gone]
            root = np.linalg.inv(np.linalg.cholesky(far[:, gone]))
            row[gone] = mean[gone] - root.T @ (root @ (far[:, there] @ apart))
            added.append(np.zeros((len(root), k)))
            added[-1][:, gone] = root
    plus, minus = np.vstack(added), np.vstack(taken)
    return rows, plus.T @ plus + filled * steady - minus.T @ minus
