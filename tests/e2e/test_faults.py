"""Everything is killed in the middle of a trial, one after the other, and nobody mends anything."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import psutil
import pytest
from sqlalchemy import select

from easeml_core import naming
from easeml_core.ledger import budgets
from easeml_core.ledger.models import Attempt, Lease, Promotion, Task, Trial, TrialState
from easeml_core.service.trainer_end import heartbeat
from easeml_core.stack import api, leftovers, programs
from easeml_core.stack.layout import Layout
from easeml_core.workorder import read_json
from tests.e2e import tasks
from tests.e2e.installation import Installation, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

TENANTS = ("busy", "eager")
HEAL_SECONDS = 300.0
OVER_SECONDS = 1200.0
# Half a minute or more on a quiet core, with checkpoints in between.
SETTINGS = "candidates: {include: [SmallCNN, SqueezeNet]}\nbudget: {trials: 2}\n"


@dataclass(frozen=True)
class Running:
    """A trial in the middle of its training."""

    trial_id: int
    attempt: int
    device: str
    trainer: int


@dataclass
class Work:
    """Gives the devices something slow to do whenever a test wants to kill it."""

    installation: Installation
    names: list[naming.TaskName] = field(default_factory=list)

    def submit(self) -> None:
        """One more task, of one tenant and the other in turn."""
        number = len(self.names)
        name = f"{TENANTS[number % len(TENANTS)]}/digits-{number}"
        out = self.installation.folder / "busy"
        folder = tasks.digits(out, name, settings=SETTINGS, per_class=60, side=32)
        self.installation.submit(folder.name, folder.path)
        self.names.append(folder.name)
        self.installation.wait_status(folder.name, lambda s: s["accepted"], HEAL_SECONDS, "to be accepted")

    def running(self) -> Running:
        """A trial that is being trained right now, and has a while to go."""
        while True:
            over = [self.installation.status(name)["state"] == "done" for name in self.names]
            if over.count(False) < 2:
                self.submit()
            found = until(lambda: self._find() or self._all_over(), OVER_SECONDS, "a trial is in training")
            if isinstance(found, Running):
                return found

    def _all_over(self) -> bool:
        return all(self.installation.status(name)["state"] == "done" for name in self.names)

    def _find(self) -> Running | None:
        with self.installation.service.ledger.transaction() as session:
            leases = [
                (lease.trial_id, lease.attempt, lease.device) for lease in session.scalars(select(Lease))
            ]
        for trial_id, attempt, device in leases:
            folder = naming.attempt_dir(self.installation.settings.work_dir, trial_id, attempt)
            known, beat = read_json(folder / "trainer.json"), heartbeat(folder)
            if known and beat and beat.phase == "training" and beat.epoch >= 1:
                return Running(trial_id, attempt, device, known["pid"])
        return None


@pytest.fixture(scope="module")
def work(installation: Installation) -> Work:
    return Work(installation)


def the_trainer(installation: Installation, running: Running) -> int:
    return running.trainer


def the_task(installation: Installation, running: Running) -> int:
    """The process in which Airflow runs the train task of that trial."""
    dag = naming.allocate_dag_id(running.device)
    found = installation.airflow.ask(f"dags/{dag}/dagRuns/~/taskInstances?state=running")["task_instances"]
    [pid] = [task["pid"] for task in found if task["task_id"] == "train"]
    return int(pid)


def the_worker(installation: Installation, running: Running) -> int:
    """The LocalExecutor's worker that supervises that task."""
    return int(psutil.Process(the_task(installation, running)).ppid())


def program(name: str) -> Callable[[Installation, Running], int]:
    def find(installation: Installation, running: Running) -> int:
        return installation.stack()[name]

    find.__name__ = name
    return find


@pytest.mark.parametrize(
    "victim",
    [
        the_trainer,
        the_task,
        the_worker,
        *(
            program(name)
            for name in (
                programs.SCHEDULER,
                programs.TRIGGERER,
                programs.MLFLOW,
                programs.POSTGRES,
                programs.STANDBY,
            )
        ),
    ],
    ids=lambda victim: victim.__name__,
)
def test_it_heals_when_killed_in_the_middle_of_a_trial(
    installation: Installation, work: Work, victim: Callable[[Installation, Running], int]
) -> None:
    running = work.running()
    before = installation.stack()
    process = psutil.Process(victim(installation, running))
    assert process.pid not in (0, 1)
    killed_at = datetime.now(UTC)
    process.kill()
    began = time.monotonic()

    def healed() -> bool:
        status = api.status(installation.settings)
        pids = {program.name: program.pid for program in status.programs}
        return status.healthy and process.pid not in pids.values() and pids.keys() == before.keys()

    until(healed, HEAL_SECONDS, f"the stack is healthy after {victim.__name__} was killed")
    healthy = time.monotonic() - began
    # Whether the same attempt went on or another one took over: the trial gets on.
    until(lambda: _goes_on(installation, running, killed_at), HEAL_SECONDS, f"{running} goes on")
    print(f"{victim.__name__}: healthy after {healthy:.1f} s, goes on after {time.monotonic() - began:.1f} s")


