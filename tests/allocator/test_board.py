from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from easeml_core.allocator import make_policy
from easeml_core.allocator.board import NEUTRAL_MEAN, Board
from easeml_core.allocator.types import (
    ActiveTrial,
    AllocationRequest,
    Arm,
    CompletedTrial,
    Ended,
    Nothing,
    OpenTask,
    Prior,
)

PRIOR = Prior(("a", "b", "c"), np.array([0.8, 0.7, 0.6]), np.diag([0.01, 0.01, 0.04]), 1e-4, "test")


def task(**kwargs):
    defaults = {"arms": (Arm("a", 1.0), Arm("b", 2.0), Arm("c", 4.0)), "tenant": "t", "template": "x"}
    return OpenTask(**{"task": "t/one", **defaults, **kwargs})


def request(*tasks, priors=None):
    return AllocationRequest("cpu0", tasks, {"x": PRIOR} if priors is None else priors, seed=0)


def view(open_task, **kwargs):
    return Board.of(request(open_task, **kwargs)).views[0]


@pytest.mark.parametrize("ended", [Ended.FAILED, Ended.DIVERGED, Ended.LOST])
def test_a_trial_that_did_not_succeed_is_a_poor_observation_and_a_play(ended):
    failed = view(task(completed=(CompletedTrial("a", ended, None, 1.0, 0),)))
    assert failed.observed == pytest.approx((0.6,))  # two deviations below its prior mean
    assert failed.plays == 1
    assert failed.posterior.mean[0] < 0.65
    assert failed.posterior.mean[1] == pytest.approx(0.7)


def test_a_failure_is_no_better_than_the_worst_success():
    trials = (
        CompletedTrial("b", Ended.SUCCEEDED, 0.3, 1.0, 0),
        CompletedTrial("a", Ended.FAILED, None, 1.0, 1),
    )
    # Two deviations below what was to be expected where the other arm fell short of its prior by 0.4.
    assert view(task(completed=trials)).observed == pytest.approx((0.3, 0.2))
    assert view(task(completed=trials)).incumbent == 0.3


def test_plays_are_in_order_of_their_end_and_running_ones_come_last():
    shown = view(
        task(
            completed=(
                CompletedTrial("c", Ended.SUCCEEDED, 0.5, 1.0, 7),
                CompletedTrial("b", Ended.SUCCEEDED, 0.6, 1.0, 3),
            ),
            active=(ActiveTrial("a", "cpu1", 1.0),),
        )
    )
    assert [shown.names[arm] for arm in shown.played] == ["b", "c", "a"]
    assert shown.values == (0.6, 0.5, None)
    assert shown.observed == pytest.approx((0.6, 0.5, 0.8))
    assert shown.incumbent == 0.6


def test_an_arm_that_its_prior_does_not_know_gets_the_average():
    new = view(task(arms=(Arm("a", 1.0), Arm("new", 1.0))))
    assert new.mean[1] == pytest.approx(0.7)
    assert new.covariance[1] == pytest.approx([0.0, 0.02])


def test_a_template_without_a_prior_gets_a_neutral_belief():
    assert view(task(), priors={}).mean == pytest.approx([NEUTRAL_MEAN] * 3)
    assert make_policy("hybrid").choose(request(task(), priors={})).choice.arm == "a"


def test_a_played_arm_that_is_no_longer_offered_still_teaches():
    withdrawn = task(
        arms=(Arm("b", 2.0), Arm("c", 4.0)), completed=(CompletedTrial("a", Ended.SUCCEEDED, 0.9, 1.0, 0),)
    )
    shown = view(withdrawn)
    assert shown.incumbent == 0.9
    assert list(shown.open) == [False, True, True]
    decision = make_policy("hybrid").choose(request(withdrawn))
    assert decision.choice.arm in ("b", "c")


def test_tasks_of_different_templates_have_their_own_beliefs():
    other = Prior(("z",), np.array([0.2]), np.array([[0.01]]), 1e-4, "other")
    board = Board.of(
        request(
            task(), task(task="t/two", template="y", arms=(Arm("z", 9.0),)), priors={"x": PRIOR, "y": other}
        )
    )
    assert [shown.mean[0] for shown in board.views] == pytest.approx([0.8, 0.2])
    assert (board.highest_cost, board.most_arms) == (9.0, 3)


