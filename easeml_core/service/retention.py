"""Removes what nobody needs any more: it would fill the disk. `settings.keep_days` says when that is.

Results stay where they are kept for good: in the ledger and in MLflow.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from easeml_core import naming
from easeml_core.errors import OperatorError

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from easeml_core.service.context import Service

SECONDS_PER_DAY = 86400.0
CLEAN_SECONDS = 1800.0


def is_due(service: Service) -> bool:
    """Whether a day has passed since this last said so: for what takes long and is not urgent."""
    stamp = service.settings.run_dir / "retention"
    if stamp.exists() and time.time() - stamp.stat().st_mtime < SECONDS_PER_DAY:
        return False
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.touch()
    return True


def drop_trials(service: Service) -> int:
    """Remove the folders (orders, logs, results) of trials that ended before then; returns how many."""
    from sqlalchemy import func, select

    from easeml_core.ledger.models import Trial

    work = service.settings.work_dir
    folders = {path.name: path for path in work.glob("trial-*")}
    old = func.clock_timestamp() - timedelta(days=service.settings.keep_days)
    query = select(Trial.id).where(Trial.ended_at < old)
    ended = service.ledger.repeat(lambda session: session.scalars(query).all()) if folders else []
    gone = [folders[label] for label in map(naming.trial_label, ended) if label in folders]
    for folder in gone:
        shutil.rmtree(folder, ignore_errors=True)
    return len(gone)


def drop_versions(service: Service) -> int:
    """Remove data versions, built before then, that no task, champion or live trial refers to.

    Returns how many. Whoever goes back to such data has it built again. Where intake is at work, nothing is
    removed now: it may be about to refer to one.
    """
    from easeml_core.ledger.session import try_lock
    from easeml_core.service.intake import LOCK

    versions = service.settings.versions_dir
    old = time.time() - service.settings.keep_days * SECONDS_PER_DAY
    folders = [path for path in versions.glob("[!.]*/*/*") if path.is_dir() and path.stat().st_mtime < old]
    if not folders:
        return 0
    with service.ledger.transaction() as session:
        if not try_lock(session, LOCK):
            return 0
        gone = [folder for folder in folders if folder not in _referred(session, versions)]
        for folder in gone:
            shutil.rmtree(folder, ignore_errors=True)
    return len(gone)


def _referred(session: Session, versions: Path) -> set[Path]:
    """Folders of the versions that tasks are on, that champions were trained on, that trials train on."""
    from sqlalchemy import func, or_, select

    from easeml_core.ledger.budgets import LIVE
    from easeml_core.ledger.models import DataVersion, Promotion, Task, Trial

    latest = select(func.max(Promotion.id)).group_by(Promotion.task_id)
    champions = (
        select(Trial.data_version_id)
        .join(Promotion, Promotion.trial_id == Trial.id)
        .where(Promotion.id.in_(latest))
    )
    live = select(Trial.data_version_id).where(Trial.state.in_(LIVE))
    query = (
        select(Task.tenant_id, Task.name, DataVersion.digest)
        .join(Task, Task.id == DataVersion.task_id)
        .where(
            or_(
                Task.data_version_id == DataVersion.id,
                DataVersion.id.in_(champions),
                DataVersion.id.in_(live),
            )
        )
    )
    rows = session.execute(query).all()
    return {
        naming.version_dir(versions, naming.TaskName(tenant, task), digest) for tenant, task, digest in rows
    }


def drop_airflow_logs(service: Service) -> int:
    """Remove Airflow's task logs that were not written to since then, and folders they leave empty.

    Returns how many files.
    """
    logs = service.settings.home / "airflow" / "logs"
    old = time.time() - service.settings.keep_days * SECONDS_PER_DAY
    gone = 0
    for here, folders, files in os.walk(logs, topdown=False):
        for name in files:
            path = Path(here, name)
            with suppress(FileNotFoundError):
                if path.lstat().st_mtime < old:
                    path.unlink()
                    gone += 1
        for name in folders:
            with suppress(OSError):  # not empty, or a link
                if Path(here, name).stat().st_mtime < old:
                    Path(here, name).rmdir()
    return gone


def clean_airflow(service: Service, airflow_url: str) -> None:
    """Remove rows of Airflow's database at `airflow_url` that are older: `airflow db clean`, some seconds.

    Raises OperatorError with the end of its output when that fails.
    """
    before = datetime.now(UTC) - timedelta(days=service.settings.keep_days)
    ours = {name: value for name, value in os.environ.items() if not name.startswith("_AIRFLOW")}
    done = subprocess.run(
        [
            *(sys.executable, "-m", "airflow", "db", "clean", "--yes", "--skip-archive"),
            *("--error-on-cleanup-failure", "--clean-before-timestamp", before.isoformat(timespec="seconds")),
        ],
        # Airflow gives a task URLs that lead nowhere; empty: no second, asynchronous engine.
        env={
            **ours,
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": airflow_url,
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": "",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=CLEAN_SECONDS,
    )
    if done.returncode != 0:
        raise OperatorError(f"`airflow db clean` failed: {(done.stdout + done.stderr).strip()[-1500:]}")
