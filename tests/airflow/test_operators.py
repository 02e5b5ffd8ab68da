"""The operators against a real ledger and real trainer processes, whatever is killed."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, DownstreamTasksSkipped
from easeml_airflow import hooks
from easeml_airflow.operators import DecideOperator, SettleOperator, TrainModelOperator
from sqlalchemy import select, update

from easeml_core.errors import TemporaryError
from easeml_core.ledger.models import Attempt, Lease, Task, TaskState, Trial
from easeml_core.service import Service
from tests.airflow.rows import lease_next
from tests.airflow.standby import ScriptedStandby, alive, members, until

pytestmark = pytest.mark.usefixtures("environment")


class FileStore:
    """Airflow's per-task store, which outlives a try: here, a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def get(self, key: str) -> Any:
        return json.loads(self.path.read_text()).get(key) if self.path.exists() else None

    def set(self, key: str, value: Any) -> None:
        self.path.write_text(json.dumps({key: value}))


@pytest.fixture
def context(tmp_path: Path) -> dict[str, Any]:
    return {"task_state_store": FileStore(tmp_path / "store.json")}


def _train(assignment: dict[str, Any]) -> TrainModelOperator:
    return TrainModelOperator(task_id="train", assignment=assignment)


def _settle(assignment: dict[str, Any], trained: dict[str, Any] | None) -> str | None:
    operator = SettleOperator(task_id="settle", assignment=assignment, trained=trained)
    return operator.execute({})


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


def _trial(service: Service) -> Trial:
    with service.ledger.transaction() as session:
        return session.scalars(select(Trial)).one()


def _folder(assignment: dict[str, Any]) -> Path:
    return Path(assignment["order_path"]).parent


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
    trained = _train(assignment).execute(context)
    assert trained == {"trial_id": assignment["trial_id"], "attempt": 1, "stopped": None}
    json.dumps(trained, allow_nan=False)  # what goes through XCom

    assert _settle(assignment, trained) == "succeeded"
    trial = _trial(service)
    assert (trial.state, trial.quality) == ("succeeded", 0.75)
    assert [order["task_id"] for order in standby.promotions] == [trial.task_id]
    with service.ledger.transaction() as session:
        assert session.scalars(select(Lease)).all() == [], "the device is free again"


def test_settling_twice_is_settling_once(
    service: Service, standby: ScriptedStandby, assignment, context
) -> None:
    trained = _train(assignment).execute(context)
    first = _settle(assignment, trained), _trial(service).cost_seconds
    assert (_settle(assignment, trained), _trial(service).cost_seconds) == first


def test_the_trainers_log_is_in_the_task_log(
    standby: ScriptedStandby, assignment, context, capfd: pytest.CaptureFixture[str]
) -> None:
    assert _exit_code(_in_a_process(lambda: _train(assignment).execute(context))) == 0
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
    trained = _train(assignment).execute(context)
    assert _settle(assignment, trained) == "failed"  # and neither step raised
    assert reason in _trial(service).reason
    # There is nothing to promote, so the status does not wait for a promotion either.
    assert standby.promotions == []
    assert json.loads(service.bucket.read("clinic/tumours/status.json"))["trials"][0]["state"] == "failed"


def test_a_fault_of_the_installation_is_red_and_costs_nothing(
    service: Service, standby: ScriptedStandby, assignment, context
) -> None:
    standby.behaviour = "fault"
    trained = _train(assignment).execute(context)
    with pytest.raises(AirflowFailException, match="no such GPU"):
        _settle(assignment, trained)
    assert (_trial(service).state, _trial(service).cost_seconds) == ("planned", 0.0)


def test_settling_does_not_wait_for_the_promotion(
    service: Service, standby: ScriptedStandby, assignment, context
) -> None:
    trained = _train(assignment).execute(context)
    standby.promotion = "hang"
    assert _settle(assignment, trained) == "succeeded"
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
    assert (_folder(decided) / "leash").stat().st_mtime > time.time() + 5, "nobody holds its leash yet"
    assert _trial(service).state == "leased"
    trained = _train(decided).execute(context)
    assert standby.started == [first]
    assert _settle(decided, trained) == "succeeded"


def test_a_trainer_started_for_a_lease_that_went_away_is_ended(
    service: Service, standby: ScriptedStandby, assignment, context, request: pytest.FixtureRequest
) -> None:
    standby.behaviour = "hang"
    decided = request.getfixturevalue("decided")
    assert members(standby.started[0])
    with service.ledger.transaction() as session:
        session.execute(update(Lease).values(attempt=2))
    assert _train(decided).execute(context)["stopped"] == "fenced"
    assert members(standby.started[0]) == []


