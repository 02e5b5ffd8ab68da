from __future__ import annotations

import doctest
import random

import pytest

from easeml_core.allocator import calibration
from easeml_core.allocator.calibration import Outcome, calibrate, normal_intervals


def outcome(quality, deviation=0.01, expected=0.5, predicted=10.0, seconds=10.0):
    return Outcome(expected, normal_intervals(expected, deviation), quality, predicted, seconds)


def test_doctests():
    assert doctest.testmod(calibration).failed == 0


def test_nothing_to_say_of_nothing():
    found = calibrate([])
    assert (found.decisions, found.within, found.cost_factor) == (0, None, None)
    assert found.verdict == "too few to tell"


@pytest.mark.parametrize(
    ("truth", "verdict"), [(0.01, "as claimed"), (0.03, "over-confident"), (0.003, "too cautious")]
)
def test_what_predictions_claim_is_compared_with_what_came(truth, verdict):
    draw = random.Random(0)
    found = calibrate([outcome(0.5 + draw.gauss(0, truth)) for _ in range(2000)])
    assert found.verdict == verdict
    if verdict == "as claimed":
        assert found.within["50"] == pytest.approx(0.5, abs=0.03)
        assert found.within["90"] == pytest.approx(0.9, abs=0.02)
    assert found.cost_factor == 1.0


def test_bias_and_wrong_costs_show():
    found = calibrate([outcome(0.4, seconds=20.0), outcome(0.4, seconds=5.0)])
    assert found.within == {"50": 0.0, "90": 0.0}
    assert found.quality_bias == pytest.approx(-0.1)
    assert found.cost_factor == pytest.approx(2.0)
    assert found.cost_bias == pytest.approx(1.0)


def test_failures_are_counted_and_judge_no_prediction():
    found = calibrate([outcome(None, seconds=900.0), outcome(0.5)])
    assert (found.decisions, found.failed) == (2, 1)
    assert found.within == {"50": 1.0, "90": 1.0}
    assert found.cost_factor == 1.0


def test_intervals_stay_in_range():
    assert normal_intervals(0.99, 0.2)["90"][1] == 1.0
    assert normal_intervals(0.01, 0.2)["90"][0] == 0.0
