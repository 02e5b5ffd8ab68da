from __future__ import annotations

import pytest

from easeml_core.allocator.default import Easeml
from easeml_core.allocator.priors import TaskHistory, build
from easeml_core.allocator.types import AllocationRequest, Arm, CompletedTrial, Ended, OpenTask

ARMS = ("cheap", "fair", "good", "odd")
# Two kinds of past tasks: those where `odd` shines, and those where it is poor.
PAST = tuple(
    TaskHistory(
        f"lab/past-{i}",
        {"cheap": 0.5, "fair": 0.6 + 0.01 * i, "good": 0.8, "odd": 0.95 if i % 2 else 0.2 + 0.01 * i},
    )
    for i in range(12)
)


def basis(*trials, history=PAST):
    completed = tuple(CompletedTrial(arm, Ended.SUCCEEDED, q, 1.0, n) for n, (arm, q) in enumerate(trials))
    task = OpenTask("a/1", "a", "x", tuple(Arm(arm, 1.0) for arm in ARMS), completed)
    answer = Easeml().choose(AllocationRequest("cpu0", (task,), {"x": build("x", ARMS, history)}, seed=0))
    return answer.basis


def test_shares_sum_to_one():
    experts = basis(("cheap", 0.5))["experts"]
    assert sum(experts["families"].values()) == pytest.approx(1.0, abs=1e-3)
    assert experts["average"] + sum(c["weight"] for c in experts["closest"]) <= 1.001


def test_the_past_tasks_that_explain_the_trials_do_the_talking():
    closest = [c["task"] for c in basis(("odd", 0.95), ("cheap", 0.5))["experts"]["closest"]]
    assert closest
    assert all(int(name.removeprefix("lab/past-")) % 2 for name in closest)


def test_without_a_history_only_the_catalogue_speaks():
    found = basis(("cheap", 0.5), history=())
    assert found["experts"]["families"] == {"afresh": 1.0}
    assert "catalogue" in found["learned_from"]
