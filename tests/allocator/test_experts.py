from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from easeml_core.allocator import experts, ragged, template, warp
from easeml_core.allocator.priors import TaskHistory, build
from easeml_core.replay.protocol import synthetic


def related(past=40, arms=8, seed=0, gaps=0.0):
    """Qualities in two groups of tasks: within one, all are alike."""
    draw = np.random.default_rng(seed)
    group = np.where(
        np.arange(past)[:, None] % 2 == 0, np.linspace(0.9, 0.5, arms), np.linspace(0.5, 0.9, arms)
    )
    table = np.clip(group + draw.normal(0, 0.02, (past, arms)), 0, 1)
    table[draw.random(table.shape) < gaps] = np.nan
    return table


def catalogue(arms):
    return np.full(arms, 0.65), 0.02 * np.eye(arms) + 0.02


def unrelated(past=40, arms=8, seed=0):
    return np.clip(np.random.default_rng(seed).normal(0.7, 0.1, (past, arms)), 0, 1)


def test_single_tasks_count_where_history_is_close_and_not_where_it_is_not():
    close = experts.learn(related(), *catalogue(8))
    far = experts.learn(unrelated(), *catalogue(8))
    assert sum(close.shares) == pytest.approx(1)
    assert close.shares[-1] < 0.3 < far.shares[-1]


def test_tails_are_light_where_nothing_is_far_off_and_heavy_where_single_results_are():
    steady = unrelated(60)
    odd = steady.copy()
    at = np.random.default_rng(1).random(odd.shape) < 0.06
    odd[at] = 0.05
    assert experts.learn(steady, *catalogue(8)).tails is experts.LIGHT
    assert experts.learn(odd, *catalogue(8)).tails is experts.HEAVY


@pytest.mark.parametrize("past", [0, 1, 2, 5])
def test_a_short_history_is_not_held_out(past):
    assert experts.learn(related(past), *catalogue(8)) == experts.DEFAULT


@pytest.mark.parametrize(
    "table", [np.full((9, 4), 0.5), np.full((9, 1), 0.5), np.ones((9, 3)), related(12, 4, gaps=0.6)]
)
def test_degenerate_histories_are_learned_from(table):
    chosen = experts.learn(table, *catalogue(table.shape[1]))
    assert np.isfinite(chosen.shares).all()
    assert sum(chosen.shares) == pytest.approx(1)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.sampled_from(experts.HEAVY.shrinkage + experts.LIGHT.shrinkage))
def test_a_shrunk_covariance_is_one(seed, weights):
    rows = np.random.default_rng(seed).normal(size=(4, 7))
    shrunk = experts.shrink(np.cov(rows.T) + 1e-9 * np.eye(7), weights, len(rows))
    assert np.linalg.eigvalsh(shrunk).min() > -1e-9
    np.testing.assert_allclose(np.diagonal(shrunk), np.diagonal(np.cov(rows.T)), atol=1e-8)


def test_doubt_keeps_what_is_alike_and_drops_what_is_luck():
    draw = np.random.default_rng(0)
    rows = draw.normal(size=(200, 1)) + draw.normal(size=(200, 30))
    rows[:, 1] = rows[:, 0] + 0.1 * draw.normal(size=200)
    counted = np.corrcoef(rows.T)
    common = (counted.sum() - 30) / (30 * 29)
    doubted = experts.shrink(np.cov(rows.T), experts.Shrinkage(0.0, 0.0, doubt=2.0), 200)
    kept = doubted / np.sqrt(np.outer(np.diagonal(doubted), np.diagonal(doubted)))
    assert kept[0, 1] == pytest.approx(counted[0, 1], abs=0.03)
    others = kept[2:, 2:][~np.eye(28, dtype=bool)]
    assert np.mean(np.isclose(others, common, atol=0.02)) > 0.9
    assert np.mean(np.isclose(counted[2:, 2:], common, atol=0.02)) < 0.5


@pytest.mark.parametrize("seed", [1, 5, 7])  # with 12 arms of a held-out task none of these is doubted
def test_where_few_pairs_of_many_arms_are_alike_the_others_are_doubted(seed):
    """SYN(0.01, 0.1) of the paper: models are like their nearest neighbours only, of a hundred."""
    settings = experts.learn(synthetic(0.01, 0.1, tasks=120, seed=seed).quality, *catalogue(100))
    assert settings.tails is experts.LIGHT
    assert settings.shrinkage.doubt > 0


