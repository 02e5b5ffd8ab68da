from __future__ import annotations

import json
from typing import Any

import pytest

from easeml_core.ledger import promotions, reports
from easeml_core.ledger.models import Task, Trial
from easeml_core.service import Service, decide, settle
from easeml_core.workorder import Outcome


@pytest.fixture
def told(service: Service, add_task: Any, make_result: Any) -> dict[str, Any]:
    """Reports on a task with a champion, a failure and a running trial, beside an untouched task."""
    task_id = add_task("clinic/tumours", candidates=["NIN", "AlexNet", "SmallCNN", "ResNet-18"])
    for quality, outcome in ((0.7, Outcome.SUCCEEDED), (None, Outcome.FAILED), (0.6, Outcome.SUCCEEDED)):
        a = decide.decide(service, "cpu0", 0.0)
        assert a is not None
        result = make_result(
            a.trial_id, 1, quality, outcome=outcome, reason="" if quality else "ValueError: bad labels"
        )
        settle.settle(service, a.trial_id, 1, result)
    running = decide.decide(service, "cpu0", 0.0)
    assert running is not None
    settle.begin(service, running.trial_id, 1)
    settle.renew(service, running.trial_id, 1, mlflow_run_id="run-4")
    add_task("lab/other")
    with service.ledger.transaction() as session:
        task = session.get_one(Task, task_id)
        promotions.record_promotion(session, session.get_one(Trial, 1), "1", "first model")
        found = {
            "task": reports.task_report(session, task),
            "tasks": reports.tasks(session),
            "tenants": reports.tenants(session),
            "devices": reports.devices(session, ["cpu0", "gpu0"]),
            "decisions": reports.decisions(session),
            "of_task": reports.decisions(session, task=task, limit=2),
            "explained": reports.explain(session, 4),
            "first": reports.explain(session, 1),
            "nothing": reports.explain(session, 99),
        }
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    return found


def test_a_task_report_ranks_what_succeeded(told: dict[str, Any]) -> None:
    task = told["task"]
    assert (task["task"], task["state"], task["objective"]) == ("clinic/tumours", "open", "accuracy")
    assert [trial["quality"] for trial in task["leaderboard"]] == [0.7, 0.6]
    assert [trial["state"] for trial in task["running"]] == ["running"]
    assert len(task["trials"]) == 4
    assert task["trials"][1]["reason"] == "ValueError: bad labels"
    assert sorted(one["state"] for one in task["candidates"]) == [
        "failed",
        "running",
        "succeeded",
        "succeeded",
    ]
    assert task["champion"]["model_uri"] == "models:/clinic.tumours@champion"
    assert (task["champion"]["trial"], task["champion"]["quality"]) == ("trial-000001", 0.7)
    assert task["champion"]["successor"] is None
    assert task["budget"]["used_trials"] == 4
    assert task["budget"]["reserved_seconds"] == 3600.0
    assert task["data"]["facts"]["classes"] == ["a", "b", "c"]


def test_lists_cover_every_tenant_and_task(told: dict[str, Any]) -> None:
    assert [(task["task"], task["best_quality"]) for task in told["tasks"]] == [
        ("clinic/tumours", 0.7),
        ("lab/other", None),
    ]
    assert [(tenant["tenant"], tenant["trials"], len(tenant["tasks"])) for tenant in told["tenants"]] == [
        ("clinic", 4, 1),
        ("lab", 0, 1),
    ]
    assert told["tenants"][0]["charged_seconds"] == pytest.approx(4.5)


def test_devices_say_what_they_run_and_why(told: dict[str, Any]) -> None:
    busy, free = told["devices"]
    assert free == {"device": "gpu0", "state": "free"}
    assert (busy["device"], busy["state"], busy["task"]) == ("cpu0", "running", "clinic/tumours")
    assert (busy["trial"], busy["mlflow_run_id"], busy["decision"]) == ("trial-000004", "run-4", 4)
    assert busy["reason"] == told["explained"]["reason"] != ""
    assert busy["elapsed_seconds"] >= 0


def test_decisions_are_explained_with_what_they_were_chosen_over(told: dict[str, Any]) -> None:
    assert [one["decision"] for one in told["decisions"]] == [4, 3, 2, 1]
    assert [one["decision"] for one in told["of_task"]] == [4, 3]
    first = told["decisions"][-1]
    assert (first["outcome"], first["quality"], first["policy"]) == ("succeeded", 0.7, "easeml")
    explained = told["explained"]
    assert explained["attempts"][0]["mlflow_run_id"] == "run-4"
    seen = explained["seen"]
    assert [(one["ended"], one["quality"]) for one in seen["tried"]] == [
        ("succeeded", 0.7),
        ("failed", None),
        ("succeeded", 0.6),
    ]
    assert (seen["best"], seen["left"], seen["candidates"], seen["waited"]) == (0.7, 1, 4, 0)
    assert (seen["open_tasks"], seen["tasks_with_work"], seen["running"]) == (1, 1, [])
    assert seen["basis"]["learned_from"]
    assert explained["intervals"] == seen["intervals"]
    (low, high) = explained["intervals"]["90"]
    assert low < explained["expected_quality"] < high
    assert told["nothing"] is None


def test_a_runner_up_says_what_it_has_reached_since(told: dict[str, Any]) -> None:
    since = {one["arm"]: one["quality"] for one in told["first"]["runners_up"]}
    assert sorted(since.values(), key=str) == [0.6, None, None]
    later = {one["candidate"]: one["quality"] for one in told["decisions"]}
    assert all(quality == later.get(arm) for arm, quality in since.items())
