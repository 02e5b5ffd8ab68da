"""Answers requests under `infer/<request>/` with the task's champion.

A request waits while its task has no champion (`status.json` says so) and is answered once per content.
Predictions are written before the request is marked as done: a run that was killed writes them again.

`predictions/<request>.csv` or `.npz` (and `.zip`) holds the answers (see `predictions`). Inputs that cannot
be read, and those too long to be read in full, are named in `predictions/<request>.problems.md`; all but the
former are predicted.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from easeml_core.bucket.entries import Listing
from easeml_core.errors import Problem, TemporaryError, TenantError
from easeml_core.naming import TaskName
from easeml_core.service import trainer
from easeml_core.service.predictions import pictures, predictions_file
from easeml_core.service.status import write_status
from easeml_core.service.status_text import problems_text
from easeml_core.service.uploads import (
    DEFERRED_SECONDS,
    FAILED_SECONDS,
    Ready,
    postpone,
    scan_uploads,
    task_of,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from easeml_core.data import Inputs, VersionFacts
    from easeml_core.service.context import Service

log = logging.getLogger(__name__)

LOCK = "easeml-infer"
PREDICT_SECONDS = 600.0
# What a model is given, by the kind of its inputs.
ARRAYS = {
    "image": ("inputs",),
    "vector": ("inputs",),
    "series": ("values", "offsets"),
    "bytes": ("values", "offsets"),
    "tree": ("values", "offsets", "children"),
}
WAITING, DONE, REJECTED = "waiting", "done", "rejected"


@dataclass
class InferenceReport:
    """Prefixes by what became of them; `deferred` and `failed` are taken again later."""

    done: list[str] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    deferred: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, list[str]]:
        """JSON-ready."""
        return asdict(self)


@dataclass(frozen=True)
class _Champion:
    task_id: int
    facts: VersionFacts


def run_inference(service: Service) -> InferenceReport:
    """Answer every request that is ready. Two runs at once take turns.

    Raises `TemporaryError` or `OperatorError` when bucket or ledger cannot be used at all.
    """
    from easeml_core.data.build import clear_staging
    from easeml_core.ledger.session import lock

    report = InferenceReport()
    with service.ledger.transaction() as session:
        lock(session, LOCK)
        clear_staging(service.settings.versions_dir)
        for item in scan_uploads(service):
            if item.kind == "infer" and item.listing is not None:
                trainer.warm(service.settings)  # while the inputs are read
                getattr(report, _take_safely(service, item, item.listing)).append(item.prefix)
    return report


def _take_safely(service: Service, item: Ready, listing: Listing) -> str:
    begun = time.monotonic()
    try:
        return _take(service, item, listing)
    except TemporaryError as error:
        log.warning("%s is taken later: %s", item.prefix, error)
        postpone(service, item, begun, DEFERRED_SECONDS)
        return "deferred"
    except Exception:
        log.exception("inference of %s failed", item.prefix)
        postpone(service, item, begun, FAILED_SECONDS)
        _admit_failure(service, item)
        return "failed"


def _take(service: Service, item: Ready, listing: Listing) -> str:
    name, request = task_of(listing.prefix), listing.prefix.rpartition("/")[2]
    champion = _champion(service, name)
    if champion is None:
        return _wait(service, item, name, request)
    problems: Sequence[Problem] = ()
    version: str | None = None
    try:
        version, problems = _predict(service, listing, name, request, champion.facts)
        unfinished = [Problem(file, "was not uploaded completely") for file in listing.waits_for]
        problems, state = (*problems, *unfinished), DONE
    except TenantError as error:
        problems, state = error.problems, REJECTED
    _write_problems(service, name, request, problems)
    _record(service, champion.task_id, request, item.fingerprint, state, version, problems)
    write_status(service, champion.task_id)
    _finish(service, item)
    log.info("%s: %s", listing.prefix, state)
    return state


def _admit_failure(service: Service, item: Ready) -> None:
    """Tell the tenant that something of ours failed; the request waits and is tried again."""
    from easeml_core.ledger.tasks import find_task

    name, request = task_of(item.prefix), item.prefix.rpartition("/")[2]
    text = "the service failed on this request, through no fault of yours; it will try again"
    problem = Problem(".", text, fix="nothing; the operator finds the details in the log")
    try:
        with service.ledger.transaction() as session:
            task = find_task(session, name)
            task_id = None if task is None else task.id
        if task_id is not None:
            _record(service, task_id, request, item.fingerprint, WAITING, None, [problem])
            write_status(service, task_id)
    except Exception:
        log.exception("the status of %s cannot be written either", name)


def _champion(service: Service, name: TaskName) -> _Champion | None:
    """The task and the facts of the data that its champion was trained on; None before any."""
    from sqlalchemy import select

    from easeml_core.data import VersionFacts
    from easeml_core.ledger.models import DataVersion, Promotion, Trial
    from easeml_core.ledger.tasks import find_task

    with service.ledger.transaction() as session:
        task = find_task(session, name)
        if task is None:
            return None
        facts = session.scalars(
            select(DataVersion.facts)
            .join(Trial, Trial.data_version_id == DataVersion.id)
            .join(Promotion, Promotion.trial_id == Trial.id)
            .where(Promotion.task_id == task.id)
            .order_by(Promotion.id.desc())
            .limit(1)
        ).one_or_none()
        return None if facts is None else _Champion(task.id, VersionFacts.model_validate(facts))


def _wait(service: Service, item: Ready, name: TaskName, request: str) -> str:
    """Note that a request waits: it is not finished, and is ready again once there is a champion."""
    from easeml_core.ledger.tasks import find_task

    with service.ledger.transaction() as session:
        task = find_task(session, name)
        task_id = None if task is None else task.id
    if task_id is not None:
        _record(service, task_id, request, item.fingerprint, WAITING, None, ())
        write_status(service, task_id)
    return "waiting"


def _predict(
    service: Service, listing: Listing, name: TaskName, request: str, facts: VersionFacts
) -> tuple[str, Sequence[Problem]]:
    """Write the predictions; returns the model's version and the problems of inputs left out or cut."""
    from easeml_core.data import Limits, read_inputs

    limits = Limits.of(service.settings)
    scratch = service.settings.versions_dir / ".staging" / f"{os.getpid()}-{secrets.token_hex(6)}"
    try:
        service.bucket.fetch(
            listing,
            scratch / "upload",
            max_files=limits.max_files,
            max_file=limits.max_file_bytes,
            max_total=limits.max_upload_bytes,
        )
        inputs = read_inputs(scratch / "upload", facts=facts, limits=limits, staging=scratch / "inputs")
        if not inputs.ids:
            raise TenantError(inputs.problems)
        answer, outputs = _ask_model(service, name, inputs, scratch)
        ending, content = predictions_file(inputs.ids, outputs, facts, str(answer["model_version"]))
        packed = pictures(inputs.ids, outputs, facts)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    if packed is not None:
        service.bucket.write(name.predictions_key(request, "zip"), packed)
    service.bucket.write(name.predictions_key(request, ending), content)
    return str(answer["model_version"]), (*inputs.problems, *inputs.cut)


