"""Contract suite for policies, and policies that fail: shipped, so that who writes a policy can run them.

Subclass `PolicyContract` in a test module, name it `Test…`, and give `policy`; pytest does the rest. The
suite needs nothing but plain asserts.
"""

from __future__ import annotations

import copy
import json
import math
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from easeml_core.allocator import priors
from easeml_core.allocator.ladder import check
from easeml_core.allocator.policy import JOINT, MODEL_RULES, TENANT_RULES, make_policy
from easeml_core.allocator.types import (
    ActiveTrial,
    AllocationRequest,
    Arm,
    CompletedTrial,
    Decision,
    Ended,
    Nothing,
    OpenTask,
    Policy,
    Prior,
)
from easeml_core.errors import FallbackError


class AlwaysFails:
    """A policy that never decides."""

    name = "always_fails"

    def choose(self, request: AllocationRequest) -> Decision | Nothing:
        """Raise."""
        raise FallbackError("told to fail")


class FailsEverySecondCall:
    """A policy that asks `inner` on the first, third … call and raises on the others. Not pure: a double."""

    name = "fails_every_second_call"

    def __init__(self, inner: Policy) -> None:
        self.inner = inner
        self.calls = 0

    def choose(self, request: AllocationRequest) -> Decision | Nothing:
        """Answer, or raise what no policy is meant to raise."""
        self.calls += 1
        if self.calls % 2 == 0:
            raise ZeroDivisionError(f"told to fail on call {self.calls}")
        return self.inner.choose(request)


def sample_history(arms: Sequence[str], past: int, seed: int = 0) -> list[priors.TaskHistory]:
    """`past` tasks that differ in how hard they are and tried most of `arms`; the same for the same seed."""
    draw = np.random.default_rng(seed)
    return [
        priors.TaskHistory(
            f"past-{task}",
            {arm: float((level + 0.1 * draw.normal()).clip(0, 1)) for arm in arms if draw.random() < 0.8},
        )
        for task, level in enumerate(draw.uniform(0.3, 0.8, past))
    ]


@cache
def learned_prior(arms: tuple[str, ...], past: int, seed: int = 0) -> Prior:
    """What `priors.build` makes of `sample_history`; kept, as a suite asks for the same again and again."""
    return priors.build("sample", arms, sample_history(arms, past, seed))


def sample_prior(arms: Sequence[str], seed: int = 0) -> Prior:
    """A prior with correlated arms and without a history; the same seed gives the same."""
    draw = np.random.default_rng(seed)
    factors = draw.normal(size=(len(arms), 2)) * 0.05
    covariance = factors @ factors.T + 0.01 + 0.002 * np.eye(len(arms))
    return Prior(tuple(arms), draw.uniform(0.5, 0.8, len(arms)), covariance, 1e-4, "sample")


def sample_request(
    seed: int, *, tasks: int = 4, arms: int = 5, running: bool = True, past: int = 0
) -> AllocationRequest:
    """A request as a service may send it: some arms ended, failed or running, weights, budgets, champions of
    earlier data; with `past` tasks as the history of its prior."""
    draw = random.Random(seed)
    names = [f"model-{index}" for index in range(arms)]
    open_tasks = []
    for index in range(tasks):
        order = draw.sample(names, arms)
        ended, left = order[: draw.randint(0, arms - 1)], order
        completed = tuple(
            CompletedTrial(name, Ended.SUCCEEDED, draw.uniform(0.4, 1), draw.uniform(1, 9), index + tasks * n)
            if draw.random() < 0.8
            else CompletedTrial(name, draw.choice(list(Ended)[1:]), None, 2.0, index + tasks * n)
            for n, name in enumerate(ended)
        )
        left = [name for name in order if name not in ended]
        busy = left[: 1 if running and draw.random() < 0.4 else 0]
        open_tasks.append(
            OpenTask(
                task=f"tenant-{index % 2}/task-{index}",
                tenant=f"tenant-{index % 2}",
                template="vector-classification",
                arms=tuple(Arm(name, draw.uniform(0.5, 60)) for name in names),
                completed=completed,
                active=tuple(ActiveTrial(name, "cpu1", 5.0) for name in busy),
                weight=draw.choice([1.0, 1.0, 2.5]),
                remaining_trials=draw.choice([None, None, 1, 9]),
                remaining_seconds=draw.choice([None, None, 30.0]),
                since=draw.randint(0, 9),
                opened=index,
                champion=draw.choice([0.0, 0.0, 0.7]),
            )
        )
    return AllocationRequest(
        device="cpu0",
        tasks=tuple(open_tasks),
        priors={
            "vector-classification": learned_prior(tuple(names), past, seed)
            if past
            else sample_prior(names, seed)
        },
        seed=seed,
        step=draw.randint(0, 50),
    )


