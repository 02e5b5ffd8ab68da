"""Takes uploads: settle → validate → data version → register → status. Idempotent, safe to kill anywhere.

An upload is marked as finished last, after its status is written: a run that was killed does it again and
finds everything there. Each upload is handled by itself, so one tenant's fault is never another's.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from easeml_core import naming
from easeml_core.bucket.entries import Kind, Listing, Scan
from easeml_core.errors import Problem, TemporaryError, TenantError
from easeml_core.naming import TaskName
from easeml_core.service import trainer
from easeml_core.service.status import write_status, write_unregistered
from easeml_core.service.uploads import (
    DEFERRED_SECONDS,
    FAILED_SECONDS,
    STRAYS,
    Ready,
    look,
    postpone,
    scan_uploads,
    stray_fingerprints,
    task_of,
)

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from easeml_core.service.context import Service

__all__ = ["IntakeReport", "run_intake", "scan_uploads"]

log = logging.getLogger(__name__)

LOCK = "easeml-intake"


@dataclass
class IntakeReport:
    """Prefixes by what became of them; `cleared` are gone, `deferred` and `failed` are taken again later."""

    accepted: list[str] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    controlled: list[str] = field(default_factory=list)
    strays: list[str] = field(default_factory=list)
    cleared: list[str] = field(default_factory=list)
    deferred: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, list[str]]:
        """JSON-ready."""
        return asdict(self)


def run_intake(service: Service) -> IntakeReport:
    """Take every upload that is ready. Two runs at once take turns.

    Raises `TemporaryError` or `OperatorError` when bucket or ledger cannot be used at all; everything else
    is written to the status of the task it concerns.
    """
    from easeml_core.data.build import clear_staging
    from easeml_core.ledger.session import lock

    report = IntakeReport()
    with service.ledger.transaction() as session:
        lock(session, LOCK)
        clear_staging(service.settings.versions_dir)
        ready, scan = look(service)
        if any(item.kind == "task" and not item.gone for item in ready):
            trainer.warm(service.settings)  # while the data is staged
        _forget_vanished(service, scan, [item.prefix for item in ready if item.gone])
        # Control files last: they may be about a task that comes in the same look.
        for item in sorted((r for r in ready if r.kind == "task"), key=_order):
            _take_safely(service, item, scan, report)
    return report


def _order(item: Ready) -> tuple[bool, str]:
    return item.listing is not None and item.listing.kind is Kind.CONTROL, item.prefix


def _take_safely(service: Service, item: Ready, scan: Scan, report: IntakeReport) -> None:
    begun = time.monotonic()
    try:
        if item.gone:
            _clear(service, item)
            report.cleared.append(item.prefix)
        elif item.listing is None:
            _report_strays(service, item.prefix, scan)
            _finish(service, item)
            report.strays.append(item.prefix)
        elif item.listing.kind is Kind.CONTROL:
            _apply_control(service, item)
            report.controlled.append(item.prefix)
        else:
            getattr(report, _take(service, item, item.listing)).append(item.prefix)
    except TemporaryError as error:
        log.warning("%s is taken later: %s", item.prefix, error)
        report.deferred.append(item.prefix)
        postpone(service, item, begun, DEFERRED_SECONDS)
    except Exception:
        log.exception("intake of %s failed", item.prefix)
        report.failed.append(item.prefix)
        postpone(service, item, begun, FAILED_SECONDS)
        if item.listing is not None:
            _admit_failure(service, item, task_of(item.prefix))


def _take(service: Service, item: Ready, listing: Listing) -> str:
    """Deal with one task's upload; returns the field of `IntakeReport` it belongs to."""
    from easeml_core.service.register import accept

    name = task_of(listing.prefix)
    _note(service, item, ())
    if missing := _missing(listing):
        return _wait(service, item, listing, name, missing)
    try:
        task_id = accept(service, listing, name)
        outcome = "accepted"
    except TenantError as error:
        task_id = _reject(service, name, error.problems)
        outcome = "rejected"
    write_status(service, task_id, upload=listing.fingerprint, ignored=listing.ignored)
    _finish(service, item)
    log.info("%s: %s", name, outcome)
    return outcome


def _missing(listing: Listing) -> list[str]:
    names = listing.names()
    missing = [f"{file} to be uploaded completely" for file in listing.waits_for]
    if naming.SPEC_FILE not in names:
        missing.append(naming.SPEC_FILE)
    if not any(name.startswith(f"{naming.DATA_DIR}/") for name in names) and not listing.problems:
        missing.append(f"files under {naming.DATA_DIR}/")
    return missing


