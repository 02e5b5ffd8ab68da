from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel

from easeml_core.allocator import choose_with_ladder, kernels, priors
from easeml_core.allocator.kernels import FEWEST, KERNELS, fill, fit, tuned
from easeml_core.allocator.priors import TaskHistory
from easeml_core.allocator.testing import shuffled
from easeml_core.allocator.types import AllocationRequest, Arm, CompletedTrial, Ended, OpenTask

ARMS = ("a", "b", "c", "d", "e")


def past(tasks, arms=ARMS, seed=0, known=1.1):
    """Tasks that differ in how hard they are, by arms two of which are alike; some cells unknown."""
    draw = np.random.default_rng(seed)
    own = draw.uniform(-0.15, 0.15, len(arms))
    own[1] = own[0] + 0.01
    rows = draw.uniform(0.4, 0.8, (tasks, 1)) + own + 0.03 * draw.normal(size=(tasks, len(arms)))
    return [
        TaskHistory(
            f"past-{i}", {a: float(q) for a, q in zip(arms, row, strict=True) if draw.random() < known}
        )
        for i, row in enumerate(rows.clip(0, 1))
    ]


def table_of(history, arms=ARMS):
    return np.array([[task.qualities[arm] for arm in arms] for task in history])


def likelihood(table, covariance, noise):
    """Log marginal likelihood of all rows of `table`, less their mean, by dense algebra."""
    apart, gram = table - table.mean(axis=0), covariance + noise * np.eye(len(covariance))
    _, log_det = np.linalg.slogdet(gram)
    each = [row @ np.linalg.solve(gram, row) + log_det + len(row) * np.log(2 * np.pi) for row in apart]
    return -0.5 * sum(each)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("name", "shape"), [("rbf", RBF()), ("matern", Matern(nu=2.5))])
def test_hyper_parameters_are_about_those_that_scikit_learn_finds(name, shape, seed):
    """Its optimiser, over the same kernel, does next to no better than our grid with its closed form."""
    table = table_of(past(12, seed=seed))
    covariance, noise = fit(table, name)
    theirs = GaussianProcessRegressor(
        ConstantKernel(0.02) * shape + WhiteKernel(1e-3, (1e-9, 1)), alpha=0, n_restarts_optimizer=3,
        random_state=0,
    ).fit(table.T, (table - table.mean(axis=0)).T)  # fmt: skip
    best = theirs.log_marginal_likelihood_value_
    assert likelihood(table, covariance, noise) == pytest.approx(best, abs=2.0)


@pytest.mark.parametrize(("name", "shape"), [("rbf", RBF), ("matern", lambda length: Matern(length, nu=2.5))])
def test_the_shapes_are_those_of_scikit_learn(name, shape):
    table = table_of(past(9, seed=1))
    covariance, _ = fit(table, name)
    distances = np.linalg.norm(table.T[:, None] - table.T[None], axis=2)
    middle = np.median(distances[distances > 0])
    off = [
        np.abs(covariance / covariance[0, 0] - shape(length * middle)(table.T)).max()
        for length in kernels.LENGTHS
    ]
    assert min(off) < 1e-9


def test_the_linear_kernel_is_a_product_of_quality_vectors():
    table = table_of(past(9, seed=1))
    covariance, _ = fit(table, "linear")
    product = table.T @ table / len(table)
    off = [
        np.abs(covariance / covariance[0, 0] - (product + c) / (product[0, 0] + c)).max()
        for c in kernels.LENGTHS
    ]
    assert min(off) < 1e-9


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("tasks", [0, 1, 2, FEWEST - 1])
def test_few_past_tasks_give_the_catalogues_prior(kernel, tasks):
    """One past task leaves no variance at all about the average of past tasks: nobody could learn from it."""
    history = past(tasks)
    prior, other = tuned("x", ARMS, history, kernel), priors.build("x", ARMS, history)
    np.testing.assert_array_equal(prior.covariance, other.covariance)
    assert (np.sqrt(np.diagonal(prior.covariance)) > 0.05).all()
    assert prior.source == other.source


def test_results_of_each_arm_count_not_tasks():
    """Twenty tasks that tried one of five arms each know four results of an arm; thirty know six."""
    for tasks, tuned_to_them in ((20, False), (30, True)):
        history = [
            TaskHistory(one.task, {ARMS[i % 5]: one.qualities[ARMS[i % 5]]})
            for i, one in enumerate(past(tasks))
        ]
        assert ("kernel" in tuned("x", ARMS, history).source) == tuned_to_them


