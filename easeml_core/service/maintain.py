"""What keeps the service true when something died: gives up expired leases, repeats what was missed, tidies.

Each step works on its own: one that fails is reported and the others still run.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from easeml_core import naming
from easeml_core.service import backup, retention, settle
from easeml_core.service.offers import offer_new

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from easeml_core.ledger.models import Task
    from easeml_core.service.context import Service

log = logging.getLogger(__name__)

JOB_SECONDS = 24 * 3600.0  # how long the log of a job that failed stays


@dataclass(slots=True)
class SweepReport:
    """What a sweep did; `problems` are the steps that failed, in words."""

    expired_leases: int = 0
    extended_tasks: list[str] = field(default_factory=list)  # offered what the catalogue has gained
    closed_tasks: list[str] = field(default_factory=list)
    promoted: list[str] = field(default_factory=list)
    rescoring: list[str] = field(default_factory=list)  # whose champions are scored on new data, beside this
    closed_runs: int = 0
    freed_folders: int = 0
    dropped_trials: int = 0
    dropped_versions: int = 0
    dropped_logs: int = 0
    backup: str | None = None  # the folder of the one just made
    problems: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


def sweep(service: Service) -> SweepReport:
    """Do everything once; safe to repeat, to kill, and to run beside the devices."""
    report = SweepReport()

    def step(name: str, work: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return work(service, *arguments)
        except Exception as error:  # a server that is away must not keep the other steps from running
            log.warning("%s failed", name, exc_info=True)
            report.problems.append(f"{name}: {type(error).__name__}: {error}")

    report.expired_leases = step("expired leases", settle.expire) or 0
    report.closed_tasks = step("tasks that are over", _close_tasks) or []
    for task_id, name in step("tasks", _tasks) or []:
        if step(f"new candidates of {name}", offer_new, task_id):
            report.extended_tasks.append(name)
    for task_id, name in step("champions of earlier data", _unscored) or []:
        if step(f"champion of {name} on its new data", _rescore, task_id) is not None:
            report.rescoring.append(name)
    for task_id, name in step("promotions that are due", _promotions_due) or []:
        if step(f"promotion of {name}", _promote, task_id) is not None:
            report.promoted.append(name)
    report.closed_runs = step("MLflow runs", _close_runs) or 0
    report.freed_folders = step("work folders", free_folders) or 0
    report.dropped_trials = step("folders of old trials", retention.drop_trials) or 0
    report.dropped_versions = step("old data versions", retention.drop_versions) or 0
    if (made := step("backup", backup.back_up)) is not None:
        report.backup = str(made)
    if step("retention", retention.is_due):
        report.dropped_logs = step("Airflow's logs", retention.drop_airflow_logs) or 0
        step("Airflow's database", _clean_airflow)
    for task_id, name in step("tasks", _tasks) or []:
        step(f"status of {name}", _write_status, task_id)
    return report


def free_folders(service: Service) -> int:
    """Drop checkpoints and other folders of trials that have ended; their orders, logs and results stay.

    Also what is left of jobs that failed long ago. Returns how many folders went.
    """
    from sqlalchemy import select

    from easeml_core.ledger.budgets import LIVE
    from easeml_core.ledger.models import Trial

    work = service.settings.work_dir
    # Folders first: a trial that starts after the query has no folder among these.
    folders = [(path, trial_id) for path in work.glob("trial-*") for trial_id in _trial_id(path)]
    query = select(Trial.id).where(Trial.state.in_(LIVE))
    live = set(service.ledger.repeat(lambda session: session.scalars(query).all()))
    freed = 0
    for folder, trial_id in folders:
        if trial_id in live:
            continue
        attempts = [path for path in folder.glob("attempt-*") if path.is_dir()]
        inside = [path for attempt in attempts for path in attempt.iterdir() if path.is_dir()]
        for path in (naming.checkpoint_dir(work, trial_id), *inside):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
                freed += 1
    for path in (work / "jobs").glob("*"):
        with suppress(FileNotFoundError):  # those that run come and go
            if time.time() - path.stat().st_mtime > JOB_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
                freed += 1
    return freed


def _trial_id(path: Path) -> list[int]:
    digits = path.name.removeprefix("trial-")
    return [int(digits)] if digits.isdigit() else []


class _LiveAttempts(Collection[tuple[int, int]]):
    """The attempts that hold a lease *when asked*: a run begun after the sweep did is never an orphan."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def _read(self) -> list[tuple[int, int]]:
        from sqlalchemy import select

        from easeml_core.ledger.models import Lease

        query = select(Lease.trial_id, Lease.attempt)
        rows = self._service.ledger.repeat(lambda session: session.execute(query).all())
        return [(trial_id, attempt) for trial_id, attempt in rows]

    def __contains__(self, item: object) -> bool:
        return item in self._read()

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())