def test_a_trainer_that_does_not_come_up_is_the_train_steps_to_start(
    assignment, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    from easeml_core.service import trainer

    def start(*_: object, **__: object) -> None:
        raise TemporaryError("no trainer came up")

    monkeypatch.setattr(trainer, "start", start)
    assert request.getfixturevalue("decided") == assignment


class Instance:
    """What a running task knows of its DAG."""

    dag_id = "easeml_allocate_cpu0"
    stats_tags: Mapping[str, str] = {}

    def __init__(self, *, is_paused: bool) -> None:
        self.is_paused = is_paused

    def get_dag(self, dag_id: str) -> Instance:
        assert dag_id == self.dag_id
        return self


@pytest.fixture
def following(service: Service, settings, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the allocator gave the device after its first trial: a trial of SVM, when asked."""
    from easeml_core.service import decide

    given: list[dict[str, Any]] = []

    def decide_next(*_: object, wait_seconds: float) -> decide.Assignment:
        assert wait_seconds == 0, "a train step waits for no work"
        given.append(lease_next(service, settings, "SVM"))
        return decide.Assignment(**given[-1])

    monkeypatch.setattr(decide, "decide", decide_next)
    return given


def test_a_trial_that_ended_hands_its_device_over_at_once(
    service: Service, standby: ScriptedStandby, assignment, following, context
) -> None:
    with pytest.raises(DownstreamTasksSkipped):
        _train(assignment).execute(context | {"ti": Instance(is_paused=False)})
    (after,) = following
    assert len(standby.started) == 2
    assert (_folder(after) / "leash").stat().st_mtime > time.time() + 5, "nobody holds its leash yet"
    with service.ledger.transaction() as session:
        ended, next_ = session.scalars(select(Trial).order_by(Trial.id))
        assert (ended.state, next_.state) == ("succeeded", "leased")
        charged = ended.cost_seconds

    assert len(standby.promotions) == 1
    # Should the settle step run nevertheless, nothing changes.
    assert _settle(assignment, {"stopped": None}) == "succeeded"
    assert _train(after).execute(context)["trial_id"] == after["trial_id"]
    assert len(standby.started) == 2, "attached, not started again"
    with service.ledger.transaction() as session:
        assert session.get_one(Trial, assignment["trial_id"]).cost_seconds == charged


def test_a_paused_device_drains(
    service: Service, standby: ScriptedStandby, assignment, following, context
) -> None:
    with pytest.raises(DownstreamTasksSkipped):
        _train(assignment).execute(context | {"ti": Instance(is_paused=True)})
    assert (following, len(standby.started)) == ([], 1)
    assert _trial(service).state == "succeeded"
    assert len(standby.promotions) == 1


@pytest.mark.parametrize("behaviour", ["fault", "interrupted"])
def test_after_what_is_no_end_of_a_trial_nothing_is_handed_over(
    standby: ScriptedStandby, assignment, following, context, behaviour: str
) -> None:
    standby.behaviour = behaviour
    assert _train(assignment).execute(context | {"ti": Instance(is_paused=False)})["stopped"] is None
    assert following == []


def test_a_handover_that_fails_is_left_to_the_steps_that_follow(
    service: Service, standby: ScriptedStandby, assignment, context, monkeypatch: pytest.MonkeyPatch
) -> None:
    from easeml_core.service import decide

    def away(*_: object, **__: object) -> None:
        raise OSError("the ledger is away")

    monkeypatch.setattr(decide, "decide", away)
    trained = _train(assignment).execute(context | {"ti": Instance(is_paused=False)})
    assert trained["stopped"] is None
    assert _settle(assignment, trained) == "succeeded"


def test_the_next_try_attaches_after_the_task_process_was_killed(
    service: Service, standby: ScriptedStandby, assignment, context
) -> None:
    standby.behaviour = "wait"
    task = _task_process(_train(assignment), context)
    until(lambda: context["task_state_store"].get("trainer"))
    os.kill(task, signal.SIGKILL)
    assert _exit_code(task) == -signal.SIGKILL
    assert len(members(standby.started[0])) == 1, "the trainer goes on"

    (_folder(assignment) / "go").touch()
    trained = _train(assignment).execute(context)
    assert trained["stopped"] is None
    assert len(standby.started) == 1, "attached, not started again"
    assert _settle(assignment, trained) == "succeeded"
    assert _trial(service).attempt == 1


def test_the_next_try_attaches_although_nothing_was_stored(
    standby: ScriptedStandby, assignment, context
) -> None:
    standby.behaviour = "wait"
    task = _task_process(_train(assignment), context)
    until(lambda: context["task_state_store"].get("trainer"))
    os.kill(task, signal.SIGKILL)
    _exit_code(task)
    context["task_state_store"].path.unlink()  # killed between starting the trainer and storing who it is

    (_folder(assignment) / "go").touch()
    _train(assignment).execute(context)
    assert len(standby.started) == 1


def test_a_trainer_that_ended_while_nobody_watched_is_settled_not_repeated(
    standby: ScriptedStandby, assignment, context
) -> None:
    standby.behaviour = "wait"
    task = _task_process(_train(assignment), context)
    until(lambda: context["task_state_store"].get("trainer"))
    os.kill(task, signal.SIGKILL)
    _exit_code(task)
    (_folder(assignment) / "go").touch()
    until(lambda: not members(standby.started[0]))

    trained = _train(assignment).execute(context)
    assert len(standby.started) == 1
    assert _settle(assignment, trained) == "succeeded"


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
    task = _task_process(_train(assignment), context)
    grandchild = _grandchild(_folder(assignment))
    os.kill(task, signal.SIGTERM)
    assert _exit_code(task) == 1, "the task fails: it did not do its work"
    assert members(standby.started[0]) == []
    assert not alive(grandchild)

    with pytest.raises(AirflowException, match="machinery"):
        _settle(assignment, None)
    assert _trial(service).state == "planned", "an interruption is nobody's fault: it is tried again"


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
    trained = _train(assignment).execute(context)
    assert trained["stopped"] == "deadline"
    assert members(standby.started[0]) == []
    assert _settle(assignment, trained) == "failed"
    trial = _trial(service)
    assert trial.failure == "deadline"
    assert "time limit" in trial.reason


def test_a_cancelled_task_ends_its_trial(
    service: Service, standby: ScriptedStandby, assignment, context, quick_renewals
) -> None:
    standby.behaviour = "hang"
    task = _task_process(_train(assignment), context)
    _grandchild(_folder(assignment))
    with service.ledger.transaction() as session:
        session.execute(update(Task).values(state=TaskState.CANCELLED))
    assert _exit_code(task) == 0
    assert members(standby.started[0]) == []
    assert _settle(assignment, {"stopped": "cancelled"}) == "cancelled"


def test_a_fenced_attempt_stops_and_counts_for_nothing(
    service: Service, standby: ScriptedStandby, assignment, context, quick_renewals
) -> None:
    standby.behaviour = "hang"
    task = _task_process(_train(assignment), context)
    _grandchild(_folder(assignment))
    with service.ledger.transaction() as session:
        session.execute(update(Lease).values(attempt=2))  # somebody else's by now
    assert _exit_code(task) == 0
    assert members(standby.started[0]) == []


def test_without_a_lease_nothing_is_started(
    service: Service, standby: ScriptedStandby, assignment, context
) -> None:
    with service.ledger.transaction() as session:
        session.execute(update(Lease).values(attempt=2))
    assert _train(assignment).execute(context)["stopped"] == "fenced"
    assert standby.started == []


def test_the_lease_is_renewed_while_it_trains(
    service: Service, standby: ScriptedStandby, assignment, context, quick_renewals
) -> None:
    standby.behaviour = "wait"
    with service.ledger.transaction() as session:
        before = session.scalars(select(Lease.expires_at)).one()
    run = {"mlflow_run_id": "run-1", "experiment_id": "7"}
    (_folder(assignment) / "run.json").write_text(json.dumps(run))
    task = _task_process(_train(assignment), context)

    def renewed() -> bool:
        with service.ledger.transaction() as session:
            known = session.scalars(select(Attempt.mlflow_run_id)).one() == "run-1"
            return known and session.scalars(select(Lease.expires_at)).one() > before

    until(renewed)
    (_folder(assignment) / "go").touch()
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
    go = _folder(assignment) / "go"

    operator = _train(assignment)
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
    task = _task_process(_train(assignment), context)
    grandchild = _grandchild(_folder(assignment))
    os.kill(task, signal.SIGKILL)  # and no try is left
    _exit_code(task)
    with pytest.raises(AirflowException, match="machinery"):
        _settle(assignment, None)
    assert members(standby.started[0]) == []
    assert not alive(grandchild)
    assert _trial(service).state == "planned"


def test_settling_without_an_assignment_is_red(service: Service) -> None:
    with pytest.raises(AirflowException, match="decide"):
        _settle(None, None)  # type: ignore[arg-type]


def test_the_buttons_lead_into_mlflow(assignment) -> None:
    operator = _train(assignment)
    run_link, champion_link = operator.operator_extra_links
    assert run_link.get_link(operator, ti_key=None) == ""  # type: ignore[arg-type]
    (_folder(assignment) / "run.json").write_text(json.dumps({"mlflow_run_id": "r1", "experiment_id": "7"}))
    run, champion = (link.get_link(operator, ti_key=None) for link in (run_link, champion_link))  # type: ignore[arg-type]
    assert run.endswith("/#/experiments/7/runs/r1?workflowType=machine_learning")
    assert champion.endswith("/#/models/clinic.tumours?workflowType=machine_learning")


def test_the_buttons_lead_where_people_reach_mlflow(assignment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EASEML_MLFLOW_PUBLIC_URL", "https://mlflow.example.org")
    operator = _train(assignment)
    (_folder(assignment) / "run.json").write_text(json.dumps({"mlflow_run_id": "r1", "experiment_id": "7"}))
    shown = [link.get_link(operator, ti_key=None) for link in operator.operator_extra_links]  # type: ignore[arg-type]
    pages = ("experiments/7/runs/r1", "models/clinic.tumours")
    assert shown == [f"https://mlflow.example.org/#/{page}?workflowType=machine_learning" for page in pages]


def _limit(assignment: dict[str, Any], seconds: float) -> None:
    path = Path(assignment["order_path"])
    order = json.loads(path.read_text())
    order["limit_seconds"] = seconds
    path.write_text(json.dumps(order))
