from __future__ import annotations

import os
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from easeml_core import naming
from easeml_core.errors import OperatorError
from easeml_core.ledger import Ledger, reports
from easeml_core.ledger.models import DecisionRecord, Lease, Task, TaskState, Trial
from easeml_core.service import Service, control, decide, orders, settle
from easeml_core.service.decide import Assignment
from easeml_core.settings import Settings
from easeml_core.workorder import Outcome, WorkOrder

MANY = tuple(f"{model}+f{k / 10:g}" for model in ("SmallCNN", "NIN", "AlexNet") for k in range(1, 10))


def rename_devices(service: Service, *devices: str) -> Service:
    return Service(Settings(**{**service.settings.model_dump(), "devices": devices}))


def run_dry(
    service: Service, device: str, make_result: Any, outcome: Outcome = Outcome.SUCCEEDED
) -> list[Any]:
    """Decide, begin and settle on one device until nothing can be started; gives the assignments."""
    done = []
    while (a := decide.decide(service, device, 0.0)) is not None:
        settle.begin(service, a.trial_id, a.attempt)
        quality = 0.4 + 0.01 * (a.trial_id % 7)
        settle.settle(
            service, a.trial_id, a.attempt, make_result(a.trial_id, a.attempt, quality, outcome=outcome)
        )
        done.append(a)
    return done


def test_a_decision_its_lease_and_its_order_agree(service: Service, add_task: Any) -> None:
    task_id = add_task(spec="budget: {trials: 3}\n")
    a = decide.decide(service, "cpu0", 0.0)
    assert a is not None
    assert Assignment(**a.as_dict()) == a
    order = WorkOrder.read(Path(a.order_path))
    with service.ledger.transaction() as session:
        decision = session.scalars(sa.select(DecisionRecord)).one()
        lease = session.scalars(sa.select(Lease)).one()
        trial = session.get_one(Trial, a.trial_id)
        assert (trial.task_id, trial.state, trial.attempt) == (task_id, "leased", 1)
        assert (lease.device, lease.trial_id, lease.attempt) == ("cpu0", a.trial_id, 1)
        assert trial.candidate.name == order.candidate
        assert trial.reserved_seconds == order.limit_seconds == service.settings.trial_limit_seconds
        assert decision.reason == order.note != ""
        assert decision.policy == "easeml"
        assert decision.predicted_seconds == trial.predicted_seconds > 0
        digest = trial.data_version.digest
    assert (order.tenant, order.task, order.template) == ("clinic", "tumours", "image-classification")
    assert (order.trial_id, order.attempt, order.device) == (a.trial_id, 1, "cpu0")
    assert order.version_dir == str(
        naming.version_dir(service.settings.versions_dir, naming.TaskName("clinic", "tumours"), digest)
    )
    assert order.experiment == "clinic/tumours"
    assert order.search["learning_rate"]
    assert order.threads == len(os.sched_getaffinity(0))
    assert order.tags["easeml.decision"] == str(decision.id)
    assert order.tags["easeml.data_version"] == digest


