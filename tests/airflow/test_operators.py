"""The operators against a real ledger and real trainer processes, whatever is killed."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from easeml_airflow import hooks
from easeml_airflow.operators import DecideOperator, TrainModelOperator
from sqlalchemy import select, update

from easeml_core.errors import TemporaryError
from easeml_core.ledger.models import Attempt, Lease, Task, TaskState
from easeml_core.service import Service
from tests.airflow.standby import ScriptedStandby, alive, members, until
from tests.airflow.steps import attempt_folder, settle_step, train_step, trial_of

pytestmark = pytest.mark.usefixtures("environment")


def _in_a_process(work: Callable[[], object]) -> int:
    """Run `work` in a forked process, as Airflow runs a task; returns its pid. It exits 1 if it raises."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return pid


def _task_process(operator: TrainModelOperator, context: dict[str, Any]) -> int:
    def work() -> None:
        signal.signal(signal.SIGTERM, lambda *_: operator.on_kill())  # what Airflow's task runner does
        operator.execute(context)

    return _in_a_process(work)


def _exit_code(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _grandchild(folder: Path) -> int:
    """Pid of the worker that a hanging trainer has started."""

    def find() -> int | None:
        for line in (folder / "log.txt").read_text().splitlines() if (folder / "log.txt").exists() else ():
            if line.startswith("worker "):
                return int(line.split()[1])
        return None

    return until(find)


def test_a_trial_is_trained_and_settled(
    service: Service, standby: ScriptedStandby, assignment, context
) -> None:
    trained = train_step(assignment).execute(context)
    assert trained == {"trial_id": assignment["trial_id"], "attempt": 1, "stopped": None}
    json.dumps(trained, allow_nan=False)  # what goes through XCom

    assert settle_step(assignment, trained) == "succeeded"
    trial = trial_of(service)
    assert (trial.state, trial.quality) == ("succeeded", 0.75)
    assert [order["task_id"] for order in standby.promotions] == [trial.task_id]
    with service.ledger.transaction() as session:
        assert session.scalars(select(Lease)).all() == [], "the device is free again"


def test_settling_twice_is_settling_once(
    service: Service, standby: ScriptedStandby, assignment, context
) -> None:
    trained = train_step(assignment).execute(context)
    first = settle_step(assignment, trained), trial_of(service).cost_seconds
    assert (settle_step(assignment, trained), trial_of(service).cost_seconds) == first


def test_the_trainers_log_is_in_the_task_log(
    standby: ScriptedStandby, assignment, context, capfd: pytest.CaptureFixture[str]
) -> None:
    assert _exit_code(_in_a_process(lambda: train_step(assignment).execute(context))) == 0
    captured = capfd.readouterr()
    assert "behaviour succeed" in captured.out + captured.err
    assert "trained" in captured.out + captured.err


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [("fail", "the candidate raised"), ("vanish", "ended without a result"), ("wrong-attempt", "attempt 2")],
)
def test_a_failed_trial_is_a_result(
    service: Service, standby: ScriptedStandby, assignment, context, behaviour: str, reason: str
) -> None:
    standby.behaviour = behaviour
    trained = train_step(assignment).execute(context)
    assert settle_step(assignment, trained) == "failed"  # and neither step raised
    assert reason in trial_of(service).reason
    # There is nothing to promote, so the status does not wait for a promotion either.
    assert standby.promotions == []
    assert json.loads(service.bucket.read("clinic/tumours/status.json"))["trials"][0]["state"] == "failed"


def test_a_fault_of_the_installation_is_red_and_costs_nothing(
    service: Service, standby: ScriptedStandby, assignment, context
) -> None:
    standby.behaviour = "fault"
    trained = train_step(assignment).execute(context)
    with pytest.raises(AirflowFailException, match="no such GPU"):
        settle_step(assignment, trained)
    assert (trial_of(service).state, trial_of(service).cost_seconds) == ("planned", 0.0)


def test_settling_does_not_wait_for_the_promotion(
    service: Service, standby: ScriptedStandby, assignment, context
) -> None:
    trained = train_step(assignment).execute(context)
    standby.promotion = "hang"
    assert settle_step(assignment, trained) == "succeeded"
    assert len(standby.promotions) == 1
    assert service.bucket.read_if_there("clinic/tumours/status.json") is None, "it follows the promotion"


