from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from easeml_core.allocator import belief, choose_with_ladder, make_policy
from easeml_core.allocator.default import Easeml
from easeml_core.allocator.outlook import chance_of_success
from easeml_core.allocator.priors import TaskHistory, build
from easeml_core.allocator.testing import played, sample_request
from easeml_core.allocator.types import ActiveTrial, AllocationRequest, Arm, CompletedTrial, Ended, OpenTask

ARMS = ("cheap", "fair", "good")
PAST = tuple(
    TaskHistory(f"past-{i}", {"cheap": 0.5 + 0.02 * i, "fair": 0.6 + 0.02 * i, "good": 0.8 + 0.01 * i})
    for i in range(8)
)


def task(name="a/1", costs=(1.0, 2.0, 3.0), **kwargs):
    arms = tuple(Arm(arm, cost) for arm, cost in zip(ARMS, costs, strict=True))
    return OpenTask(task=name, tenant="a", template="x", arms=arms, **kwargs)


def request_of(*tasks, history=PAST):
    return AllocationRequest("cpu0", tasks, {"x": build("x", ARMS, history)}, seed=0)


def done(arm, quality, order=0):
    return CompletedTrial(arm, Ended.SUCCEEDED, quality, 1.0, order)


def test_default_is_its_other_name():
    assert make_policy("default").name == make_policy("easeml").name == "easeml"


def test_gain_per_second_decides():
    equal = Easeml().choose(request_of(task(costs=(1.0, 1.0, 1.0))))
    assert equal.choice.arm == "good"
    dear = Easeml().choose(request_of(task(costs=(1.0, 1.0, 50.0))))
    assert dear.choice.arm == "fair"


def test_the_tenant_with_most_to_gain_goes_first():
    served = task("a/1", completed=(done("good", 0.85),))
    waiting = task("a/2", opened=1)
    assert Easeml().choose(request_of(served, waiting)).choice.task == "a/2"


def test_where_nothing_can_improve_the_cheapest_goes_first_and_the_reason_says_so():
    perfect = task("a/1", costs=(3.0, 1.0, 2.0), completed=(done("good", 1.0),))
    decision = Easeml().choose(request_of(perfect))
    assert decision.choice.arm == "fair"
    assert "nothing is expected to improve on its best so far of 1.000" in decision.reason


@pytest.mark.parametrize(
    ("arms", "tasks", "said"),
    [
        (3, 1, "; nothing promises more per second among its 2 other candidates left."),
        (
            2,
            2,
            "; nothing promises more per second among its 1 other candidate left and those of 1 other task",
        ),
        (1, 3, "; nothing promises more per second among those of 2 other tasks with work left."),
        (1, 1, "; it is all that is left."),
    ],
)
def test_the_reason_counts_what_promises_less(arms, tasks, said):
    tried = tuple(done(arm, 0.3, order) for order, arm in enumerate(ARMS[: 3 - arms]))
    others = [task(f"b/{number}", costs=(90.0, 90.0, 90.0), opened=1) for number in range(tasks - 1)]
    assert said in Easeml().choose(request_of(task(completed=tried), *others)).reason


def test_weight_counts():
    light, heavy = task("a/1"), task("a/2", weight=3.0, opened=1)
    assert Easeml().choose(request_of(light, heavy)).choice.task == "a/2"


def test_what_runs_elsewhere_counts_as_what_it_will_bring():
    busy = task("a/1", active=(ActiveTrial("good", "cpu1", 3.0),))
    waiting = task("a/2", opened=1)
    decision = Easeml().choose(request_of(busy, waiting))
    assert decision.choice.task == "a/2"
    alone = Easeml().choose(request_of(busy))
    assert alone.choice.arm != "good"
    assert "other devices" in alone.reason


def test_a_decision_tells_what_its_belief_needed_to_be_computed(monkeypatch):
    request = request_of(task(completed=(done("good", 0.85),)))
    assert "jitter" not in Easeml().choose(request).basis

    def fails_at_first(matrix, variance):
        return np.linalg.cholesky(matrix + 1e-5 * variance * np.eye(len(matrix))), 1e-5

    monkeypatch.setattr(belief, "_factor", fails_at_first)
    assert Easeml().choose(request).basis["jitter"] == 1e-5


def failures(number):
    return tuple(CompletedTrial(arm, Ended.FAILED, None, 1.0, n) for n, arm in enumerate(ARMS[:number]))


