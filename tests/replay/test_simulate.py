from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from easeml_core.allocator import make_policy
from easeml_core.allocator.testing import FailsEverySecondCall
from easeml_core.replay import Table, read_table, replay

TABLES = Path(__file__).parents[2].parent / "shared" / "tables"


def small(tasks=4, models=5, seed=0):
    draw = np.random.default_rng(seed)
    quality = draw.uniform(0.3, 1, (tasks, models))
    quality[0, 1] = np.nan
    names = tuple(f"t{i}" for i in range(tasks)), tuple(f"m{j}" for j in range(models))
    return Table(*names, quality, draw.uniform(0.5, 5, (tasks, models)))


@pytest.mark.parametrize("policy", ["hybrid", "random", "fcfs+cheapest"])
@pytest.mark.parametrize("devices", [1, 3, 50])
def test_runs_every_known_cell_once_and_no_device_twice_at_a_time(policy, devices):
    table = small()
    trace = replay(table, policy, devices=devices, seed=1)
    cells = [(run.task, run.arm) for run in trace.runs]
    assert len(cells) == len(set(cells)) == 19
    assert (0, 1) not in cells
    by_device = {}
    for run in trace.runs:
        assert run.end - run.start == pytest.approx(table.cost[run.task, run.arm])
        by_device.setdefault(run.device, []).append(run)
    assert len(by_device) <= devices
    for runs in by_device.values():
        assert all(
            later.start >= earlier.end for earlier, later in pairwise(sorted(runs, key=lambda r: r.start))
        )
    assert [run.end for run in trace.runs] == sorted(run.end for run in trace.runs)
    if devices == 1:
        assert trace.makespan == pytest.approx(table.cost[~np.isnan(table.quality)].sum())


def test_is_deterministic():
    first, again = (replay(small(), "random", devices=2, seed=3) for _ in range(2))
    assert first.runs == again.runs
    assert first.runs != replay(small(), "random", devices=2, seed=4).runs


def test_losses_start_at_the_best_quality_and_end_at_zero():
    table = small()
    times, losses = replay(table, "hybrid").losses()
    np.testing.assert_allclose(losses[0], table.best)
    np.testing.assert_allclose(losses[-1], 0)
    assert (np.diff(losses, axis=0) <= 0).all()
    assert times[0] == 0


def test_area_and_time_to_by_hand():
    table = Table(("t",), ("a", "b"), np.array([[0.5, 1.0]]), np.array([[1.0, 3.0]]))
    trace = replay(table, "fcfs+cheapest")
    assert trace.area() == pytest.approx((1.0 * 1 + 0.5 * 3) / 4)
    assert (trace.time_to(0.5), trace.time_to(0.0), trace.time_to(-1.0)) == (1.0, 4.0, float("inf"))


def test_more_devices_finish_sooner():
    spans = [replay(small(8), "hybrid", devices=devices).makespan for devices in (1, 2, 4)]
    assert spans[0] > 1.8 * spans[1] > 1.8 * 1.6 * spans[2]


def test_policies_are_told_the_predicted_costs():
    table = Table(("t",), ("a", "b"), np.array([[0.5, 1.0]]), np.array([[1.0, 3.0]]))
    trace = replay(table, "fcfs+cheapest", predicted=np.array([[9.0, 2.0]]))
    assert [(run.arm, run.end) for run in trace.runs] == [(1, 3.0), (0, 4.0)]


def test_a_policy_that_fails_every_second_call_still_finishes():
    trace = replay(small(), FailsEverySecondCall(make_policy("hybrid")), devices=2)
    assert len(trace.runs) == 19
    assert 8 <= sum(bool(run.fallbacks) for run in trace.runs) <= 11


def test_no_device_is_refused():
    with pytest.raises(ValueError, match="at least one device"):
        replay(small(), "hybrid", devices=0)


def deeplearning():
    path = TABLES / "deeplearning_22x9.csv"
    if not path.exists():
        pytest.skip(f"{path.name} is not beside the repository (../shared/tables)")
    return read_table(path).without(["VGG-19"])


def test_hybrid_with_costs_reaches_low_loss_sooner_than_random_on_deeplearning():
    """The paper's protocol, six splits: 10 test tasks, the other 12 as history, loss against total cost."""
    table = deeplearning()
    areas, times = {}, {}
    for split in range(6):
        order = np.random.default_rng(split).permutation(22)
        for policy in ("hybrid", "random", "hybrid+gp_ucb_oblivious"):
            trace = replay(table.rows(order[:10]), policy, history=table.rows(order[10:]), seed=split)
            assert len(trace.runs) == 80
            assert not any(run.fallbacks for run in trace.runs)
            areas.setdefault(policy, []).append(trace.area())
            times.setdefault(policy, []).append(trace.time_to(0.01) / trace.makespan)
    mean = {policy: float(np.mean(values)) for policy, values in areas.items()}
    reached = {policy: float(np.mean(values)) for policy, values in times.items()}
    assert mean["hybrid"] < 0.5 * mean["random"]
    assert reached["hybrid"] < 0.5 * reached["random"]
    assert mean["hybrid"] < 0.5 * mean["hybrid+gp_ucb_oblivious"]
