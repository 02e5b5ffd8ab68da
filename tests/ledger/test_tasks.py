from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from easeml_core.errors import Problem
from easeml_core.ledger import tasks
from easeml_core.ledger.models import Candidate, DataVersion, Task, TaskState, Tenant, Trial
from easeml_core.naming import TaskName
from easeml_core.service import Service, decide, settle

NAME = TaskName("clinic", "tumours")


def read(service: Service) -> Task:
    with service.ledger.transaction() as session:
        task = tasks.find_task(session, NAME)
        assert task is not None
        assert task.state == TaskState.REJECTED or task.data_version is not None  # loads it, too
        return task


def offered(service: Service) -> set[str]:
    with service.ledger.transaction() as session:
        return set(session.scalars(sa.select(Candidate.name).where(Candidate.offered)))


def test_the_ledger_keeps_what_the_spec_says(service: Service, add_task: Any) -> None:
    add_task(
        spec="priority: 2.5\nbudget: {trials: 7, device_hours: 2}\n"
        "deadline: 2099-12-24T18:00:00Z\nstop_when: {accuracy: 0.98}\n"
    )
    task = read(service)
    assert (task.state, task.template, task.objective) == ("open", "image-classification", "accuracy")
    assert (task.weight, task.budget_trials, task.budget_seconds) == (2.5, 7, 7200.0)
    assert task.deadline is not None
    assert task.deadline.isoformat() == "2099-12-24T18:00:00+00:00"
    assert task.stop_quality == pytest.approx(0.98)
    assert task.data_version is not None
    assert task.data_version.n_train == 80


def test_a_task_that_names_no_budget_gets_the_default_one(service: Service, add_task: Any) -> None:
    add_task()
    assert (read(service).budget_trials, read(service).budget_seconds) == (
        service.settings.default_trials,
        None,
    )
    add_task(spec="budget: {device_hours: 1}\n")
    assert (read(service).budget_trials, read(service).budget_seconds) == (None, 3600.0)


def test_accepting_the_same_upload_many_times_at_once_makes_one_of_everything(
    service: Service, add_task: Any
) -> None:
    with ThreadPoolExecutor(6) as pool:
        ids = set(pool.map(lambda _: add_task(candidates=["NIN", "AlexNet"]), range(12)))
    assert len(ids) == 1
    with service.ledger.transaction() as session:
        for table, rows in ((Tenant, 1), (Task, 1), (DataVersion, 1), (Candidate, 2)):
            assert session.scalar(sa.select(sa.func.count()).select_from(table)) == rows


def test_new_data_remembers_its_parent_and_old_data_is_found_again(service: Service, add_task: Any) -> None:
    add_task(digest="d1")
    first = read(service).data_version_id
    add_task(digest="d2")
    second = read(service).data_version
    assert second is not None
    assert second.parent_id == first
    add_task(digest="d1")
    assert read(service).data_version_id == first


def test_a_trial_that_waits_on_old_data_is_not_taken_up_again(service: Service, add_task: Any) -> None:
    add_task()
    a = decide.decide(service, "cpu0", 0.0)
    assert a is not None
    assert settle.settle(service, a.trial_id, 1, None).state == "planned"
    add_task(digest="d2")
    b = decide.decide(service, "cpu0", 0.0)
    assert b is not None
    assert b.trial_id != a.trial_id
    with service.ledger.transaction() as session:
        old = session.get_one(Trial, a.trial_id)
        assert (old.state, old.reason) == ("cancelled", "a newer data version took over")


def test_candidates_can_be_withdrawn_and_offered_again(service: Service, add_task: Any) -> None:
    add_task(candidates=["NIN", "AlexNet", "NIN"])
    assert offered(service) == {"NIN", "AlexNet"}
    add_task(candidates=["AlexNet", "SmallCNN"])
    assert offered(service) == {"AlexNet", "SmallCNN"}
    add_task(candidates=["NIN"])
    assert offered(service) == {"NIN"}
    add_task(candidates=[])
    assert offered(service) == set()


def test_a_new_candidate_reopens_a_task_that_is_done(
    service: Service, add_task: Any, make_result: Any
) -> None:
    add_task(candidates=["NIN"])
    a = decide.decide(service, "cpu0", 0.0)
    assert a is not None
    settle.settle(service, a.trial_id, 1, make_result(a.trial_id, 1))
    assert read(service).state == TaskState.DONE
    add_task(candidates=["NIN", "AlexNet"])
    task = read(service)
    assert (task.state, task.state_reason) == ("open", "1 candidates added")


def test_an_open_task_says_which_data_was_accepted_last(service: Service, add_task: Any) -> None:
    for digest in ("first", "second"):
        add_task(digest=digest)
    task = read(service)
    with service.ledger.transaction() as session:
        second = session.get_one(DataVersion, task.data_version_id).digest
    assert task.state_reason == f"data version {second[:8]} accepted"


def test_a_rejected_task_says_why_and_opens_once_mended(service: Service, add_task: Any) -> None:
    problems = [Problem("task.yaml", "unknown field", line=3, field="budgit", fix="write budget")]
    with service.ledger.transaction() as session:
        tasks.reject_task(session, NAME, problems)
    task = read(service)
    assert (task.state, task.problems) == ("rejected", [problems[0].as_dict()])
    assert decide.decide(service, "cpu0", 0.0) is None
    add_task()
    assert (read(service).state, read(service).problems) == ("open", [])


def test_a_rejected_change_leaves_the_accepted_task_at_work(service: Service, add_task: Any) -> None:
    add_task()
    with service.ledger.transaction() as session:
        tasks.reject_task(session, NAME, [Problem("data/cat/7.png", "is not an image")])
    task = read(service)
    assert task.state == TaskState.OPEN
    assert task.problems[0]["file"] == "data/cat/7.png"
    assert decide.decide(service, "cpu0", 0.0) is not None


def test_raising_the_budget_reopens_and_lowering_the_goal_ends(
    service: Service, add_task: Any, make_result: Any
) -> None:
    add_task(spec="budget: {trials: 1}\n")
    a = decide.decide(service, "cpu0", 0.0)
    assert a is not None
    settle.settle(service, a.trial_id, 1, make_result(a.trial_id, 1, 0.8))
    assert read(service).state_reason == "budget of 1 trials is used"
    add_task(spec="budget: {trials: 5}\n")
    assert read(service).state == TaskState.OPEN
    add_task(spec="budget: {trials: 5}\nstop_when: {accuracy: 0.7}\n")
    assert decide.decide(service, "cpu0", 0.0) is None
    assert read(service).state_reason.startswith("goal reached")