def test_a_task_that_only_fails_promises_less_with_every_failure():
    """One where a step from 0.7 to what `good` reaches is likely goes before it after two failures."""
    sound = task("a/2", completed=(done("fair", 0.7),), costs=(9.0, 3.0, 3.0), opened=1)
    after = [
        Easeml().choose(request_of(task("a/1", completed=failures(number), costs=(3.0, 3.0, 3.0)), sound))
        for number in range(3)
    ]
    assert [decision.choice.task for decision in after] == ["a/1", "a/1", "a/2"]
    assert "after 1 failure and no success, a chance of 0.5 that it does not fail, too" in after[1].reason
    alone = Easeml().choose(request_of(task("a/1", completed=failures(2))))
    assert "after 2 failures and no success, a chance of 0.048" in alone.reason


def test_one_success_tells_that_a_task_is_sound():
    assert chance_of_success(()) == 1.0
    assert [chance_of_success(failures(number)) for number in (1, 2, 3)] == [1 / 2, 1 / 21, 1 / 401]
    assert chance_of_success((*failures(2), done("good", 0.4, 2))) == 1.0


def test_a_champion_of_earlier_data_is_what_there_is_to_beat():
    served, new = task("a/1", champion=0.9), task("a/2", opened=1)
    policy = Easeml()
    assert policy.choose(request_of(task("a/1"), new)).choice.task == "a/1"
    assert policy.choose(request_of(served, new)).choice.task == "a/2"
    alone = policy.choose(request_of(served))
    assert "over the 0.900 that its champion, trained on earlier data, reaches now" in alone.reason
    assert alone.choice.score == Easeml().choose(request_of(served)).choice.score
    better = replace(served, completed=(done("good", 0.95),))
    assert "its best so far of 0.950" in policy.choose(request_of(better)).reason


def test_no_task_waits_longer_than_the_floor():
    poor = task("a/1", completed=(done("good", 0.95), done("fair", 0.9, 1)), since=41)
    rich = task("a/2", opened=1)
    assert Easeml(floor=20).choose(request_of(poor, rich)).choice.task == "a/1"
    assert "waited 41 decisions" in Easeml(floor=20).choose(request_of(poor, rich)).reason
    assert Easeml(floor=21).choose(request_of(poor, rich)).choice.task == "a/2"


def test_budgets_and_deadlines_are_kept():
    assert (
        Easeml().choose(request_of(task(costs=(1.0, 2.0, 3.0), remaining_seconds=1.5))).choice.arm == "cheap"
    )
    assert Easeml().choose(request_of(task(deadline_in=2.5))).choice.arm != "good"
    nothing = Easeml().choose(request_of(task(remaining_trials=0)))
    assert "budget" in nothing.reason


@pytest.mark.parametrize("history", [(), PAST[:1], PAST[:2], PAST[:5], PAST])
@pytest.mark.parametrize("known", [ARMS, ARMS[:1]])
def test_any_history_will_do(history, known):
    past = [TaskHistory(h.task, {arm: h.qualities[arm] for arm in known}) for h in history]
    open_task = task(completed=(done("cheap", 0.55),))
    decision = choose_with_ladder("easeml", request_of(open_task, history=past))
    assert not decision.fallbacks
    assert decision.choice.arm in {"fair", "good"}


def test_what_open_tasks_show_is_learned():
    """Without any history, five tasks on which `good` was best make it the first choice of a sixth."""
    shown = [
        task(
            f"a/{i}",
            completed=(
                done("cheap", 0.3, 3 * i),
                done("fair", 0.35, 3 * i + 1),
                done("good", 0.9, 3 * i + 2),
            ),
        )
        for i in range(5)
    ]
    new = task("a/9", costs=(1.0, 1.0, 1.0), opened=9)
    assert Easeml().choose(request_of(*shown, new, history=())).choice.arm == "good"


def test_what_was_kept_changes_no_decision():
    """A policy that saw every request before answers as one that sees only the last."""
    kept = Easeml()
    request = replace(sample_request(11, tasks=5, arms=8), memory={})
    draw = np.random.default_rng(0)
    for order in range(1000, 1030):
        answer = kept.choose(request)
        assert answer == Easeml().choose(request)
        if not hasattr(answer, "choice"):
            break
        request = played(request, answer, float(draw.uniform(0.4, 1)), order)


def test_a_changed_past_is_noticed():
    """The same names with other results: nothing that was kept may be used."""
    kept = Easeml()
    first = request_of(*(task(f"a/{i}", completed=(done("cheap", 0.5, i),), opened=i) for i in range(6)))
    kept.choose(first)
    other = tuple(replace(t, completed=(done("cheap", 0.9, i),)) for i, t in enumerate(first.tasks))
    changed = replace(first, tasks=other)
    assert kept.choose(changed) == Easeml().choose(changed)


def test_the_reason_says_what_is_expected_and_of_what():
    decision = Easeml().choose(request_of(task(completed=(done("cheap", 0.55),)), task("a/2", opened=1)))
    assert "is expected to reach" in decision.reason
    assert "90 % between" in decision.reason
    assert "8 past tasks" in decision.reason
