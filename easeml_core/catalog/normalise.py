"""The normalisers f_k, for inputs whose range spans many orders of magnitude.

    f_k(x) = -x^(2k) + x^k        x in [0, 1]

Scaling such inputs linearly to [0, 1] loses the signal in the small values; f_k brings it out (Li et al.,
Ease.ml, PVLDB 11(5), section 2.3). f_k(0) = f_k(1) = 0, its single maximum is 1/4 at x = 2^(-1/k): the
smaller k, the smaller the values that are brought out. Each model with each f_k is a candidate of its own.
"""

from __future__ import annotations

from typing import TypeVar

K_VALUES: tuple[float, ...] = (0.2, 0.4, 0.6, 0.8)
HIGH_DYNAMIC_RANGE = 1e3  # largest over smallest magnitude from which the normalisers are candidates

Numbers = TypeVar("Numbers")


def normalise(x: Numbers, k: float) -> Numbers:
    """f_k of a number, or elementwise of an array or tensor, of values in [0, 1]; k > 0.

    >>> round(normalise(2 ** (-1 / 0.4), 0.4), 12)
    0.25
    """
    root = x**k  # type: ignore[operator]
    result: Numbers = root - root * root
    return result


def peak(k: float) -> float:
    """Where f_k has its maximum of 1/4."""
    return float(2.0 ** (-1.0 / k))
