from __future__ import annotations

import doctest
import random

import pytest

from easeml_core.allocator import calibration
from easeml_core.allocator.calibration import WIDTHS, Outcome, calibrate


def test_doctests():
    assert doctest.testmod(calibration).failed == 0


def test_nothing_to_say_of_nothing():
    assert calibrate([]) is None


def test_honest_predictions_are_found_honest():
    draw = random.Random(0)

    def student():
        return draw.gauss(0, 1) / (sum(draw.gauss(0, 1) ** 2 for _ in range(3)) / 3) ** 0.5

    outcomes = [Outcome(0.5, 0.01 * 3**0.5, 0.5 + 0.01 * student(), 10.0, 10.0) for _ in range(4000)]
    found = calibrate(outcomes)
    assert found.within[0.5] == pytest.approx(0.5, abs=0.03)
    assert found.within[0.9] == pytest.approx(0.9, abs=0.02)
    assert found.cost_factor == 1.0


def test_over_confidence_bias_and_wrong_costs_show():
    found = calibrate([Outcome(0.8, 0.001, 0.7, 10.0, 20.0), Outcome(0.8, 0.001, 0.7, 10.0, 5.0)])
    assert found.within == {0.5: 0.0, 0.9: 0.0}
    assert found.quality_bias == pytest.approx(-0.1)
    assert found.cost_factor == pytest.approx(2.0)


def test_intervals_are_those_of_student():
    assert WIDTHS[0.9] == pytest.approx(2.353363 / 3**0.5, abs=1e-5)