def _goes_on(installation: Installation, running: Running, since: datetime) -> bool:
    """Whether the trial has ended well, or has shown life and had its lease renewed since."""
    with installation.service.ledger.transaction() as session:
        trial = session.get_one(Trial, running.trial_id)
        if not TrialState(trial.state).live:
            return trial.state == TrialState.SUCCEEDED
        lease = session.scalars(select(Lease).where(Lease.trial_id == trial.id)).one_or_none()
        if lease is None:
            return False
        renewed = lease.heartbeat_at > since
        folder = naming.attempt_dir(installation.settings.work_dir, trial.id, lease.attempt)
    beat = heartbeat(folder)
    return bool(renewed and beat and beat.phase == "training" and beat.time > since.timestamp())


@pytest.fixture(scope="module")
def over(installation: Installation, work: Work) -> dict[str, dict[str, Any]]:
    """The status of each task when all are over and housekeeping has run once more."""
    statuses = {str(name): installation.wait_over(name, OVER_SECONDS) for name in work.names}
    assert statuses, "the tests above have made work"
    # A device that has nothing to do waits in its decide task; it holds no trial.
    installation.sweep(HEAL_SECONDS)
    return statuses


def test_every_trial_ended_once_and_was_charged_once(
    installation: Installation, over: dict[str, dict[str, Any]]
) -> None:
    with installation.service.ledger.transaction() as session:
        assert session.scalars(select(Lease)).all() == []
        assert session.scalars(select(Attempt).where(Attempt.ended_at.is_(None))).all() == []
        for task in session.scalars(select(Task).where(Task.tenant_id.in_(TENANTS))):
            trials = session.scalars(select(Trial).where(Trial.task_id == task.id)).all()
            assert [trial.state for trial in trials] == [TrialState.SUCCEEDED] * 2
            assert len({trial.candidate_id for trial in trials}) == 2
            for trial in trials:
                attempts = session.scalars(select(Attempt).where(Attempt.trial_id == trial.id)).all()
                ended = [attempt.state for attempt in attempts]
                assert ended.count("succeeded") == 1, ended
                assert set(ended) <= {"succeeded", "interrupted", "lost"}, ended
                assert trial.cost_seconds == pytest.approx(sum(attempt.seconds for attempt in attempts))
                # Time is charged that was computed, and no second of it twice.
                assert trial.ended_at is not None
                lived = (trial.ended_at - trial.created_at).total_seconds()
                assert 0 < trial.cost_seconds <= lived + 1
            budget = budgets.budget_of(session, task)
            assert (budget.used_trials, budget.remaining_trials, budget.reserved_seconds) == (2, 0, 0.0)
            assert budget.charged_seconds == pytest.approx(sum(trial.cost_seconds for trial in trials))


def test_no_run_stays_open_in_mlflow(installation: Installation, over: dict[str, dict[str, Any]]) -> None:
    assert installation.mlflow.runs(condition="attributes.status = 'RUNNING'") == []
    for name, status in over.items():
        runs = {run["info"]["run_id"]: run for run in installation.mlflow.runs(name)}
        for trial in status["trials"]:
            run = runs[trial["mlflow_run_id"]]
            assert run["info"]["status"] == "FINISHED"
            assert run["data"]["tags"]["easeml.attempt"] == str(trial["attempt"])
            assert run["data"]["metrics"]["quality"] == pytest.approx(trial["quality"])


def test_the_champion_is_the_best_trial(installation: Installation, over: dict[str, dict[str, Any]]) -> None:
    for name, status in over.items():
        champion = status["champion"]
        assert champion["quality"] == max(trial["quality"] for trial in status["trials"])
        version = installation.mlflow.champion(name.replace("/", "."))
        assert (version["version"], version["run_id"]) == (
            champion["model_version"],
            champion["mlflow_run_id"],
        )
        with installation.service.ledger.transaction() as session:
            query = (
                select(Promotion.quality).where(Promotion.task_id == status["task_id"]).order_by(Promotion.id)
            )
            qualities = list(session.scalars(query))
        assert qualities == sorted(set(qualities)), "only a better trial is promoted, and once"


def test_no_trainer_is_left_and_no_device_is_out(
    installation: Installation, over: dict[str, dict[str, Any]]
) -> None:
    layout = Layout.of(installation.settings.home)
    standby = psutil.Process(installation.stack()[programs.STANDBY])
    until(lambda: standby.children() == [], 60, "the standby has no child")

    def strays() -> list[psutil.Process]:
        ours = leftovers.find(layout)
        supervisor = psutil.Process(installation.stack()["supervisord"])
        known = {supervisor.pid, *(child.pid for child in supervisor.children(recursive=True))}
        return [process for process in ours if process.pid not in known and process.is_running()]

    until(lambda: not strays(), 120, lambda: f"no process is outside of the supervisor's tree: {strays()}")
    dags = installation.airflow.ask("dags?dag_id_pattern=easeml_")["dags"]
    assert len(dags) == 5
    assert not [dag["dag_id"] for dag in dags if dag["is_paused"]]


def test_it_works_as_before(installation: Installation, over: dict[str, dict[str, Any]]) -> None:
    settings = "candidates: {include: [RidgeRegression, KNN]}\nbudget: {trials: 2}\n"
    folder = tasks.diabetes(installation.folder / "after", "busy/after", settings=settings)
    installation.submit(folder.name, folder.path)
    status = installation.wait_over(folder.name, OVER_SECONDS)
    assert [trial["attempt"] for trial in status["trials"]] == [1, 1]
    answer = installation.tenant("infer", folder.name, *sorted(folder.inputs.iterdir()), "--timeout", 300)
    assert len(answer["predictions"]) == len(folder.labels)
