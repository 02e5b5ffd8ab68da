from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from easeml_core.allocator import choose_with_ladder, make_policy
from easeml_core.allocator.testing import AlwaysFails, FailsEverySecondCall, sample_request
from easeml_core.allocator.types import Decision, Nothing, Prior
from easeml_core.errors import FallbackError


class Answers:
    """A policy whose answer is hybrid's, changed by `change`."""

    name = "answers"

    def __init__(self, change):
        self.change = change

    def choose(self, request):
        return self.change(make_policy("hybrid").choose(request))


def test_a_policy_that_works_is_not_second_guessed():
    request = sample_request(1)
    assert choose_with_ladder("hybrid", request) == make_policy("hybrid").choose(request)


def test_a_policy_that_always_fails_is_replaced_and_that_is_said(caplog):
    request = sample_request(1)
    decision = choose_with_ladder(AlwaysFails(), request)
    assert decision == replace(
        make_policy("round_robin").choose(request),
        fallbacks=("always_fails: FallbackError: told to fail",),
    )
    assert "always_fails failed" in caplog.text


def test_a_policy_that_fails_every_second_call_decides_every_other_time():
    policy, request = FailsEverySecondCall(make_policy("fcfs")), sample_request(1)
    decided_by = [choose_with_ladder(policy, request).policy for _ in range(4)]
    assert decided_by == ["fcfs", "round_robin"] * 2


def test_an_unknown_name_falls_back_too():
    decision = choose_with_ladder("hybird", sample_request(1))
    assert decision.policy == "round_robin"
    assert "no policy is called 'hybird'" in decision.fallbacks[0]


WRONG = {
    "an arm that is not there": lambda d: replace(d, choice=replace(d.choice, arm="model-99")),
    "a task that is not there": lambda d: replace(d, choice=replace(d.choice, task="x/y")),
    "a score of NaN": lambda d: replace(d, choice=replace(d.choice, score=math.nan)),
    "an infinite expectation": lambda d: replace(d, choice=replace(d.choice, expected_quality=math.inf)),
    "a runner-up of NaN": lambda d: replace(d, runners_up=(replace(d.choice, deviation=math.nan),)),
    "another cost": lambda d: replace(d, choice=replace(d.choice, predicted_cost=1e-3)),
    "memory that is not JSON": lambda d: replace(d, memory={"x": {1, 2}}),
    "memory with NaN": lambda d: replace(d, memory={"x": math.nan}),
    "nothing": lambda d: Nothing("I would rather not"),
    "None": lambda d: None,
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
def test_an_answer_that_does_not_hold_falls_back(change):
    decision = choose_with_ladder(Answers(change), sample_request(1))
    assert isinstance(decision, Decision)
    assert decision.policy == "round_robin"
    assert decision.fallbacks[0].startswith("answers: FallbackError")


def test_an_ended_or_running_arm_falls_back():
    request = sample_request(2, tasks=6)
    taken = [(t.task, trial.arm) for t in request.tasks for trial in (*t.completed, *t.active)]
    assert taken
    for task, arm in taken:
        wrong = Answers(
            lambda d, task=task, arm=arm: replace(d, choice=replace(d.choice, task=task, arm=arm))
        )
        assert choose_with_ladder(wrong, request).policy == "round_robin"


def test_an_impossible_prior_ends_with_the_cheapest_arm():
    request = sample_request(1, running=False)
    arms = next(iter(request.priors.values())).arms
    broken = Prior(arms, np.full(len(arms), 0.5), 0.5 - np.eye(len(arms)), 1e-4, "broken")
    decision = choose_with_ladder("hybrid", replace(request, priors={"vector-classification": broken}))
    assert decision.policy == "round_robin+cheapest"
    assert [line.split(":")[0] for line in decision.fallbacks] == ["hybrid", "round_robin"]
    task = next(task for task in request.tasks if task.task == decision.choice.task)
    assert decision.choice.predicted_cost == min(arm.predicted_cost for arm in task.eligible())


def test_it_keeps_what_the_failing_policy_remembers():
    request = replace(sample_request(1), memory={"always_fails": {"steps": 7}})
    assert choose_with_ladder(AlwaysFails(), request).memory == request.memory


def test_nothing_to_start_is_not_a_failure(caplog):
    request = replace(sample_request(1), tasks=())
    assert choose_with_ladder("hybrid", request) == Nothing("no task is open")
    assert not caplog.records


def test_where_even_the_last_rung_fails_every_cause_is_named(monkeypatch):
    monkeypatch.setattr("easeml_core.allocator.ladder.make_policy", lambda name: AlwaysFails())
    with pytest.raises(
        FallbackError, match=r"hybrid: .*round_robin: .*round_robin\+cheapest: .*told to fail"
    ):
        choose_with_ladder("hybrid", sample_request(1))