def rescaled(request: AllocationRequest, factor: float) -> AllocationRequest:
    """The same request with all seconds in another unit."""

    def limit(value: float | None) -> float | None:
        return None if value is None else value * factor

    tasks = tuple(
        replace(
            task,
            arms=tuple(Arm(arm.name, arm.predicted_cost * factor) for arm in task.arms),
            completed=tuple(replace(trial, cost=trial.cost * factor) for trial in task.completed),
            remaining_seconds=limit(task.remaining_seconds),
            deadline_in=limit(task.deadline_in),
        )
        for task in request.tasks
    )
    return replace(request, tasks=tasks)


def shuffled(request: AllocationRequest, seed: int) -> AllocationRequest:
    """The same request with tasks, arms and trials listed in another order."""
    draw = random.Random(seed)
    tasks = tuple(
        replace(
            task,
            arms=tuple(draw.sample(task.arms, len(task.arms))),
            completed=tuple(draw.sample(task.completed, len(task.completed))),
            active=tuple(draw.sample(task.active, len(task.active))),
        )
        for task in draw.sample(request.tasks, len(request.tasks))
    )
    priors = {}
    for template, prior in request.priors.items():
        order = draw.sample(range(len(prior.arms)), len(prior.arms))
        priors[template] = Prior(
            tuple(prior.arms[index] for index in order),
            prior.mean[order],
            prior.covariance[np.ix_(order, order)],
            prior.noise,
            prior.source,
            None if prior.history is None else prior.history[:, order],
            None
            if prior.catalogue is None
            else (prior.catalogue[0][order], prior.catalogue[1][np.ix_(order, order)]),
            prior.tasks,
        )
    return replace(request, tasks=tasks, priors=priors)