DEGENERATE = {
    "all equal": np.full((8, 4), 0.7),
    "every task the same": np.tile([0.3, 0.5, 0.7, 0.9], (8, 1)),
    "every arm the same": np.tile(np.linspace(0.1, 0.9, 8)[:, None], (1, 4)),
    "two arms the same": np.array([[0.1 * i, 0.1 * i, 0.5, 0.9 - 0.1 * i] for i in range(8)]),
    "only 0 and 1": np.array([[i % 2, 1 - i % 2, i % 2, 1] for i in range(8)], dtype=float),
    "one arm": np.linspace(0.1, 0.9, 8)[:, None],
    "one cell a task": np.where(np.eye(8, 4) + np.eye(8, 4, -4) > 0, 0.6, np.nan),
    "an arm known once": np.array([[0.5, np.nan], *[[0.4 + 0.01 * i, 0.6] for i in range(7)]])[:, ::-1],
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("table", DEGENERATE.values(), ids=DEGENERATE)
def test_degenerate_histories_leave_something_to_learn(kernel, table):
    names = ARMS[: table.shape[1]]
    history = [
        TaskHistory(f"past-{i}", {a: q for a, q in zip(names, row, strict=True) if not np.isnan(q)})
        for i, row in enumerate(table)
    ]
    prior = tuned("x", names, history, kernel)
    assert np.isfinite(prior.covariance).all()
    assert np.linalg.eigvalsh(prior.covariance).min() > -1e-9
    assert ((prior.mean >= 0) & (prior.mean <= 1)).all()
    assert np.diagonal(prior.covariance).mean() >= 0.999 * priors.NOISE
    task = OpenTask("t/1", "t", "x", tuple(Arm(name, 1.0) for name in names),
                    (CompletedTrial(names[0], Ended.SUCCEEDED, 0.2, 1.0, 0),))  # fmt: skip
    for policy in ("hybrid", "mm_gp_ei", "easeml"):
        answer = choose_with_ladder(policy, AllocationRequest("cpu0", (task,), {"x": prior}, seed=0))
        assert not getattr(answer, "fallbacks", ())


@given(st.integers(0, 10**6), st.sampled_from(KERNELS), st.floats(0.3, 1), st.integers(FEWEST, 12))
@settings(max_examples=40, deadline=None)
def test_any_history_gives_a_proper_prior_in_whatever_order(seed, kernel, known, tasks):
    history = past(tasks, seed=seed, known=known)
    order = [ARMS[i] for i in np.random.default_rng(seed).permutation(len(ARMS))]
    prior, again = tuned("x", ARMS, history, kernel), tuned("x", order, history[::-1], kernel)
    assert np.linalg.eigvalsh(prior.covariance).min() > -1e-9
    at = [order.index(arm) for arm in ARMS]
    np.testing.assert_allclose(prior.mean, again.mean[at], atol=1e-12)
    np.testing.assert_allclose(prior.covariance, again.covariance[np.ix_(at, at)], atol=1e-9)


def test_gaps_are_filled_by_arm_and_task():
    table = np.array([[0.6, 0.8], [0.4, np.nan], [np.nan, np.nan]])
    np.testing.assert_allclose(fill(table), [[0.6, 0.8], [0.4, 0.7], [0.5, 0.8]])


def test_a_new_candidate_gets_the_average():
    prior = tuned("x", (*ARMS, "new"), past(8))
    assert prior.mean[-1] == pytest.approx(np.mean(table_of(past(8))), abs=0.02)
    assert prior.covariance[-1, -1] > 0


def test_a_prior_with_a_history_survives_being_listed_otherwise():
    prior = tuned("x", ARMS, past(8))
    task = OpenTask("t/1", "t", "x", tuple(Arm(name, 1.0 + i) for i, name in enumerate(ARMS)))
    request = AllocationRequest("cpu0", (task,), {"x": prior}, seed=0)
    for policy in ("hybrid", "mm_gp_ei", "easeml"):
        first, second = (choose_with_ladder(policy, r).choice for r in (request, shuffled(request, 3)))
        assert (first.task, first.arm) == (second.task, second.arm)