def test_decided_again_after_a_kill_gives_the_same_assignment_and_order(
    service: Service, add_task: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_task()
    with monkeypatch.context() as patch:

        def killed(*_: Any) -> None:
            raise KeyboardInterrupt

        patch.setattr(orders, "write_order", killed)
        with pytest.raises(KeyboardInterrupt):
            decide.decide(service, "cpu0", 0.0)
    a = decide.decide(service, "cpu0", 0.0)
    assert a is not None
    content = Path(a.order_path).read_bytes()
    Path(a.order_path).unlink()
    assert decide.decide(service, "cpu0", 0.0) == a
    assert Path(a.order_path).read_bytes() == content
    with service.ledger.transaction() as session:
        assert session.scalar(sa.select(sa.func.count()).select_from(DecisionRecord)) == 1


def test_a_device_whose_trial_runs_gets_nothing_else(service: Service, add_task: Any) -> None:
    add_task()
    a = decide.decide(service, "cpu0", 0.0)
    assert a is not None
    settle.begin(service, a.trial_id, a.attempt)
    assert decide.decide(service, "cpu0", 0.0) is None


def test_an_unknown_device_is_the_operators_mistake(service: Service) -> None:
    with pytest.raises(OperatorError, match="gpu7 is not one of the devices: cpu0"):
        decide.decide(service, "gpu7", 0.0)


def test_a_gpu_that_is_not_there_takes_no_trial(service: Service, add_task: Any) -> None:
    add_task()
    broken = Service(service.settings.model_copy(update={"devices": ("gpu99", "cpu0")}))
    with pytest.raises(OperatorError, match="device gpu99 is not there"):
        decide.decide(broken, "gpu99", 0.0)
    with service.ledger.transaction() as session:
        assert session.scalar(sa.select(sa.func.count()).select_from(Trial)) == 0
    assert decide.decide(broken, "cpu0", 0.0) is not None


def test_devices_share_the_cores_of_their_own_host_only(service: Service) -> None:
    cores = len(os.sched_getaffinity(0))
    queues = {"gpu0_a": "a", "gpu1_a": "a", "gpu0_b": "b"}
    settings = service.settings.model_copy(update={"devices": (*queues, "cpu0"), "device_queues": queues})
    assert orders.threads_of(settings, "gpu0_a") == max(cores // 2, 1)
    assert orders.threads_of(settings, "gpu0_b") == orders.threads_of(settings, "cpu0") == cores


def test_five_devices_never_overrun_a_budget_of_ten(
    service: Service, add_task: Any, make_result: Any
) -> None:
    task_id = add_task(candidates=MANY, spec="budget: {trials: 10}\n")
    devices = [f"cpu{number}" for number in range(5)]
    service = rename_devices(service, *devices)
    with ThreadPoolExecutor(5) as pool:
        found = list(pool.map(lambda device: run_dry(service, device, make_result), devices))
    assert sum(len(assignments) for assignments in found) == 10
    with service.ledger.transaction() as session:
        task = session.get_one(Task, task_id)
        assert (task.state, task.state_reason) == ("done", "budget of 10 trials is used")
        arms = session.scalars(sa.select(Trial.candidate_id)).all()
        assert len(arms) == len(set(arms)) == 10
        assert session.scalar(sa.select(sa.func.count()).select_from(DecisionRecord)) == 10
        assert session.scalars(sa.select(Lease)).all() == []
        report = reports.task_report(session, task)
    assert report["budget"]["charged_seconds"] == pytest.approx(10 * 1.5)
    assert report["budget"]["remaining_trials"] == 0


def test_two_devices_never_take_the_same_candidate(service: Service, add_task: Any) -> None:
    add_task(candidates=MANY[:4])
    devices = [f"cpu{number}" for number in range(8)]
    service = rename_devices(service, *devices)
    start = threading.Barrier(8)

    def one(device: str) -> Assignment | None:
        start.wait()
        return decide.decide(service, device, 0.0)

    with ThreadPoolExecutor(8) as pool:
        found = [a for a in pool.map(one, devices) if a is not None]
    candidates = [WorkOrder.read(Path(a.order_path)).candidate for a in found]
    assert sorted(candidates) == sorted(MANY[:4])
    with service.ledger.transaction() as session:
        assert session.scalars(sa.select(Task.state)).one() == TaskState.OPEN


def test_the_operators_memory_limit_is_in_the_order(service: Service, add_task: Any) -> None:
    add_task()
    for limit in (None, 2_000_000_000):
        limited = Service(service.settings.model_copy(update={"trial_memory_bytes": limit}))
        a = decide.decide(limited, "cpu0", 0.0)
        assert a is not None
        assert WorkOrder.read(Path(a.order_path)).memory_limit_bytes == limit
        settle.settle(service, a.trial_id, 1, None)


def test_what_one_trial_reserved_is_not_there_for_the_next(
    service: Service, add_task: Any, make_result: Any
) -> None:
    # 0.02 device hours are 72 s, less than the limit of a single trial.
    add_task(spec="budget: {device_hours: 0.02}\n")
    service = rename_devices(service, "cpu0", "cpu1")
    a = decide.decide(service, "cpu0", 0.0)
    assert a is not None
    assert WorkOrder.read(Path(a.order_path)).limit_seconds == pytest.approx(72.0)
    assert decide.decide(service, "cpu1", 0.0) is None
    settle.settle(service, a.trial_id, 1, make_result(a.trial_id, 1, cost_seconds=20.0))
    b = decide.decide(service, "cpu1", 0.0)
    assert b is not None
    assert WorkOrder.read(Path(b.order_path)).limit_seconds == pytest.approx(52.0)


def test_devices_work_on_one_task_within_a_budget_of_device_time(
    service: Service, add_task: Any, make_result: Any
) -> None:
    """Once it is known what trials take here, each device gets its share, together what is left."""
    task_id = add_task(candidates=MANY, spec="budget: {device_hours: 0.5}\n")
    service = rename_devices(service, "cpu0", "cpu1", "cpu2")
    taken = 0.0
    for cost in (1.0, 2.0, 1.5):
        a = decide.decide(service, "cpu0", 0.0)
        assert a is not None
        settle.settle(service, a.trial_id, 1, make_result(a.trial_id, 1, cost_seconds=cost))
        taken += cost
    found = [decide.decide(service, device, 0.0) for device in ("cpu0", "cpu1", "cpu2")]
    assert None not in found
    limits = [WorkOrder.read(Path(a.order_path)).limit_seconds for a in found if a is not None]
    assert limits == pytest.approx([(1800 - taken) / 3] * 3)
    with service.ledger.transaction() as session:
        budget = reports.task_report(session, session.get_one(Task, task_id))["budget"]
    assert budget["reserved_seconds"] == pytest.approx(sum(limits), abs=0.01)
    assert budget["remaining_seconds"] == pytest.approx(0.0, abs=0.01)
    assert budget["charged_seconds"] + budget["reserved_seconds"] <= 1800.01


def test_a_task_whose_candidates_are_all_too_dear_for_the_rest_is_done(
    service: Service, add_task: Any, make_result: Any
) -> None:
    task_id = add_task(spec="budget: {device_hours: 0.02}\n")
    a = decide.decide(service, "cpu0", 0.0)
    assert a is not None
    settle.settle(service, a.trial_id, 1, make_result(a.trial_id, 1, cost_seconds=70.9))
    assert decide.decide(service, "cpu0", 0.0) is None
    with service.ledger.transaction() as session:
        task = session.get_one(Task, task_id)
        assert task.state == TaskState.DONE
        assert "fits into what is left" in task.state_reason


def test_a_waiting_device_is_woken_by_new_work(service: Service, add_task: Any) -> None:
    found: list[Assignment | None] = []
    waiting = threading.Thread(target=lambda: found.append(decide.decide(service, "cpu0", 60.0)))
    waiting.start()
    try:
        _until_someone_listens(service.ledger)
        add_task()
    finally:
        waiting.join(30)
    assert not waiting.is_alive()
    assert found
    assert found[0] is not None


def _until_someone_listens(ledger: Ledger) -> None:
    query = sa.text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
        "AND state = 'idle' AND query = 'LISTEN easeml_work'"
    )
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with ledger.transaction() as session:
            if session.scalar(query):
                return
        time.sleep(0.02)
    raise AssertionError("nobody listens")


def test_a_policy_that_fails_is_replaced_for_the_decision_and_named(service: Service, add_task: Any) -> None:
    add_task()
    service = Service(Settings(**{**service.settings.model_dump(), "policy": "no_such_policy"}))
    assert decide.decide(service, "cpu0", 0.0) is not None
    with service.ledger.transaction() as session:
        report = reports.decisions(session)[0]
    assert report["policy"] == "round_robin"
    assert "no_such_policy" in report["fallbacks"][0]


def test_tenants_share_the_devices(service: Service, add_task: Any, make_result: Any) -> None:
    add_task("big/one", candidates=MANY, spec="budget: {trials: 20}\n")
    add_task("small/one", candidates=MANY[:4], spec="budget: {trials: 4}\n")
    served = [WorkOrder.read(Path(a.order_path)).tenant for a in run_dry(service, "cpu0", make_result)]
    assert Counter(served) == {"big": 20, "small": 4}
    assert "small" in served[:2]


def test_a_tenant_whose_trials_all_fail_ends_as_failed_and_others_go_on(
    service: Service, add_task: Any, make_result: Any
) -> None:
    bad = add_task("bad/one", candidates=MANY)
    good = add_task("good/one", candidates=MANY, spec="budget: {trials: 12}\n")
    while (a := decide.decide(service, "cpu0", 0.0)) is not None:
        failing = WorkOrder.read(Path(a.order_path)).tenant == "bad"
        result = make_result(
            a.trial_id,
            1,
            outcome=Outcome.FAILED if failing else Outcome.SUCCEEDED,
            reason="ValueError: labels out of range" if failing else "",
        )
        settle.settle(service, a.trial_id, 1, result)
    with service.ledger.transaction() as session:
        failed, done = session.get_one(Task, bad), session.get_one(Task, good)
        assert failed.state == TaskState.FAILED
        assert "the last 5 trials ended as “failed”" in failed.state_reason
        assert "5 of 5): ValueError: labels out of range" in failed.state_reason
        assert done.state == TaskState.DONE
        trials = Counter(session.scalars(sa.select(Trial.task_id)))
    assert trials == {bad: 5, good: 12}


def test_a_reached_goal_ends_the_task(service: Service, add_task: Any, make_result: Any) -> None:
    task_id = add_task(spec="stop_when: {accuracy: 0.9}\n")
    a = decide.decide(service, "cpu0", 0.0)
    assert a is not None
    settle.settle(service, a.trial_id, 1, make_result(a.trial_id, 1, 0.95))
    with service.ledger.transaction() as session:
        task = session.get_one(Task, task_id)
        assert task.state == TaskState.DONE
        assert task.state_reason.startswith("goal reached: quality 0.9500 of at least 0.9000")
    assert decide.decide(service, "cpu0", 0.0) is None


def test_a_passed_deadline_ends_the_task_without_any_trial(service: Service, add_task: Any) -> None:
    task_id = add_task(spec="deadline: 2020-01-01T00:00:00Z\n")
    assert decide.decide(service, "cpu0", 0.0) is None
    with service.ledger.transaction() as session:
        task = session.get_one(Task, task_id)
        assert (task.state, task.state_reason) == ("done", "deadline 2020-01-01 00:00 UTC has passed")


def test_every_candidate_tried_ends_the_task_and_new_data_reopens_it_with_history(
    service: Service, add_task: Any, make_result: Any
) -> None:
    task_id = add_task(candidates=MANY[:3])
    first = run_dry(service, "cpu0", make_result)
    assert len(first) == 3
    with service.ledger.transaction() as session:
        assert session.get_one(Task, task_id).state_reason == "every candidate (3) has been tried"
    add_task(candidates=MANY[:3])  # the same upload again
    assert decide.decide(service, "cpu0", 0.0) is None
    add_task(candidates=MANY[:3], digest="d2")
    second = run_dry(service, "cpu0", make_result)
    assert len(second) == 3
    with service.ledger.transaction() as session:
        report = reports.task_report(session, session.get_one(Task, task_id))
    assert len(report["trials"]) == 6
    assert len(report["leaderboard"]) == 3
    assert report["state"] == "done"


def test_paused_tasks_wait_and_cancelled_ones_stop(service: Service, add_task: Any, make_result: Any) -> None:
    name = naming.TaskName("clinic", "tumours")
    add_task()
    assert control.pause(service, name) == TaskState.PAUSED
    assert control.pause(service, name) == TaskState.PAUSED
    assert decide.decide(service, "cpu0", 0.0) is None
    add_task(digest="d2")  # new data does not undo what its tenant wants
    assert decide.decide(service, "cpu0", 0.0) is None
    assert control.resume(service, name) == TaskState.OPEN
    a = decide.decide(service, "cpu0", 0.0)
    assert a is not None
    assert not settle.cancelled(service, a.trial_id)
    assert control.cancel(service, name) == TaskState.CANCELLED
    assert settle.cancelled(service, a.trial_id)
    settlement = settle.settle(
        service, a.trial_id, 1, make_result(a.trial_id, 1, outcome=Outcome.INTERRUPTED, reason="stopped")
    )
    assert settlement.state == "cancelled"
    assert decide.decide(service, "cpu0", 0.0) is None
    assert control.resume(service, name) == TaskState.OPEN
    again = decide.decide(service, "cpu0", 0.0)
    assert again is not None
    assert again.trial_id != a.trial_id
