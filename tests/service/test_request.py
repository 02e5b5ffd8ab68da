from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from easeml_core.allocator.cost import CostModel
from easeml_core.allocator.types import Ended
from easeml_core.ledger.models import Task, TaskState
from easeml_core.service import Service, decide, forecast, settle
from easeml_core.service.request import Situation, build_request
from easeml_core.workorder import Outcome


def situation(service: Service, device: str = "cpu0") -> Situation:
    with service.ledger.transaction() as session:
        return build_request(session, device, service.settings.seed)


def train(service: Service, make_result: Any, quality: float | None, **fields: Any) -> str:
    """One trial from decision to settlement; gives its candidate."""
    a = decide.decide(service, "cpu0", 0.0)
    assert a is not None
    [open_trial] = situation(service).request.tasks[0].active
    settle.settle(service, a.trial_id, 1, make_result(a.trial_id, 1, quality, **fields))
    return open_trial.arm


def test_a_request_separates_what_ended_from_what_runs(
    service: Service, add_task: Any, make_result: Any
) -> None:
    add_task(spec="priority: 3\nbudget: {trials: 9, device_hours: 1}\ndeadline: 2099-01-01T00:00:00Z\n")
    good = train(service, make_result, 0.7, cost_seconds=4.0)
    bad = train(service, make_result, None, outcome=Outcome.DIVERGED, reason="loss is NaN", cost_seconds=2.0)
    running = decide.decide(service, "cpu0", 0.0)
    assert running is not None
    [task] = situation(service).request.tasks
    assert [(trial.arm, trial.ended, trial.quality, trial.cost) for trial in task.completed] == [
        (good, Ended.SUCCEEDED, 0.7, 4.0),
        (bad, Ended.DIVERGED, None, 2.0),
    ]
    assert [trial.device for trial in task.active] == ["cpu0"]
    assert (task.task, task.tenant, task.weight) == ("clinic/tumours", "clinic", 3.0)
    assert task.remaining_trials == 6
    assert task.remaining_seconds == 0.0  # the running trial has reserved all that was left
    assert task.deadline_in is not None
    assert task.deadline_in > 1e9
    assert task.since == 0
    assert situation(service).request.step == 3


def test_waiting_counts_decisions_for_others(service: Service, add_task: Any, make_result: Any) -> None:
    add_task("a/one", candidates=["NIN", "AlexNet", "SmallCNN"])
    for _ in range(2):
        train(service, make_result, 0.5)
    add_task("b/two")
    assert [task.since for task in situation(service).request.tasks] == [0, 0]
    a = decide.decide(service, "cpu0", 0.0)
    assert a is not None
    assert sorted(task.since for task in situation(service).request.tasks) == [0, 1]


def test_waiting_starts_anew_whenever_a_task_is_served(
    service: Service, add_task: Any, make_result: Any
) -> None:
    waited = {}
    for step, name in enumerate(["a/one", "b/two", None, "c/three", None, None, None]):
        if name is not None:
            add_task(name, candidates=["NIN", "AlexNet", "SmallCNN", "GoogLeNet", "ResNet-18"])
            waited[name] = 0
        a = decide.decide(service, "cpu0", 0.0)
        assert a is not None
        [served] = [task.task for task in situation(service).request.tasks if task.active]
        settle.settle(service, a.trial_id, 1, make_result(a.trial_id, 1, 0.1 * step))
        waited = {task: 0 if task == served else decisions + 1 for task, decisions in waited.items()}
        assert {task.task: task.since for task in situation(service).request.tasks} == waited
    assert max(waited.values()) > 1


def test_earlier_data_is_prior_and_not_an_answer(service: Service, add_task: Any, make_result: Any) -> None:
    add_task(candidates=["NIN", "AlexNet", "SmallCNN"])
    before = situation(service).request.priors["image-classification"]
    tried = [train(service, make_result, quality) for quality in (0.2, 0.25)]
    during = situation(service).request
    assert during.priors["image-classification"].source == before.source == "the catalogue"
    assert len(during.tasks[0].completed) == 2
    add_task(candidates=["NIN", "AlexNet", "SmallCNN"], digest="d2")
    after = situation(service).request
    assert after.tasks[0].completed == ()
    prior = after.priors["image-classification"]
    assert "1 past task" in prior.source
    at = [prior.arms.index(arm) for arm in tried]
    assert np.all(prior.mean[at] < before.mean[at])


def test_costs_follow_what_trials_took(service: Service, add_task: Any, make_result: Any) -> None:
    add_task(candidates=["NIN", "AlexNet", "SmallCNN"])
    before = {arm.name: arm.predicted_cost for arm in situation(service).request.tasks[0].arms}
    for _ in range(2):
        train(service, make_result, 0.5, cost_seconds=500.0)
    after = {arm.name: arm.predicted_cost for arm in situation(service).request.tasks[0].arms}
    assert all(after[arm] > before[arm] for arm in before)
    assert situation(service, "gpu0").request.device == "gpu0"