@pytest.fixture
def decided(assignment, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The decide step's work when the allocator gives `assignment`."""
    from easeml_core.service import decide

    monkeypatch.setattr(decide, "decide", lambda *_: decide.Assignment(**assignment))
    return DecideOperator(task_id="decide", device="cpu0").execute({})


def test_the_trainer_starts_before_the_train_step_and_only_once(
    service: Service, standby: ScriptedStandby, decided, context
) -> None:
    (first,) = standby.started
    assert (attempt_folder(decided) / "leash").stat().st_mtime > time.time() + 5, "nobody holds its leash yet"
    assert trial_of(service).state == "leased"
    trained = train_step(decided).execute(context)
    assert standby.started == [first]
    assert settle_step(decided, trained) == "succeeded"


def test_a_trainer_started_for_a_lease_that_went_away_is_ended(
    service: Service, standby: ScriptedStandby, assignment, context, request: pytest.FixtureRequest
) -> None:
    standby.behaviour = "hang"
    decided = request.getfixturevalue("decided")
    assert members(standby.started[0])
    with service.ledger.transaction() as session:
        session.execute(update(Lease).values(attempt=2))
    assert train_step(decided).execute(context)["stopped"] == "fenced"
    assert members(standby.started[0]) == []


def test_a_trainer_that_does_not_come_up_is_the_train_steps_to_start(
    assignment, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    from easeml_core.service import trainer

    def start(*_: object, **__: object) -> None:
        raise TemporaryError("no trainer came up")

    monkeypatch.setattr(trainer, "start", start)
    assert request.getfixturevalue("decided") == assignment


def test_the_next_try_attaches_after_the_task_process_was_killed(
    service: Service, standby: ScriptedStandby, assignment, context
) -> None:
    standby.behaviour = "wait"
    task = _task_process(train_step(assignment), context)
    until(lambda: context["task_state_store"].get("trainer"))
    os.kill(task, signal.SIGKILL)
    assert _exit_code(task) == -signal.SIGKILL
    assert len(members(standby.started[0])) == 1, "the trainer goes on"

    (attempt_folder(assignment) / "go").touch()
    trained = train_step(assignment).execute(context)
    assert trained["stopped"] is None
    assert len(standby.started) == 1, "attached, not started again"
    assert settle_step(assignment, trained) == "succeeded"
    assert trial_of(service).attempt == 1


def test_the_next_try_attaches_although_nothing_was_stored(
    standby: ScriptedStandby, assignment, context
) -> None:
    standby.behaviour = "wait"
    task = _task_process(train_step(assignment), context)
    until(lambda: context["task_state_store"].get("trainer"))
    os.kill(task, signal.SIGKILL)
    _exit_code(task)
    context["task_state_store"].path.unlink()  # killed between starting the trainer and storing who it is

    (attempt_folder(assignment) / "go").touch()
    train_step(assignment).execute(context)
    assert len(standby.started) == 1


def test_a_trainer_that_ended_while_nobody_watched_is_settled_not_repeated(
    standby: ScriptedStandby, assignment, context
) -> None:
    standby.behaviour = "wait"
    task = _task_process(train_step(assignment), context)
    until(lambda: context["task_state_store"].get("trainer"))
    os.kill(task, signal.SIGKILL)
    _exit_code(task)
    (attempt_folder(assignment) / "go").touch()
    until(lambda: not members(standby.started[0]))

    trained = train_step(assignment).execute(context)
    assert len(standby.started) == 1
    assert settle_step(assignment, trained) == "succeeded"


@pytest.mark.parametrize("behaviour", ["hang", "stubborn"])
def test_taking_the_task_away_ends_the_whole_group(
    service: Service,
    standby: ScriptedStandby,
    assignment,
    context,
    monkeypatch: pytest.MonkeyPatch,
    behaviour: str,
) -> None:
    monkeypatch.setattr("easeml_airflow.operators.KILL_GRACE_SECONDS", 0.3)
    standby.behaviour = behaviour
    task = _task_process(train_step(assignment), context)
    grandchild = _grandchild(attempt_folder(assignment))
    os.kill(task, signal.SIGTERM)
    assert _exit_code(task) == 1, "the task fails: it did not do its work"
    assert members(standby.started[0]) == []
    assert not alive(grandchild)

    with pytest.raises(AirflowException, match="machinery"):
        settle_step(assignment, None)
    assert trial_of(service).state == "planned", "an interruption is nobody's fault: it is tried again"


def test_a_trainer_deaf_to_sigterm_is_ended_at_its_deadline(
    service: Service,
    standby: ScriptedStandby,
    assignment,
    context,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hooks, "GRACE_SECONDS", 0.5)
    monkeypatch.setattr(hooks, "STOP_GRACE_SECONDS", 0.2)
    standby.behaviour = "stubborn"  # and its limit is half a second
    _limit(assignment, 0.5)
    trained = train_step(assignment).execute(context)
    assert trained["stopped"] == "deadline"
    assert members(standby.started[0]) == []
    assert settle_step(assignment, trained) == "failed"
    trial = trial_of(service)
    assert trial.failure == "deadline"
    assert "time limit" in trial.reason


def test_a_cancelled_task_ends_its_trial(
    service: Service, standby: ScriptedStandby, assignment, context, quick_renewals
) -> None:
    standby.behaviour = "hang"
    task = _task_process(train_step(assignment), context)
    _grandchild(attempt_folder(assignment))
    with service.ledger.transaction() as session:
        session.execute(update(Task).values(state=TaskState.CANCELLED))
    assert _exit_code(task) == 0
    assert members(standby.started[0]) == []
    assert settle_step(assignment, {"stopped": "cancelled"}) == "cancelled"


def test_a_fenced_attempt_stops_and_counts_for_nothing(
    service: Service, standby: ScriptedStandby, assignment, context, quick_renewals
) -> None:
    standby.behaviour = "hang"
    task = _task_process(train_step(assignment), context)
    _grandchild(attempt_folder(assignment))
    with service.ledger.transaction() as session:
        session.execute(update(Lease).values(attempt=2))  # somebody else's by now
    assert _exit_code(task) == 0
    assert members(standby.started[0]) == []


def test_without_a_lease_nothing_is_started(
    service: Service, standby: ScriptedStandby, assignment, context
) -> None:
    with service.ledger.transaction() as session:
        session.execute(update(Lease).values(attempt=2))
    assert train_step(assignment).execute(context)["stopped"] == "fenced"
    assert standby.started == []


def test_the_lease_is_renewed_while_it_trains(
    service: Service, standby: ScriptedStandby, assignment, context, quick_renewals
) -> None:
    standby.behaviour = "wait"
    with service.ledger.transaction() as session:
        before = session.scalars(select(Lease.expires_at)).one()
    run = {"mlflow_run_id": "run-1", "experiment_id": "7"}
    (attempt_folder(assignment) / "run.json").write_text(json.dumps(run))
    task = _task_process(train_step(assignment), context)

    def renewed() -> bool:
        with service.ledger.transaction() as session:
            known = session.scalars(select(Attempt.mlflow_run_id)).one() == "run-1"
            return known and session.scalars(select(Lease.expires_at)).one() > before

    until(renewed)
    (attempt_folder(assignment) / "go").touch()
    assert _exit_code(task) == 0


def test_a_ledger_that_is_away_disturbs_no_training(
    service: Service, standby: ScriptedStandby, assignment, context, quick_renewals, monkeypatch
) -> None:
    from easeml_core.service import settle

    tried: list[float] = []

    def away(*_: object, **__: object) -> None:
        tried.append(time.monotonic())
        raise OSError("the ledger is away")

    monkeypatch.setattr(settle, "renew", away)
    standby.behaviour = "wait"
    go = attempt_folder(assignment) / "go"

    operator = train_step(assignment)
    stream = operator.hook.stream_log

    def stream_log(*, last: bool = False) -> None:  # the loop goes round: let it end after some renewals
        stream(last=last)
        if len(tried) > 2:
            go.touch()

    monkeypatch.setattr(operator.hook, "stream_log", stream_log)
    assert operator.execute(context)["stopped"] is None


def test_a_trainer_that_the_train_step_lost_is_ended_before_settling(
    service: Service, standby: ScriptedStandby, assignment, context
) -> None:
    standby.behaviour = "hang"
    task = _task_process(train_step(assignment), context)
    grandchild = _grandchild(attempt_folder(assignment))
    os.kill(task, signal.SIGKILL)  # and no try is left
    _exit_code(task)
    with pytest.raises(AirflowException, match="machinery"):
        settle_step(assignment, None)
    assert members(standby.started[0]) == []
    assert not alive(grandchild)
    assert trial_of(service).state == "planned"


def test_settling_without_an_assignment_is_red(service: Service) -> None:
    with pytest.raises(AirflowException, match="decide"):
        settle_step(None, None)  # type: ignore[arg-type]


def test_the_buttons_lead_into_mlflow(assignment) -> None:
    operator = train_step(assignment)
    run_link, champion_link = operator.operator_extra_links
    assert run_link.get_link(operator, ti_key=None) == ""  # type: ignore[arg-type]
    (attempt_folder(assignment) / "run.json").write_text(
        json.dumps({"mlflow_run_id": "r1", "experiment_id": "7"})
    )
    to_run, to_champion = (link.get_link(operator, ti_key=None) for link in (run_link, champion_link))  # type: ignore[arg-type]
    assert to_run.endswith("/#/experiments/7/runs/r1?workflowType=machine_learning")
    assert to_champion.endswith("/#/models/clinic.tumours?workflowType=machine_learning")


def test_the_buttons_lead_where_people_reach_mlflow(assignment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EASEML_MLFLOW_PUBLIC_URL", "https://mlflow.example.org")
    operator = train_step(assignment)
    (attempt_folder(assignment) / "run.json").write_text(
        json.dumps({"mlflow_run_id": "r1", "experiment_id": "7"})
    )
    shown = [link.get_link(operator, ti_key=None) for link in operator.operator_extra_links]  # type: ignore[arg-type]
    pages = ("experiments/7/runs/r1", "models/clinic.tumours")
    assert shown == [f"https://mlflow.example.org/#/{page}?workflowType=machine_learning" for page in pages]


def _limit(assignment: dict[str, Any], seconds: float) -> None:
    path = Path(assignment["order_path"])
    order = json.loads(path.read_text())
    order["limit_seconds"] = seconds
    path.write_text(json.dumps(order))
