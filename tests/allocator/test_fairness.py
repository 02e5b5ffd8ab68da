from __future__ import annotations

from dataclasses import replace

import pytest

from easeml_core.allocator import choose_with_ladder, make_policy
from easeml_core.allocator.fairness import make_fair
from easeml_core.allocator.policy import JOINT, TENANT_RULES
from easeml_core.allocator.testing import PolicyContract, played, sample_request
from easeml_core.allocator.types import Decision, Policy
from easeml_core.errors import OperatorError

FLOOR = 2.0
NAMES = [*TENANT_RULES, *(name for name in JOINT if name != "default")]


def fresh(tasks=4, arms=8):
    request = sample_request(5, tasks=tasks, arms=arms, running=False)
    opened = (
        replace(t, completed=(), remaining_trials=None, remaining_seconds=None, since=0)
        for t in request.tasks
    )
    return replace(request, tasks=tuple(opened), step=0)


def longest_wait(policy):
    """Plays a request to its end; the most decisions that a task with work left had to wait."""
    request, longest, order = fresh(), 0, 0
    while isinstance(answer := policy.choose(request), Decision):
        request = played(request, answer, 0.9 if answer.choice.task.endswith("0") else 0.5, order)
        longest = max(longest, *(task.since for task in request.tasks if task.eligible()), 0)
        order += 1
    assert order == 32
    return longest


@pytest.mark.parametrize("name", NAMES)
def test_no_task_waits_much_longer_than_the_floor(name):
    # Four tasks with work left: the last of those that are overdue together waits for the three others.
    assert longest_wait(make_fair(name, FLOOR)) <= FLOOR * 4 + 4


def test_without_a_floor_first_come_first_served_starves():
    assert longest_wait(make_policy("fcfs")) > FLOOR * 4 + 4


def test_it_says_so_and_leaves_what_others_remember():
    request = fresh()
    waiting = replace(request.tasks[3], since=9)
    request = replace(request, tasks=(*request.tasks[:3], waiting), memory={"hybrid": {"phase": "greedy"}})
    decision = make_fair("hybrid", FLOOR).choose(request)
    assert decision.choice.task == waiting.task
    assert decision.reason.startswith(f"{waiting.task} has waited 9 decisions, more than 2 rounds, and goes")
    assert decision.memory == request.memory
    assert {scored.task for scored in decision.runners_up} == {waiting.task}


@pytest.mark.parametrize("name", NAMES)
def test_where_nobody_waits_nothing_changes(name):
    for seed in range(10):
        request = sample_request(seed)
        assert make_fair(name, 20.0).choose(request) == make_policy(name).choose(request)


def test_a_name_that_nobody_knows_is_refused_and_the_ladder_goes_on_fairly():
    with pytest.raises(OperatorError, match="no policy is called"):
        make_fair("best", FLOOR)
    decision = choose_with_ladder("best", sample_request(1), lambda name: make_fair(name, FLOOR))
    assert decision.policy == "round_robin"


class TestFair(PolicyContract):
    """A floor that no request reaches more than once in a while keeps the contract of what is inside."""

    def policy(self) -> Policy:
        return make_fair("hybrid", 9.0)