def _wait(service: Service, item: Ready, listing: Listing, name: TaskName, missing: list[str]) -> str:
    """Say what an incomplete upload waits for; a task that is known goes on and is told so as a problem."""
    reason = "waiting for " + " and ".join(missing)
    task_id = _task_id(service, name)
    if task_id is None:
        write_unregistered(service, name, reason, upload=listing.fingerprint, problems=listing.problems)
    elif listing.waits_for:
        _note(service, item, [Problem(file, "is not uploaded completely yet") for file in listing.waits_for])
        write_status(service, task_id, ignored=listing.ignored)
    else:
        fix = "upload it again, or pause or cancel the task"
        task_id = _reject(
            service, name, [Problem(text, "is not there any more", fix=fix) for text in missing]
        )
        write_status(service, task_id, upload=listing.fingerprint, ignored=listing.ignored)
    _finish(service, item)
    return "waiting"


def _task_id(service: Service, name: TaskName) -> int | None:
    from easeml_core.ledger.tasks import find_task

    with service.ledger.transaction() as session:
        task = find_task(session, name)
        return None if task is None else task.id


def _reject(service: Service, name: TaskName, problems: Sequence[Problem]) -> int:
    from easeml_core.ledger.tasks import reject_task

    return service.ledger.repeat(lambda session: reject_task(session, name, problems).id)


def _finish(service: Service, item: Ready) -> None:
    from easeml_core.ledger import uploads

    service.ledger.repeat(lambda session: uploads.finish(session, item.prefix, item.fingerprint))


def _note(service: Service, item: Ready, problems: Sequence[Problem]) -> None:
    from easeml_core.ledger import uploads

    service.ledger.repeat(lambda session: uploads.note(session, item.prefix, problems))


def _apply_control(service: Service, item: Ready) -> None:
    """Bring a task to the state that its `control.json` asks for; a file that makes no sense is said so."""
    from easeml_core.service import control

    name = task_of(item.prefix)
    problems: list[Problem] = []
    try:
        content = service.bucket.read_if_there(item.prefix, limit=65536) or b"{}"
        control.apply(service, name, control.wanted_state(content))
    except TenantError as error:
        problems += error.problems
    _note(service, item, problems)
    task_id = _task_id(service, name)
    if task_id is not None:
        write_status(service, task_id)
    _finish(service, item)


def _admit_failure(service: Service, item: Ready, name: TaskName) -> None:
    """Tell the tenant that something of ours failed; nothing is finished, so it is tried again."""
    text = "the service failed on this upload, through no fault of yours; it will try again"
    problems = [Problem(".", text, fix="nothing; the operator finds the details in the log")]
    try:
        _note(service, item, problems)
        task_id = _task_id(service, name)
        if task_id is None:
            write_unregistered(service, name, "internal error", upload=None, problems=problems)
        else:
            write_status(service, task_id)
    except Exception:
        log.exception("the status of %s cannot be written either", name)


def _report_strays(service: Service, prefix: str, scan: Scan) -> None:
    from easeml_core.service.status_text import problems_text

    folder = prefix.removesuffix(STRAYS)
    problems = [stray.problem.as_dict() for stray in scan.strays if stray.folder == folder]
    lead = f"{folder}/" if folder else ""
    content: dict[str, Any] = {"state": "misplaced", "problems": problems}
    text = f"# Files in the wrong place\n\n{problems_text(problems)}"
    service.bucket.write_if_changed(lead + naming.STATUS_MD, text)
    report = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    service.bucket.write_if_changed(lead + naming.STATUS_JSON, report)


def _forget_vanished(service: Service, scan: Scan, told: Collection[str]) -> None:
    """Forget prefixes that are gone, save those in `told`: their tenants have to hear of it first."""
    from easeml_core.ledger import uploads

    present = {*scan.listings, *stray_fingerprints(scan), *told}
    with service.ledger.transaction() as session:
        uploads.forget(session, [prefix for prefix in _known(session) if prefix not in present])


def _clear(service: Service, item: Ready) -> None:
    """Take back what was told of files that are gone."""
    from easeml_core.ledger import uploads

    if item.prefix.endswith(STRAYS):
        for file in (naming.STATUS_JSON, naming.STATUS_MD):
            service.bucket.delete((item.prefix + file).lstrip("/"))
    service.ledger.repeat(lambda session: uploads.forget(session, [item.prefix]))
    if not item.prefix.endswith(STRAYS):
        task_id = _task_id(service, task_of(item.prefix))
        if task_id is not None:
            write_status(service, task_id)


def _known(session: Session) -> list[str]:
    from sqlalchemy import select

    from easeml_core.ledger.models import Upload

    return list(session.scalars(select(Upload.prefix)))
