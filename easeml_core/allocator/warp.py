"""From qualities in [0, 1] to the unbounded scale on which the default policy's beliefs are, and back.

    z(q) = log((q + low) / (1 - q + high)),   soft = (low, high)

With both ends a little softened it is the logit: 0.98 and 0.99 are as far apart as 0.50 and 0.67, yet a
quality of exactly 1 stays finite. With both ends soft it is nearly linear. With the low end alone it is the
logarithm of the error: to halve what is still wrong counts the same everywhere, and how badly a candidate
fails counts little. Which one fits a template is decided by the likelihood of its history (`experts`), so
densities carry the Jacobian dz/dq.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from easeml_core.allocator.types import Array

Soft = tuple[float, float]  # low and high, as in the formula

LOGIT, LINEAR, ERROR = (0.01, 0.01), (0.3, 0.3), (1.0, 0.01)
SOFT: tuple[Soft, ...] = (LOGIT, LINEAR, ERROR)


def warp(quality: Array, soft: Soft) -> Array:
    """z(q), any shape; NaN stays NaN."""
    q = np.asarray(quality, dtype=np.float64)
    unbounded: Array = np.log((q + soft[0]) / (1 - q + soft[1]))
    return unbounded


def unwarp(value: Array, soft: Soft) -> Array:
    """q(z), any shape, cut to [0, 1] (a soft end reaches beyond)."""
    # Written with tanh: one call, and no overflow for whatever value.
    share = 0.5 + 0.5 * np.tanh(0.5 * value)
    quality: Array = np.clip((1 + soft[0] + soft[1]) * share - soft[0], 0.0, 1.0)
    return quality


def slope(quality: Array, soft: Soft) -> Array:
    """dz/dq at a quality, any shape; positive."""
    q = np.asarray(quality, dtype=np.float64)
    steep: Array = 1 / (q + soft[0]) + 1 / (1 - q + soft[1])
    return steep


def quantile(share: float, cdf: Callable[[float], float]) -> float:
    """The quantile of a distribution of mean 0 with that CDF, by bisection.

    >>> round(quantile(0.975, student), 3), round(quantile(0.975, normal), 3)
    (3.182, 1.96)
    """
    low, high = -1e3, 1e3
    for _ in range(100):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if cdf(middle) < share else (low, middle)
    return 0.5 * (low + high)


def student(value: float) -> float:
    """CDF of Student's t with 3 degrees of freedom."""
    x = value / math.sqrt(3)
    return 0.5 + (x / (1 + x * x) + math.atan(x)) / math.pi


def normal(value: float) -> float:
    """CDF of the standard normal distribution."""
    return 0.5 + 0.5 * math.erf(value / math.sqrt(2))


def student_quantile(share: float) -> float:
    """The quantile of Student's t with 3 degrees of freedom."""
    return quantile(share, student)