def _ask_model(
    service: Service, name: TaskName, inputs: Inputs, scratch: Path
) -> tuple[dict[str, Any], npt.NDArray[Any]]:
    import numpy as np

    output = scratch / "outputs.npy"
    order: dict[str, Any] = {
        "mlflow_url": service.settings.resolved_mlflow_url(),
        "model": name.model,
        "output": str(output),
    }
    order |= {part: str(inputs.folder / f"{part}.npy") for part in ARRAYS[inputs.kind]}
    answer = trainer.run_job("predict", order, service.settings, PREDICT_SECONDS)
    return answer, np.load(output, allow_pickle=False)


def _write_problems(service: Service, name: TaskName, request: str, problems: Sequence[Problem]) -> None:
    key = name.predictions_key(request, "problems.md")
    if not problems:
        service.bucket.delete(key)
        return
    text = f"# {request}: inputs that were left out or not read in full\n\n"
    service.bucket.write(key, text + problems_text(problem.as_dict() for problem in problems))


def _record(
    service: Service,
    task_id: int,
    request: str,
    fingerprint: str,
    state: str,
    version: str | None,
    problems: Sequence[Problem],
) -> None:
    from sqlalchemy import func
    from sqlalchemy.dialects.postgresql import insert

    from easeml_core.ledger.models import Inference

    values = {
        "state": state,
        "model_version": version,
        "problems": [problem.as_dict() for problem in problems],
        "updated_at": func.clock_timestamp(),
    }
    key = {"task_id": task_id, "request": request, "fingerprint": fingerprint}
    statement = insert(Inference).values(**key, **values)
    statement = statement.on_conflict_do_update(index_elements=list(key), set_=values)
    service.ledger.repeat(lambda session: session.execute(statement))


def _finish(service: Service, item: Ready) -> None:
    from easeml_core.ledger import uploads

    service.ledger.repeat(lambda session: uploads.finish(session, item.prefix, item.fingerprint))