DONE = tuple(CompletedTrial(arm, Ended.SUCCEEDED, 0.5, 1.0, n) for n, arm in enumerate("abc"))
NOTHING = {
    "no task": ((), "no task is open"),
    "no arms": ((task(arms=()),), "no candidates"),
    "all tried": ((task(completed=DONE),), "every candidate tried"),
    "last one runs": (
        (task(completed=DONE[:2], active=(ActiveTrial("c", "cpu1", 1.0),)),),
        "every other candidate tried, the last ones running",
    ),
    "no trials left": ((task(remaining_trials=0),), "budget of trials"),
    "no seconds left": (
        (task(remaining_seconds=0.5),),
        "cheapest candidate left needs 1 s, the budget has 0 s",
    ),
    "deadline": ((task(deadline_in=-3.0),), "the deadline is in -3 s"),
    "several": (
        (task(remaining_trials=0), task(task="t/2", completed=DONE), task(task="t/3", completed=DONE)),
        r"among 3 open task\(s\): 1 × budget.*; 2 × every candidate tried",
    ),
}


@pytest.mark.parametrize(("tasks", "reason"), NOTHING.values(), ids=NOTHING)
@pytest.mark.parametrize("policy", ["hybrid", "round_robin+cheapest"])
def test_nothing_says_why(policy, tasks, reason):
    answer = make_policy(policy).choose(request(*tasks))
    assert isinstance(answer, Nothing)
    assert re.search(reason, answer.reason)


def test_budget_and_deadline_leave_the_cheap_arms():
    limited = task(remaining_seconds=3.0, deadline_in=1.5)
    assert make_policy("hybrid").choose(request(limited)).choice.arm == "a"
    spent = replace(limited, completed=DONE[:1])
    assert isinstance(make_policy("hybrid").choose(request(spent)), Nothing)


def test_a_request_refuses_two_tasks_of_one_name():
    with pytest.raises(ValueError, match="twice"):
        request(task(), task())


WRONG = {
    "cost of zero": lambda: Arm("a", 0.0),
    "cost of NaN": lambda: Arm("a", float("nan")),
    "quality without success": lambda: CompletedTrial("a", Ended.FAILED, 0.5, 1.0, 0),
    "success without quality": lambda: CompletedTrial("a", Ended.SUCCEEDED, None, 1.0, 0),
    "quality of NaN": lambda: CompletedTrial("a", Ended.SUCCEEDED, float("nan"), 1.0, 0),
    "quality above 1": lambda: CompletedTrial("a", Ended.SUCCEEDED, 1.01, 1.0, 0),
    "infinite cost": lambda: CompletedTrial("a", Ended.SUCCEEDED, 0.5, float("inf"), 0),
    "arm twice": lambda: task(arms=(Arm("a", 1.0), Arm("a", 2.0))),
    "weight of zero": lambda: task(weight=0.0),
    "prior of another shape": lambda: replace(PRIOR, mean=np.zeros(2)),
    "prior with NaN": lambda: replace(PRIOR, mean=np.array([np.nan, 0, 0])),
    "prior with an arm twice": lambda: replace(PRIOR, arms=("a", "a", "b")),
    "noise below zero": lambda: replace(PRIOR, noise=-1.0),
}


@pytest.mark.parametrize("make", WRONG.values(), ids=WRONG)
def test_what_makes_no_sense_is_refused(make):
    with pytest.raises(ValueError):
        make()


def test_a_failure_speaks_of_its_own_arm_not_of_the_task():
    """Arms that move together: that one fails on a task says little of the others, which did well there."""
    alike = Prior(("a", "b", "c"), np.full(3, 0.6), np.full((3, 3), 0.04) + 0.001 * np.eye(3), 1e-4, "test")
    trials = (
        CompletedTrial("a", Ended.SUCCEEDED, 0.9, 1.0, 0),
        CompletedTrial("b", Ended.FAILED, None, 1.0, 1),
    )
    failed = view(task(completed=trials), priors={"x": alike})
    assert 0.7 < failed.observed[1] < 0.9
    assert failed.posterior.mean[1] < failed.posterior.mean[2] < 0.9
    assert failed.posterior.mean[2] > 0.75


@pytest.mark.parametrize("policy", ["round_robin", "round_robin+gp_ei", "hybrid", "mm_gp_ei"])
def test_a_belief_that_had_to_be_mended_says_so(policy):
    """A correlation of 1.00003: the ladder of jitters ends above 1e-6, and the decision tells."""
    beyond = 0.04 * np.array([[1, 1.00003, 0], [1.00003, 1, 0], [0, 0, 1]])
    done = tuple(CompletedTrial(arm, Ended.SUCCEEDED, 0.7, 1.0, n) for n, arm in enumerate("ab"))
    mended, sound = (
        make_policy(policy).choose(request(task(completed=done), priors={"x": replace(PRIOR, **prior)}))
        for prior in ({"covariance": beyond, "noise": 0.0}, {})
    )
    assert 1e-6 < mended.basis["jitter"] <= 1e-4
    assert "jitter" not in sound.basis
    last = make_policy("round_robin+cheapest").choose(
        request(task(), priors={"x": replace(PRIOR, covariance=beyond)})
    )
    assert "jitter" not in last.basis  # it computes nothing that could fail
