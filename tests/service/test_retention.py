from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from easeml_core import naming
from easeml_core.errors import OperatorError
from easeml_core.ledger import Ledger, promotions
from easeml_core.ledger.models import Trial
from easeml_core.ledger.session import lock
from easeml_core.naming import TaskName
from easeml_core.service import Service, decide, intake, retention, settle

DAY = 86400.0


def age(path: Path, days: float) -> None:
    then = time.time() - days * DAY
    os.utime(path, (then, then))


def make_version(service: Service, digest: str, days: float = 40) -> Path:
    digest = hashlib.sha256(digest.encode()).hexdigest()
    folder = naming.version_dir(service.settings.versions_dir, TaskName("clinic", "tumours"), digest)
    folder.mkdir(parents=True)
    (folder / "inputs.npy").write_bytes(b"x")
    age(folder, days)
    return folder


def train(service: Service, make_result: Any) -> int:
    a = decide.decide(service, "cpu0", 0.0)
    assert a is not None
    settle.settle(service, a.trial_id, a.attempt, make_result(a.trial_id, a.attempt))
    return a.trial_id


def test_folders_of_trials_go_some_time_after_their_end(
    service: Service, add_task: Any, make_result: Any
) -> None:
    add_task()
    old, new = train(service, make_result), train(service, make_result)
    live = decide.decide(service, "cpu0", 0.0)
    assert live is not None
    with service.ledger.transaction() as session:
        session.execute(
            sa.text("UPDATE trials SET ended_at = ended_at - interval '31 days' WHERE id = :id"), {"id": old}
        )
    assert retention.drop_trials(service) == 1
    assert retention.drop_trials(service) == 0
    left = {path.name for path in service.settings.work_dir.iterdir()}
    assert left == {naming.trial_label(trial) for trial in (new, live.trial_id)}


def test_versions_go_once_nothing_refers_to_them(service: Service, add_task: Any, make_result: Any) -> None:
    add_task(digest="first")
    first = make_version(service, "first")
    trial = train(service, make_result)
    with service.ledger.transaction() as session:
        promotions.record_promotion(session, session.get_one(Trial, trial), "1", "best so far")
    add_task(digest="second")
    second = make_version(service, "second")
    task_id = add_task(digest="third")
    third, stray, fresh = (
        make_version(service, name, days) for name, days in (("third", 40), ("x", 40), ("y", 1))
    )
    staging = service.settings.versions_dir / ".staging" / "1-a" / "upload"
    staging.mkdir(parents=True)
    age(staging, 40)
    assert retention.drop_versions(service) == 2
    kept = (first, third, fresh, staging)  # the champion's, the task's, a young one, intake's own
    assert all(path.exists() for path in kept)
    assert not any(path.exists() for path in (second, stray))
    trial = train(service, make_result)
    with service.ledger.transaction() as session:
        promotions.record_promotion(session, session.get_one(Trial, trial), "2", "on new data")
    assert task_id
    assert retention.drop_versions(service) == 1
    assert not first.exists(), "its champion is another one's predecessor now"


def test_versions_stay_while_intake_works(service: Service) -> None:
    folder = make_version(service, "unregistered yet")
    with service.ledger.transaction() as session:
        lock(session, intake.LOCK)
        assert retention.drop_versions(service) == 0
    assert folder.exists()
    assert retention.drop_versions(service) == 1


def test_airflows_logs_go_when_nobody_writes_them_any_more(service: Service) -> None:
    logs = service.settings.home / "airflow" / "logs"
    old, new = logs / "dag_id=a/run_id=1/attempt=1.log", logs / "dag_id=a/run_id=2/attempt=1.log"
    for path, days in ((old, 31.0), (new, 29.0)):
        path.parent.mkdir(parents=True)
        path.write_text("said")
        age(path, days)
    assert retention.drop_airflow_logs(service) == 1
    age(old.parent, 31)
    assert retention.drop_airflow_logs(service) == 0
    assert [path for path in logs.rglob("*") if path.name.startswith("run_id")] == [new.parent]


def test_old_rows_of_airflows_database_go(
    service: Service, empty_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the environment that Airflow gives a task, which is to keep it from this very database."""
    nowhere = "airflow-db-not-allowed:///"
    monkeypatch.setenv("AIRFLOW_HOME", str(tmp_path / "airflow"))
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "client")
    variables = ("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC")
    real = {**os.environ, **dict(zip(variables, (empty_database_url, ""), strict=True))}
    subprocess.run([sys.executable, "-m", "airflow", "db", "migrate"], env=real, check=True)
    for name in variables:
        monkeypatch.setenv(name, nowhere)

    def events() -> list[str]:
        with Ledger(empty_database_url).transaction() as session:
            rows = session.scalars(sa.text("SELECT event FROM log WHERE event LIKE 'days %' ORDER BY event"))
            return list(rows)

    with Ledger(empty_database_url).transaction() as session:
        for days in (29, 31):
            insert = "INSERT INTO log (dttm, event) VALUES (now() - make_interval(days => :days), :event)"
            session.execute(sa.text(insert), {"days": days, "event": f"days {days}"})
    assert events() == ["days 29", "days 31"]
    retention.clean_airflow(service, empty_database_url)
    assert events() == ["days 29"]
    with pytest.raises(OperatorError, match="db clean` failed"):
        retention.clean_airflow(service, empty_database_url + "_gone")


def test_what_takes_long_is_done_once_a_day(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    assert retention.is_due(service)
    assert not retention.is_due(service)
    age(service.settings.run_dir / "retention", 1.1)
    assert retention.is_due(service)
