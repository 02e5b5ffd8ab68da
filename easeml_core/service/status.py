"""Writes `status.json` and `status.md` into a task's folder: all that a tenant is told.

`Status` is the schema of `status.json`. It is made from the ledger alone, save for what only intake sees
of an upload (`upload`, `ignored`), which is carried over from the file that is there.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import urllib.parse
import urllib.request
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from easeml_core import naming
from easeml_core.errors import OperatorError, Problem
from easeml_core.naming import TaskName
from easeml_core.service.predictions import extension
from easeml_core.service.status_text import status_text

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from easeml_core.ledger.models import Task
    from easeml_core.service.context import Service

log = logging.getLogger(__name__)

WAITING = "waiting"
_MLFLOW_SECONDS = 1.0


class Status(BaseModel):
    """`status.json`. Times are ISO 8601 in UTC, costs seconds, qualities in [0, 1]; unknown is null.

    Lists of objects are those of `easeml_core.ledger.reports.task_report`.
    """

    model_config = ConfigDict(extra="forbid")

    task: str = Field(description="<tenant>/<task>")
    tenant: str
    name: str
    task_id: int | None = Field(None, description="number in the ledger; null before anything was accepted")
    state: str = Field(
        description="waiting (upload incomplete), rejected, open, paused, done, failed or cancelled"
    )
    state_reason: str = ""
    accepted: bool = Field(False, description="a spec and a data version were accepted")
    upload: str | None = Field(None, description="fingerprint of the upload that this answers")
    problems: list[dict[str, Any]] = Field(
        default_factory=list,
        description="of the latest upload and of control.json: file, message and, where known, line, field, "
        "fix",
    )
    ignored: list[str] = Field(default_factory=list, description="files in the folder that mean nothing here")
    program: str = ""
    template: str = ""
    objective: str = ""
    weight: float = 1.0
    deadline: str | None = None
    stop_quality: float | None = None
    spec: dict[str, Any] = Field(default_factory=dict)
    data: dict[str, Any] | None = Field(
        None, description="current data version: digest, n_train, n_val, created_at, facts (VersionFacts)"
    )
    budget: dict[str, Any] | None = Field(None, description="limits, used, charged and remaining")
    candidates: list[dict[str, Any]] = Field(default_factory=list)
    champion: dict[str, Any] | None = None
    leaderboard: list[dict[str, Any]] = Field(default_factory=list)
    running: list[dict[str, Any]] = Field(default_factory=list)
    trials: list[dict[str, Any]] = Field(default_factory=list)
    inferences: list[dict[str, Any]] = Field(
        default_factory=list,
        description="requests under infer/: request, fingerprint, state (waiting, done, rejected), "
        "model_version, predictions (key), problems",
    )
    links: dict[str, str] = Field(default_factory=dict, description="experiment: URL of the runs in MLflow")
    created_at: str | None = None
    updated_at: str | None = None


def write_status(
    service: Service,
    task_id: int,
    *,
    upload: str | None = None,
    ignored: Sequence[str] | None = None,
) -> bool:
    """Bring a task's status files up to date; returns whether they changed.

    `upload` and `ignored` are what intake has just seen. Safe to call from several processes: they take
    turns, and each reads the ledger within its turn.
    """
    from easeml_core.ledger.models import Task
    from easeml_core.ledger.session import lock
    from easeml_core.ledger.tasks import task_name

    with service.ledger.transaction() as session:
        lock(session, f"easeml-status-{task_id}")
        task = session.get(Task, task_id)
        if task is None:
            return False
        name = task_name(task)
        before = _before(service, name)
        status = _status(session, task, name)
        status.upload = upload or before.get("upload")
        status.ignored = list(before.get("ignored", ()) if ignored is None else ignored)
        if url := _experiment_url(service, name, status, before):
            status.links = {"experiment": url}
        return _write(service, name, status)


def write_unregistered(
    service: Service, name: TaskName, state_reason: str, *, upload: str | None, problems: Iterable[Problem]
) -> bool:
    """Status of a folder that the ledger does not know yet: it waits, or something of ours failed."""
    status = Status(
        task=str(name),
        tenant=name.tenant,
        name=name.task,
        state=WAITING,
        state_reason=state_reason,
        upload=upload,
        problems=[problem.as_dict() for problem in problems],
    )
    return _write(service, name, status)


def _write(service: Service, name: TaskName, status: Status) -> bool:
    text = json.dumps(status.model_dump(mode="json"), indent=1, ensure_ascii=False, allow_nan=False)
    # The text for people first: whoever sees the new status.json finds it.
    changed = service.bucket.write_if_changed(name.key(naming.STATUS_MD), status_text(status))
    return service.bucket.write_if_changed(name.key(naming.STATUS_JSON), text + "\n") or changed


def _before(service: Service, name: TaskName) -> dict[str, Any]:
    """What `status.json` says now; anything may stand there, for its tenant can write to it."""
    content = service.bucket.read_if_there(name.key(naming.STATUS_JSON))
    try:
        before = Status.model_validate_json(content or b"{}")
    except ValueError:
        return {}
    return before.model_dump()


def _status(session: Session, task: Task, name: TaskName) -> Status:
    from easeml_core.ledger import uploads
    from easeml_core.ledger.reports import task_report

    report = {key: value for key, value in task_report(session, task).items() if key in Status.model_fields}
    report["accepted"] = task.data_version_id is not None
    told = uploads.notes(session, [name.prefix, name.key(naming.CONTROL_FILE)])
    report["problems"] = [*report.get("problems", ()), *told]
    return Status(**report, inferences=_inferences(session, task, name))


def _inferences(session: Session, task: Task, name: TaskName) -> list[dict[str, Any]]:
    """The latest content of each request."""
    from sqlalchemy import select

    from easeml_core.ledger.models import Inference

    rows = session.scalars(
        select(Inference)
        .where(Inference.task_id == task.id)
        .order_by(Inference.request, Inference.updated_at.desc(), Inference.id.desc())
    )
    latest: dict[str, dict[str, Any]] = {}
    ending = extension(task.template)
    for row in rows:
        latest.setdefault(
            row.request,
            {
                "request": row.request,
                "fingerprint": row.fingerprint,
                "state": row.state,
                "model_version": row.model_version,
                "predictions": name.predictions_key(row.request, ending) if row.state == "done" else None,
                "problems": row.problems,
            },
        )
    return list(latest.values())


def _experiment_url(service: Service, name: TaskName, status: Status, before: dict[str, Any]) -> str | None:
    try:
        base = service.settings.resolved_mlflow_url().rstrip("/")
        shown = service.settings.shown_mlflow_url()
    except OperatorError:
        return None
    known = before.get("links", {}).get("experiment", "")
    if isinstance(known, str) and known.startswith(f"{shown}/#/"):
        return known
    if not any(trial.get("mlflow_run_id") for trial in status.trials):
        return None
    query = urllib.parse.urlencode({"experiment_name": name.experiment})
    url = f"{base}/api/2.0/mlflow/experiments/get-by-name?{query}"
    request = urllib.request.Request(url, headers=_sign_in())
    try:
        with urllib.request.urlopen(request, timeout=_MLFLOW_SECONDS) as answer:
            number = json.load(answer)["experiment"]["experiment_id"]
    except (OSError, ValueError, KeyError) as error:
        log.info("no link to %s in MLflow yet: %s", name, error)
        return None
    return f"{shown}/#/experiments/{number}/runs{naming.MLFLOW_VIEW}"


def _sign_in() -> dict[str, str]:
    """The header that signs in to MLflow as its own client would; none where no user is set."""
    user, password = (os.environ.get(f"MLFLOW_TRACKING_{part}", "") for part in ("USERNAME", "PASSWORD"))
    if not (user and password):
        return {}
    return {"Authorization": f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"}