def test_candidates_that_the_catalogue_has_dropped_are_history_only(
    service: Service, add_task: Any, make_result: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from easeml_core.catalog import MODELS

    add_task(candidates=["NIN", "AlexNet"])
    tried = train(service, make_result, 0.5)
    left = {name: model for name, model in MODELS.items() if name != tried}
    monkeypatch.setattr("easeml_core.catalog.MODELS", left)
    assert not forecast.is_known(tried)
    [task] = situation(service).request.tasks
    assert [trial.arm for trial in task.completed] == [tried]
    assert tried not in {arm.name for arm in task.arms}
    a = decide.decide(service, "cpu0", 0.0)
    assert a is not None


def test_a_prediction_alone_does_not_close_a_task(service: Service, add_task: Any, make_result: Any) -> None:
    """ResNet-50 and VGG-16 seem to take longer than the budget: the cheaper may show what it takes."""
    add_task(spec="budget: {device_hours: 0.0005}\n", candidates=["ResNet-50", "VGG-16"])
    [task] = situation(service).request.tasks
    assert task.remaining_seconds == pytest.approx(1.8)
    [arm] = task.eligible()
    assert arm.predicted_cost == pytest.approx(1.8)
    others = [other.predicted_cost for other in task.arms if other is not arm]
    assert min(others) > 1.8
    train(service, make_result, 0.7, cost_seconds=0.8)
    [task] = situation(service).request.tasks
    assert all(other.predicted_cost <= task.remaining_seconds for other in task.eligible())


@pytest.mark.parametrize(("seconds", "learns"), [(30.0, True), (37.0, False)])
def test_a_trial_that_met_its_limit_does_not_say_what_such_trials_take(
    service: Service, add_task: Any, make_result: Any, seconds: float, learns: bool
) -> None:
    add_task(spec="budget: {device_hours: 0.01}\n", candidates=["SmallCNN"])  # 36 s, all for the one trial
    train(service, make_result, 0.7, cost_seconds=seconds)
    with service.ledger.transaction() as session:
        model = forecast.cost_model(session)
    about = ("NIN", "cpu/torch", 1e12)
    assert (model.predict(*about) != CostModel().predict(*about)) is learns


def test_a_task_is_not_over_while_a_running_trial_holds_its_budget(
    service: Service, add_task: Any, make_result: Any
) -> None:
    task = add_task(spec="budget: {trials: 2, device_hours: 1}\n")
    a = decide.decide(service, "cpu0", 0.0)
    assert a is not None
    seen = situation(service)
    assert seen.request.tasks[0].remaining_seconds == 0.0
    assert seen.over == ()
    settle.settle(service, a.trial_id, 1, make_result(a.trial_id, 1, 0.5, cost_seconds=4.0))
    train(service, make_result, None, outcome=Outcome.FAILED, reason="no", cost_seconds=3590.0)
    with service.ledger.transaction() as session:
        assert session.get_one(Task, task).state == TaskState.DONE


def test_a_lost_trial_counts_and_its_candidate_is_not_tried_again(
    service: Service, add_task: Any, make_result: Any
) -> None:
    add_task(spec="budget: {trials: 9}\n", candidates=["NIN", "AlexNet", "SmallCNN"])
    for attempt in range(1, service.settings.max_attempts + 1):
        a = decide.decide(service, "cpu0", 0.0)
        assert a is not None
        assert (a.trial_id, a.attempt) == (1, attempt)
        settle.settle(service, a.trial_id, attempt, None)
    [task] = situation(service).request.tasks
    [lost] = task.completed
    assert (lost.ended, lost.quality) == (Ended.LOST, None)
    assert task.remaining_trials == 8
    others = [train(service, make_result, 0.5) for _ in range(2)]
    assert sorted([lost.arm, *others]) == ["AlexNet", "NIN", "SmallCNN"]
    assert decide.decide(service, "cpu0", 0.0) is None


def test_a_task_that_has_reached_its_goal_asks_for_nothing_while_its_trials_end(
    service: Service, add_task: Any, make_result: Any
) -> None:
    """No device gets more of it, although another of its trials still runs."""
    both = Service(service.settings.model_copy(update={"devices": ("cpu0", "cpu1")}))
    add_task(spec="stop_when: {accuracy: 0.9}\n")
    a, b = (decide.decide(both, device, 0.0) for device in ("cpu0", "cpu1"))
    assert a is not None
    assert b is not None
    assert len(situation(both).request.tasks[0].active) == 2
    settle.settle(both, a.trial_id, 1, make_result(a.trial_id, 1, 0.95))
    assert situation(both).request.tasks == ()
    assert decide.decide(both, "cpu0", 0.0) is None
