from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from easeml_core.allocator import make_policy
from easeml_core.allocator.types import Decision
from easeml_core.replay import Table, replay
from easeml_core.replay.clairvoyant import Clairvoyant
from easeml_core.replay.metrics import curves


def by_hand():
    """One task: loss 1 for a quarter of the cost, 0.5 for the rest."""
    return Table(("t",), ("a", "b"), np.array([[0.5, 1.0]]), np.array([[1.0, 3.0]]))


def test_area_worst_and_cost_to_by_hand():
    found = curves([replay(by_hand(), "fcfs+cheapest")])
    assert found.area == pytest.approx(1.0 * 0.25 + 0.5 * 0.75)
    assert found.area_worst == pytest.approx(found.area)
    assert found.cost_to(0.5) == pytest.approx(0.25)
    assert found.cost_to(0.01) == pytest.approx(1.0)
    assert found.cost_to(-1.0) is None


def test_average_and_worst_over_tasks_and_repeats():
    table = Table(("t", "u"), ("a",), np.array([[1.0], [0.4]]), np.array([[1.0], [1.0]]))
    one, other = replay(table, "fcfs"), replay(table.rows([1, 0]), "fcfs")
    found = curves([one, other])
    np.testing.assert_allclose(found.shares, [0.0, 0.5, 1.0])
    np.testing.assert_allclose(found.average, [0.7, (0.2 + 0.5) / 2, 0.0])
    np.testing.assert_allclose(found.worst, [1.0, 1.0, 0.0])
    assert found.as_dict()["area_se"] == pytest.approx(np.std([0.45, 0.6], ddof=1) / np.sqrt(2))


def test_ending_early_changes_no_figure():
    draw = np.random.default_rng(1)
    names = tuple(f"t{i}" for i in range(5)), tuple(f"m{j}" for j in range(6))
    table = Table(*names, draw.uniform(0.3, 1, (5, 6)), draw.uniform(0.5, 5, (5, 6)))
    for policy in ("hybrid", "easeml"):
        found = [curves([replay(table, policy, until_best=stop)]).as_dict() for stop in (False, True)]
        whole, early = ({key: one[key] for key in one if key != "calibration"} for one in found)
        assert early == whole


def test_more_devices_shorten_the_curve():
    draw = np.random.default_rng(2)
    names = tuple(f"t{i}" for i in range(12)), tuple(f"m{j}" for j in range(4))
    table = Table(*names, draw.uniform(0.3, 1, (12, 4)), draw.uniform(0.5, 1, (12, 4)))
    one, four = (curves([replay(table, "easeml", devices=number)]).area for number in (1, 4))
    assert four < one / 2.5


class TwoThirds:
    """A policy that expects 0.5 of everything, and claims to know it to 0.1 and 0.3."""

    name = "two_thirds"

    def choose(self, request):
        answer = make_policy("fcfs+cheapest").choose(request)
        if isinstance(answer, Decision):
            belief = replace(answer.choice, expected_quality=0.5, deviation=0.1)
            return replace(answer, choice=belief, intervals={"50": (0.4, 0.6), "90": (0.2, 0.8)})
        return answer


def test_predictions_are_judged_over_all_decisions():
    quality = np.array([[0.45, 0.7], [0.9, 0.55]])
    table = Table(("t", "u"), ("a", "b"), quality, np.array([[1.0, 2.0], [1.0, 2.0]]))
    found = curves([replay(table, TwoThirds(), predicted=2 * table.cost)]).as_dict()["calibration"]
    assert (found["decisions"], found["within"]) == (4, {"50": 0.5, "90": 0.75})
    assert found["quality_error"] == pytest.approx((0.05 + 0.2 + 0.4 + 0.05) / 4)
    assert found["cost_factor"] == pytest.approx(2.0)
    assert found["cost_bias"] == pytest.approx(0.5)


def test_who_knows_all_predicts_nothing():
    table = by_hand()
    assert curves([replay(table, Clairvoyant(table))]).as_dict()["calibration"] is None
