"""Requests at the edge of what there can be: every policy decides by itself, with finite numbers."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from easeml_core.allocator import choose_with_ladder, priors
from easeml_core.allocator.policy import JOINT, MODEL_RULES, TENANT_RULES
from easeml_core.allocator.types import (
    ActiveTrial,
    AllocationRequest,
    Arm,
    CompletedTrial,
    Decision,
    Ended,
    OpenTask,
    Prior,
)

ARMS = ("a", "b", "c", "d")
COVARIANCE = 0.01 * np.eye(4) + 0.01
NAMES = [
    *(f"hybrid+{rule}" for rule in MODEL_RULES),
    *(f"{rule}+gp_ucb" for rule in TENANT_RULES),
    *(name for name in JOINT if name != "default"),
]


def prior(**kwargs):
    usual = {"mean": np.full(4, 0.7), "covariance": COVARIANCE, "noise": 1e-4}
    return Prior(ARMS, **usual | kwargs, source="test")


def task(number, *results, costs=(1.0, 2.0, 3.0, 4.0), **kwargs):
    """A task whose arms a, b, c … came to `results`; None for one that failed."""
    completed = tuple(
        CompletedTrial(
            arm, Ended.FAILED if quality is None else Ended.SUCCEEDED, quality, 1.0, 10 * number + n
        )
        for n, (arm, quality) in enumerate(results)
    )
    arms = tuple(Arm(name, cost) for name, cost in zip(ARMS, costs, strict=False))
    return OpenTask(f"t/{number}", "t", "x", arms, completed, opened=number, **kwargs)


def history(*rows):
    return priors.build(
        "x",
        ARMS,
        [priors.TaskHistory(f"past-{i}", dict(zip(ARMS, row, strict=False))) for i, row in enumerate(rows)],
    )


SEEN = [("a", 0.6), ("b", 0.8)]
CASES = {
    "one task, one arm, nothing seen": ([task(0, costs=(1.0,))], prior()),
    "nothing seen": ([task(0), task(1)], prior()),
    "one observation each": ([task(0, ("a", 0.6)), task(1, ("b", 0.6))], prior()),
    "two observations, then none": ([task(0, *SEEN), task(1)], prior()),
    "all equal": ([task(0, ("a", 0.5), ("b", 0.5), ("c", 0.5)), task(1, ("a", 0.5))], prior()),
    "all perfect": ([task(0, ("a", 1.0), ("b", 1.0)), task(1, ("a", 1.0))], prior()),
    "all zero": ([task(0, ("a", 0.0), ("b", 0.0)), task(1, ("a", 0.0))], prior()),
    "all failed": ([task(0, ("a", None), ("b", None)), task(1, ("a", None))], prior()),
    "an arm twice, in conflict": ([task(0, ("a", 0.1), ("a", 0.9)), task(1)], prior()),
    "an arm that failed and then succeeded": ([task(0, ("a", None), ("a", 0.9)), task(1)], prior()),
    "tasks and arms that are the same": (
        [task(i, costs=(1.0, 1.0, 1.0, 1.0)) for i in range(3)],
        prior(covariance=np.full((4, 4), 0.01)),
    ),
    "no prior variance": ([task(0, *SEEN), task(1)], prior(covariance=np.zeros((4, 4)), noise=0.0)),
    "hardly any prior variance": ([task(0, *SEEN)], prior(covariance=1e-18 * np.eye(4), noise=0.0)),
    "a huge prior variance": ([task(0, *SEEN), task(1)], prior(covariance=1e4 * np.eye(4))),
    "a prior beyond what a quality is": ([task(0, *SEEN), task(1)], prior(mean=np.array([-3, 2, 1.5, 0.5]))),
    "a prior of other arms": ([task(0, *SEEN)], replace(prior(), arms=("w", "x", "y", "z"))),
    "no prior": ([task(0, *SEEN), task(1)], None),
    "costs that differ by 21 orders": ([task(0, ("a", 0.5), costs=(1e-9, 1e12, 1.0, 1e-9))], prior()),
    "weights that differ by 12 orders": ([task(0, *SEEN, weight=1e-6), task(1, weight=1e6)], prior()),
    "a deadline that has passed, and one that has not": (
        [task(0, *SEEN, deadline_in=-1.0), task(1, deadline_in=1.5)],
        prior(),
    ),
    "all but one running": (
        [task(0, active=tuple(ActiveTrial(arm, f"cpu{arm}", 1.0) for arm in "abc"))],
        prior(),
    ),
    "one past task": ([task(0, *SEEN), task(1)], history([0.5, 0.6, 0.7, 0.8])),
    "past tasks that are the same": ([task(0, *SEEN), task(1)], history(*[[0.5, 0.6, 0.7, 0.8]] * 8)),
    "past tasks of one number": ([task(0, *SEEN), task(1)], history(*[[0.5] * 4] * 8)),
    "past tasks of 0 and 1": ([task(0, *SEEN), task(1)], history(*[[i % 2] * 4 for i in range(8)])),
    "past tasks that tried one arm": ([task(0, *SEEN), task(1)], history(*[[0.1 * i] for i in range(8)])),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("tasks", "belief"), CASES.values(), ids=CASES)
def test_every_policy_decides_for_itself(name, tasks, belief):
    request = AllocationRequest("cpu0", tuple(tasks), {} if belief is None else {"x": belief}, seed=0, step=3)
    answer = choose_with_ladder(name, request)
    assert isinstance(answer, Decision)
    assert not answer.fallbacks
    for scored in (answer.choice, *answer.runners_up):
        assert 0 <= scored.expected_quality <= 1
        assert 0 <= scored.deviation < math.inf
    assert all(0 <= low <= high <= 1 for low, high in answer.intervals.values())
    assert answer.reason
    again = choose_with_ladder(name, replace(request, tasks=request.tasks[::-1]))
    assert again.choice == answer.choice