@pytest.mark.parametrize("scale", [warp.ERROR, warp.LOGIT, warp.LINEAR])
def test_the_scale_is_that_of_errors_unless_another_predicts_clearly_better(scale):
    draw = np.random.default_rng(0)
    arms, noise = draw.normal(size=8), draw.normal(size=(60, 8))
    # Errors that differ by factors, qualities that do, and differences that are the same everywhere.
    table = {
        warp.ERROR: 1 - 0.08 * np.exp(draw.normal(0, 0.8, (60, 1)) + 0.3 * arms + 0.1 * noise),
        warp.LOGIT: draw.uniform(0.02, 0.12, (60, 1)) * np.exp(0.1 * arms + 0.1 * noise),
        warp.LINEAR: draw.uniform(0.1, 0.9, (60, 1)) + 0.02 * arms + 0.03 * noise,
    }[scale]
    assert experts.learn(np.clip(table, 0, 1), *catalogue(8)).soft == scale


@pytest.mark.parametrize("tails", [experts.HEAVY, experts.LIGHT])
def test_settings_are_learned_of_tasks_that_tried_few_arms_each(tails):
    """No subset of the arms was tried by any two tasks."""
    draw = np.random.default_rng(3)
    level, noise = draw.normal(0, 0.5, (60, 1)), draw.normal(0, 0.4, (60, 24))
    odd = 4.0 * (draw.random((60, 24)) < 0.06) if tails is experts.HEAVY else 0.0
    table = warp.unwarp(2.0 + level + noise - odd, warp.ERROR)
    table[draw.permuted(np.tile(np.arange(24), (60, 1)), axis=1) >= 9] = np.nan
    assert experts.learn(table, *catalogue(24)).tails is tails


def test_every_bandwidth_has_the_mean_of_the_history():
    completed = ragged.complete(related(), *catalogue(8))
    made = experts.build(completed.rows, completed, [str(i) for i in range(40)], experts.DEFAULT)
    for width in experts.HEAVY.bandwidths:
        of = made.widths == width
        middle = made.centres[of].mean(axis=0)
        np.testing.assert_allclose(middle, completed.mean, atol=0.05)
    assert np.exp(made.weights).sum() == pytest.approx(1)


def test_gaps_are_filled_by_what_like_tasks_say():
    table = related(60, gaps=0.25, seed=3)
    completed = ragged.complete(table, *catalogue(8))
    truth = related(60, gaps=0.0, seed=3)
    gaps = np.isnan(table)
    wrong = np.abs(completed.rows - truth)[gaps].mean()
    assert wrong < 0.5 * np.abs(np.broadcast_to(np.nanmean(table, axis=0), truth.shape) - truth)[gaps].mean()
    np.testing.assert_array_equal(completed.rows[~gaps], table[~gaps])


def test_rows_completed_before_stay_as_they_are():
    past = ragged.complete(related(20, gaps=0.2), *catalogue(8))
    more = ragged.complete(related(3, gaps=0.5, seed=9), *catalogue(8), past)
    assert len(more.rows) == 23
    np.testing.assert_array_equal(more.rows[:20], past.rows)


def history_of(table):
    arms = [f"m{j}" for j in range(table.shape[1])]
    return arms, [TaskHistory(f"t{i}", dict(zip(arms, row, strict=True))) for i, row in enumerate(table)]


def test_open_tasks_that_the_history_misleads_about_speak_for_starting_afresh():
    arms, past = history_of(related())
    start = template.base(build("x", arms, past), [], (0.6, 0.2))
    zigzag = [0.1, 0.9] * 4
    misled = {f"open {i}": dict(zip(arms, zigzag, strict=True)) for i in range(4)}
    fits = {f"open {i}": dict(zip(arms, np.linspace(0.9, 0.5, 8), strict=True)) for i in range(4)}
    believed, doubted = (template.learn(start, rows) for rows in (fits, misled))
    assert np.exp(believed.weights[0]) > 0.9
    assert np.exp(doubted.weights[1]) > 0.9


def test_without_a_history_the_open_tasks_teach():
    start = template.base(None, ["a", "b", "c"], (0.6, 0.2))
    rows = {f"open {i}": {"a": 0.9, "b": 0.5, "c": 0.5} for i in range(6)}
    learned = template.learn(start, rows)
    (only,) = learned.families
    assert learned.past == 0
    assert only.mean[0] > only.mean[1] + 0.5


def test_arms_that_the_prior_does_not_know_stand_alone():
    arms, past = history_of(related())
    start = template.base(build("x", arms, past), ["new"], (0.6, 0.2))
    new = start.arms.index("new")
    learned = template.learn(start, {})
    across = np.delete(learned.families[-1].covariance[new], new)
    assert start.arms == tuple(sorted([*arms, "new"]))
    assert np.abs(across).max() < learned.families[-1].covariance[new, new]


@pytest.mark.parametrize(
    ("total", "reached"), [(0, 0), (4, 0), (5, 5), (7, 5), (8, 8), (11, 8), (12, 12), (27, 27)]
)
def test_what_is_learned_from_grows_by_half(total, reached):
    assert template.first_trials(total) == reached
