from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from easeml_core.allocator import kernels
from easeml_core.replay import Table, read_table
from easeml_core.replay.protocol import (
    SYN,
    average_cost,
    measure,
    prior_of,
    repeat,
    report,
    split,
    synthetic,
)

TABLES = Path(__file__).parents[2].parent / "shared" / "tables"


def shared_table(name):
    path = TABLES / name
    if not path.exists():
        pytest.skip(f"{name} is not beside the repository (../shared/tables)")
    return read_table(path)


def small():
    return synthetic(0.5, 1.0, tasks=14, models=6, seed=3)


def test_a_split_serves_ten_tasks_and_shares_none():
    served, past = split(22, seed=0)
    assert (len(served), len(past)) == (10, 12)
    assert sorted(served + past) == list(range(22))
    assert split(22, 0) == split(22, 0) != split(22, 1)
    assert [len(part) for part in split(6, 0)] == [3, 3]


def test_all_policies_of_a_repeat_play_the_same_game():
    traces = repeat(small(), ["easeml", "hybrid", "clairvoyant"], 0)
    tables = {name: trace.table for name, trace in traces.items()}
    assert len({id(table) for table in tables.values()}) == 1
    for trace in traces.values():
        assert not any(run.fallbacks for run in trace.runs)


def test_policies_may_be_told_what_models_cost_on_average():
    nan = np.nan
    history = Table(
        ("t", "u"),
        ("a", "b", "c"),
        np.array([[0.5, 0.5, nan], [0.5, nan, nan]]),
        np.array([[1, 5, 99], [3, 99, 99.0]]),
    )
    assert average_cost(history, (2, 3)).tolist() == [[2, 5, 3], [2, 5, 3]]
    assert average_cost(history.rows([]), (1, 3)).tolist() == [[1, 1, 1]]
    found = repeat(small(), ["easeml"], 0, average=True)["easeml"]
    _, past = split(14, 0)
    for run in found.runs:
        assert run.predicted == pytest.approx(small().cost[past, run.arm].mean())
        assert run.end - run.start == pytest.approx(found.table.cost[run.task, run.arm])


def test_nobody_beats_the_clairvoyant():
    measured = measure(small(), ["clairvoyant", "easeml", "hybrid", "random"], 3)
    areas = {name: found.area for name, found in measured.items()}
    assert min(areas, key=areas.get) == "clairvoyant"
    assert set(report(measured)["easeml"]["cost_to"]) == {"0.05", "0.02", "0.01", "0.005"}


def test_the_clairvoyant_by_hand():
    table = Table(
        ("t", "u"), ("a", "b"), np.array([[0.9, 0.5], [0.1, 0.8]]), np.array([[4.0, 1.0], [1.0, 1.0]])
    )
    found = repeat(Table(("x", *table.tasks, "y"), table.models, *_padded(table)), ["clairvoyant"], 0, test=2)
    assert found["clairvoyant"].runs
    from easeml_core.replay import replay
    from easeml_core.replay.clairvoyant import Clairvoyant

    runs = replay(table, Clairvoyant(table)).runs
    assert [(run.task, run.arm) for run in runs] == [(1, 1), (0, 1), (0, 0), (1, 0)]


def _padded(table):
    return np.vstack([table.quality[:1], table.quality, table.quality[:1]]), np.ones((4, 2))


@pytest.mark.parametrize(("sigma", "alpha"), SYN)
def test_synthetic_tables_are_as_described(sigma, alpha):
    table = synthetic(sigma, alpha)
    assert table.quality.shape == (200, 100)
    assert ((table.quality >= 0) & (table.quality <= 1)).all()
    if alpha == 0.1:  # not clipped much: two groups, spread by alpha
        middles = np.median(table.quality, axis=1)
        assert abs(middles[::2].mean() - 0.75) < 0.03
        assert abs(middles[1::2].mean() - 0.25) < 0.03
    np.testing.assert_array_equal(synthetic(sigma, alpha).quality, table.quality)


@pytest.mark.parametrize("kernel", kernels.KERNELS)
def test_kernels_know_which_models_are_alike(kernel):
    draw = np.random.default_rng(0)
    first, second = draw.normal(0.7, 0.1, (2, 30, 1))
    quality = np.clip(np.hstack([first, first, second, second]) + draw.normal(0, 0.01, (30, 4)), 0, 1)
    table = Table(tuple(map(str, range(30))), tuple("abcd"), quality, np.ones((30, 4)))
    prior = prior_of(table, kernel)
    deviations = np.sqrt(np.diagonal(prior.covariance))
    correlation = prior.covariance / np.outer(deviations, deviations)
    assert correlation[0, 1] > correlation[0, 2]
    assert correlation[2, 3] > correlation[1, 2]
    np.testing.assert_allclose(prior.mean, quality.mean(axis=0))
    assert np.linalg.eigvalsh(prior.covariance).min() > -1e-9


def test_an_unknown_kernel_is_refused():
    with pytest.raises(ValueError, match="rbf, linear, matern"):
        prior_of(small(), "cubic")


def test_ours_beats_the_papers_on_deeplearning():
    """Eight splits of the protocol; the whole comparison is benchmarks/allocator.py."""
    table = shared_table("deeplearning_22x9.csv").without(["VGG-19"])
    measured = measure(table, ["easeml", "hybrid"], 8)
    assert measured["easeml"].area < 0.6 * measured["hybrid"].area
    assert measured["easeml"].area_worst < measured["hybrid"].area_worst


def misled(past):
    order = np.random.default_rng(0).permutation(len(past.models))
    return Table(past.tasks, past.models, past.quality[:, order], past.cost[:, order])


@pytest.mark.parametrize("options", [{"share": 0.0}, {"spoil": misled}], ids=["none", "misleading"])
def test_a_history_that_lacks_or_lies_costs_little(options):
    table = shared_table("deeplearning_22x9.csv").without(["VGG-19"])
    measured = measure(table, ["easeml", "round_robin"], 8, **options)
    assert measured["easeml"].area < 1.05 * measured["round_robin"].area
