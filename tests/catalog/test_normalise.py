"""Properties of the normalisers f_k (paper, section on automatic normalisation)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from easeml_core.catalog.normalise import K_VALUES, normalise, peak

ks = st.sampled_from(K_VALUES) | st.floats(0.1, 2)


@given(ks)
def test_both_ends_are_zero(k: float) -> None:
    assert normalise(0.0, k) == 0
    assert normalise(1.0, k) == 0


@given(st.floats(0, 1), ks)
def test_values_are_between_zero_and_a_quarter(x: float, k: float) -> None:
    assert 0 <= normalise(x, k) <= 0.25


@given(ks, st.floats(0, 1), st.floats(0, 1))
def test_rises_to_its_single_peak_and_falls_from_there(k: float, a: float, b: float) -> None:
    low, high = sorted((a, b))
    top = peak(k)
    assert normalise(top, k) == pytest.approx(0.25)
    left = (normalise(top * low, k), normalise(top * high, k))
    right = (normalise(top + (1 - top) * low, k), normalise(top + (1 - top) * high, k))
    assert left[0] <= left[1] + 1e-12
    assert right[0] >= right[1] - 1e-12


def test_smaller_k_brings_out_smaller_values() -> None:
    assert [round(peak(k), 3) for k in K_VALUES] == [0.031, 0.177, 0.315, 0.42]


def test_arrays_go_elementwise() -> None:
    x = np.array([[0.0, 0.25], [1.0, 2**-2.5]])
    assert normalise(x, 0.4) == pytest.approx(np.array([[0, normalise(0.25, 0.4)], [0, 0.25]]))