def _close_runs(service: Service) -> int:
    from easeml_core.tracking import Tracking

    return len(Tracking(service.settings.resolved_mlflow_url()).close_orphans(_LiveAttempts(service)))


def _clean_airflow(service: Service) -> None:
    for url in backup.databases(service.settings.resolved_database_url()):
        if str(url.database).endswith("airflow"):
            retention.clean_airflow(service, url.render_as_string(hide_password=False))


def _close_tasks(service: Service) -> list[str]:
    """Close open tasks that are over though no device asked (a deadline passed while all are drained)."""
    from sqlalchemy import select

    from easeml_core.ledger import lifecycle, trials
    from easeml_core.ledger.models import Task, TaskState

    def close(session: Session, task_id: int) -> bool:
        task = trials.locked_task(session, task_id)
        return lifecycle.review(session, task, service.settings.max_failures) is not None

    query = select(Task.id).where(Task.state == TaskState.OPEN)
    wanted = set(service.ledger.repeat(lambda session: session.scalars(query).all()))
    return [
        name
        for task_id, name in _tasks(service)
        if task_id in wanted and service.ledger.repeat(partial(close, task_id=task_id))
    ]


def _tasks(service: Service) -> list[tuple[int, str]]:
    from sqlalchemy import select

    from easeml_core.ledger.models import Task
    from easeml_core.ledger.tasks import task_name

    tasks = service.ledger.repeat(lambda session: session.scalars(select(Task).order_by(Task.id)).all())
    return [(task.id, str(task_name(task))) for task in tasks]


def _where(service: Service, holds: Callable[[Session, Task], Any]) -> list[tuple[int, str]]:
    """The tasks with data for which something holds."""
    from sqlalchemy import select

    from easeml_core.ledger.models import Task
    from easeml_core.ledger.tasks import task_name

    with service.ledger.transaction() as session:
        tasks = session.scalars(select(Task).where(Task.data_version_id.is_not(None)).order_by(Task.id)).all()
        return [(task.id, str(task_name(task))) for task in tasks if holds(session, task)]


def _unscored(service: Service) -> list[tuple[int, str]]:
    from easeml_core.ledger.promotions import standing

    def is_unscored(session: Session, task: Task) -> bool:
        found = standing(session, task)
        return found is not None and found.pending

    return _where(service, is_unscored)


def _rescore(service: Service, task_id: int) -> Any:
    """Start the job that does it, and then promotes: models are loaded beside the trainer's libraries."""
    from easeml_core.service import trainer
    from easeml_core.tracking import Tracking

    Tracking(service.settings.resolved_mlflow_url()).check()  # nobody hears of a job that found it away
    return trainer.start_job("promote", {"task_id": task_id}, service.settings, trainer.RESCORE_SECONDS)


def _promotions_due(service: Service) -> list[tuple[int, str]]:
    from easeml_core.ledger.promotions import promotion_due

    return _where(service, promotion_due)


def _promote(service: Service, task_id: int) -> Any:
    from easeml_core.service.promote import promote

    return promote(service, task_id)


def _write_status(service: Service, task_id: int) -> None:
    from easeml_core.service.status import write_status

    write_status(service, task_id)