class PolicyContract:
    """What every policy must keep. `requests` may be overridden to add cases."""

    def policy(self) -> Policy:
        """The policy under test."""
        raise NotImplementedError

    def requests(self) -> list[AllocationRequest]:
        """The requests that every test goes through."""
        return [
            sample_request(seed, tasks=1 + seed % 6, arms=1 + seed % 7, past=8 * (seed % 4 == 3))
            for seed in range(40)
        ]

    def test_only_starts_what_may_be_started(self) -> None:
        """Never an arm that ended, runs, or does not fit; "nothing" only where nothing can be started."""
        for request in self.requests():
            check(self.policy().choose(request), request)

    def test_uses_up_every_task_and_stops(self) -> None:
        """Played to the end, each arm is run once, and the end is `Nothing` with a reason."""
        request = replace(sample_request(5, running=False), memory={})
        request = replace(
            request,
            tasks=tuple(
                replace(task, completed=(), remaining_trials=None, remaining_seconds=None)
                for task in request.tasks
            ),
        )
        expected = {(task.task, arm.name) for task in request.tasks for arm in task.arms}
        started: list[tuple[str, str]] = []
        for step in range(len(expected)):
            answer = self.policy().choose(replace(request, step=step))
            assert isinstance(answer, Decision), answer
            started.append((answer.choice.task, answer.choice.arm))
            request = played(replace(request, memory=answer.memory), answer, 0.5, order=step)
        assert sorted(started) == sorted(expected)
        end = self.policy().choose(request)
        assert isinstance(end, Nothing)
        assert "tried" in end.reason

    def test_is_pure(self) -> None:
        """The same request, asked twice, even of another instance: the same answer; nothing changed."""
        for request in self.requests():
            before = copy.deepcopy(request.memory)
            policy = self.policy()
            assert policy.choose(request) == policy.choose(request) == self.policy().choose(request)
            assert request.memory == before

    def test_what_was_asked_before_does_not_matter(self) -> None:
        """A policy that lives on may keep what it computed, but answers as a fresh one."""
        for request in self.requests()[::3]:
            kept = self.policy()
            kept.choose(request)
            first, *others = request.tasks
            nearer = replace(first, remaining_seconds=25.0, deadline_in=40.0, since=first.since + 1)
            changed = replace(request, tasks=(nearer, *others))
            assert kept.choose(changed) == self.policy().choose(changed)
            assert kept.choose(request) == self.policy().choose(request)

    def test_order_of_listing_does_not_matter(self) -> None:
        """Permuting tasks, arms, trials or the prior's arms gives the same choice."""
        for seed, request in enumerate(self.requests()):
            first, second = self.policy().choose(request), self.policy().choose(shuffled(request, seed))
            assert _choice(first) == _choice(second)

    def test_unit_of_cost_does_not_matter(self) -> None:
        """Seconds, hours or euros: the same choice."""
        for request in self.requests():
            expected = _choice(self.policy().choose(request))
            # Powers of two, so that nothing is rounded and a tie stays a tie.
            for factor in (2.0**-10, 2.0**12):
                assert _choice(self.policy().choose(rescaled(request, factor))) == expected

    def test_weight_never_sets_a_task_back(self) -> None:
        """The task that is served is served all the more with a larger weight."""
        for request in self.requests()[::3]:
            answer = self.policy().choose(request)
            if isinstance(answer, Decision):
                served = answer.choice.task
                heavier = (
                    replace(task, weight=3 * task.weight) if task.task == served else task
                    for task in request.tasks
                )
                again = self.policy().choose(replace(request, tasks=tuple(heavier)))
                assert isinstance(again, Decision)
                assert again.choice.task == served

    def test_explains_itself(self) -> None:
        """A reason that names task and arm, at most five runners-up, each startable, none the choice."""
        for request in self.requests():
            answer = self.policy().choose(request)
            if isinstance(answer, Nothing):
                assert answer.reason
                continue
            assert answer.choice.task in answer.reason
            assert answer.choice.arm in answer.reason
            eligible = {(task.task, arm.name) for task in request.tasks for arm in task.eligible()}
            others = [(scored.task, scored.arm) for scored in answer.runners_up]
            assert len(others) == len(set(others)) == min(5, len(eligible) - 1)
            assert set(others) <= eligible - {(answer.choice.task, answer.choice.arm)}

    def test_says_what_it_believed(self) -> None:
        """The intervals of 50 and 90 %, one inside the other and within [0, 1], and a basis that is JSON."""
        for request in self.requests():
            answer = self.policy().choose(request)
            if isinstance(answer, Decision):
                (low, high), (lowest, highest) = answer.intervals["50"], answer.intervals["90"]
                assert 0 <= lowest <= low <= high <= highest <= 1
                assert answer.basis["learned_from"]
                assert json.loads(json.dumps(answer.basis, allow_nan=False)) == answer.basis

    def test_hands_memory_on(self) -> None:
        """What other policies remember survives, and memory is JSON."""
        for request in self.requests():
            kept = {"someone_else": {"phase": 3}}
            answer = self.policy().choose(replace(request, memory=kept))
            if isinstance(answer, Decision):
                assert answer.memory["someone_else"] == {"phase": 3}
                assert json.loads(json.dumps(answer.memory)) == answer.memory

    def test_survives_unreadable_memory(self) -> None:
        """Memory of another version, or damaged, is no reason to fail."""
        for broken in ({"hybrid": 7}, {"hybrid": {"phase": None}}, {self.policy().name: ["x"]}):
            request = replace(sample_request(3), memory=broken)
            check(self.policy().choose(request), request)

    def test_numbers_are_finite(self) -> None:
        """Also for the runners-up."""
        for request in self.requests():
            answer = self.policy().choose(request)
            for scored in (answer.choice, *answer.runners_up) if isinstance(answer, Decision) else ():
                assert math.isfinite(scored.score)
                assert math.isfinite(scored.expected_quality)
                assert 0 <= scored.deviation < 1


def played(request: AllocationRequest, decision: Decision, quality: float, order: int) -> AllocationRequest:
    """The request after the chosen trial succeeded with `quality`; `since` and `memory` move on too."""
    choice = decision.choice
    trial = CompletedTrial(choice.arm, Ended.SUCCEEDED, quality, choice.predicted_cost, order)
    tasks = tuple(
        replace(task, completed=(*task.completed, trial), since=0)
        if task.task == choice.task
        else replace(task, since=task.since + 1)
        for task in request.tasks
    )
    return replace(request, tasks=tasks, step=request.step + 1, memory=decision.memory)


def _choice(answer: Decision | Nothing) -> tuple[str, str] | None:
    return (answer.choice.task, answer.choice.arm) if isinstance(answer, Decision) else None


def all_policies() -> list[str]:
    """Every registered combination, for parametrised tests."""
    names = [f"{tenant}+{model}" for tenant in TENANT_RULES for model in MODEL_RULES]
    return [make_policy(name).name for name in names] + [name for name in JOINT if name != "default"]
