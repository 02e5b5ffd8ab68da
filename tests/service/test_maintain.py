from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from easeml_core import naming
from easeml_core.ledger.models import Task
from easeml_core.service import Service, decide, maintain, settle
from easeml_core.settings import Settings
from easeml_core.tracking import Tracking
from easeml_core.workorder import LOG_FILE, ORDER_FILE, RESULT_FILE


def pass_lease(service: Service) -> None:
    with service.ledger.transaction() as session:
        session.execute(sa.text("UPDATE leases SET expires_at = clock_timestamp() - interval '1 second'"))


def fill(service: Service, trial_id: int, attempt: int) -> tuple[Path, Path]:
    """What a trainer leaves behind; gives the attempt's folder and the checkpoints'."""
    folder = naming.attempt_dir(service.settings.work_dir, trial_id, attempt)
    checkpoints = naming.checkpoint_dir(service.settings.work_dir, trial_id)
    (checkpoints / "last.pt").write_bytes(b"x" * 1000)
    (folder / "model").mkdir()
    (folder / "model" / "weights").write_bytes(b"x" * 1000)
    for name in (LOG_FILE, RESULT_FILE):
        (folder / name).write_text("kept")
    return folder, checkpoints


def test_folders_of_ended_trials_keep_orders_logs_and_results_only(
    service: Service, add_task: Any, make_result: Any
) -> None:
    add_task()
    ended = decide.decide(service, "cpu0", 0.0)
    assert ended is not None
    old_folder, old_checkpoints = fill(service, ended.trial_id, 1)
    settle.settle(service, ended.trial_id, 1, make_result(ended.trial_id, 1))
    live = decide.decide(service, "cpu0", 0.0)
    assert live is not None
    folder, checkpoints = fill(service, live.trial_id, 1)
    assert maintain.free_folders(service) == 2
    assert maintain.free_folders(service) == 0
    assert not old_checkpoints.exists()
    assert sorted(path.name for path in old_folder.iterdir()) == sorted((LOG_FILE, ORDER_FILE, RESULT_FILE))
    assert (checkpoints / "last.pt").exists()
    assert (folder / "model" / "weights").exists()


def test_the_log_of_a_failed_job_stays_for_a_day(service: Service) -> None:
    jobs = service.settings.work_dir / "jobs"
    for name, age in (("promote-old", 2 * maintain.JOB_SECONDS), ("promote-new", 0.0)):
        (jobs / name).mkdir(parents=True)
        os.utime(jobs / name, (time.time() - age,) * 2)
    assert maintain.free_folders(service) == 1
    assert [path.name for path in jobs.iterdir()] == ["promote-new"]


def test_a_sweep_goes_on_past_what_is_away_and_says_so(service: Service, add_task: Any) -> None:
    task_id = add_task()
    a = decide.decide(service, "cpu0", 0.0)
    assert a is not None
    late = add_task("lab/late", spec="deadline: 2020-01-01T00:00:00Z\n")
    pass_lease(service)
    # Port 9: nothing answers there, so runs cannot be closed now.
    report = maintain.sweep(service)
    assert report.as_dict()["expired_leases"] == 1
    assert report.closed_tasks == ["lab/late"]
    assert [problem.split(":")[0] for problem in report.problems] == ["MLflow runs"]
    with service.ledger.transaction() as session:
        assert session.get_one(Task, late).state == "done"
        assert session.get_one(Task, task_id).state == "open"
    assert service.bucket.read("lab/late/status.json")


@pytest.fixture
def tracked(service: Service, tmp_path: Path) -> Service:
    """The service with an MLflow store of its own, without a server."""
    url = f"sqlite:///{tmp_path}/mlflow.db"
    tracked = Service(Settings(**{**service.settings.model_dump(), "mlflow_url": url}))
    return tracked


def test_runs_without_a_live_attempt_are_closed(tracked: Service, add_task: Any) -> None:
    add_task()
    dead = decide.decide(tracked, "cpu0", 0.0)
    assert dead is not None
    tracking = Tracking(tracked.settings.resolved_mlflow_url())
    experiment = tracking.get_or_create_experiment("clinic/tumours")
    old = tracking.create_run(experiment, "old", trial=dead.trial_id, attempt=1)
    pass_lease(tracked)
    live = decide.decide(tracked, "cpu0", 0.0)
    assert live is not None
    assert (live.trial_id, live.attempt) == (dead.trial_id, 2)
    other = tracking.create_run(experiment, "other", trial=77, attempt=1)
    new = tracking.create_run(experiment, "new", trial=live.trial_id, attempt=2)
    assert maintain.sweep(tracked).closed_runs >= 1
    status = {run: tracking.client.get_run(run).info.status for run in (old, other, new)}
    assert status == {old: "KILLED", other: "KILLED", new: "RUNNING"}
