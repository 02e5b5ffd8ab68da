"""What of the bucket is ready to be taken: one code path for the trigger, for intake and for inference."""

from __future__ import annotations

import hashlib
import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from easeml_core.bucket.entries import Kind, Listing, Scan
from easeml_core.naming import TaskName

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from easeml_core.service.context import Service

log = logging.getLogger(__name__)

# Of a folder whose files belong nowhere: ends with a slash, so that it is never a listing's prefix.
STRAYS = "/"
# The longest rests between two tries: where something is away for now, and where we failed.
DEFERRED_SECONDS = 30.0
FAILED_SECONDS = 600.0


@dataclass(frozen=True)
class Ready:
    """An upload that has settled and was not dealt with yet. `kind` says who takes it: "task" or "infer".

    `listing` is None for strays, whose folder is then `prefix`, and for what is `gone` though its tenant was
    told of it.
    """

    prefix: str
    kind: str
    fingerprint: str
    listing: Listing | None = None
    gone: bool = False


def task_of(prefix: str) -> TaskName:
    """The task that a listing's prefix belongs to."""
    return TaskName(*prefix.split("/")[:2])


def scan_uploads(service: Service) -> list[Ready]:
    """Look at the bucket, record in the ledger what was seen and since when, and return what is ready.

    A request under `infer/` that is known to wait for a champion is ready once there is one, and what
    failed when it was taken is ready again after a rest. Raises `TemporaryError` while bucket or ledger are
    away.
    """
    return look(service)[0]


def look(service: Service) -> tuple[list[Ready], Scan]:
    """Like `scan_uploads`, with all that was seen."""
    from easeml_core.ledger import uploads

    scan = service.bucket.scan()
    fingerprints = {prefix: listing.fingerprint for prefix, listing in scan.listings.items()}
    fingerprints |= stray_fingerprints(scan)
    settle = service.settings.settle_seconds
    ready = []
    with service.ledger.transaction() as session:
        waiting = _waiting_for_champion(session)
        for seen in uploads.observe(session, fingerprints):
            listing = scan.listings.get(seen.prefix)
            needed = listing.settle_seconds(settle) if listing else settle
            if not seen.pending or seen.resting or not seen.settled(needed):
                continue
            if (seen.prefix, seen.fingerprint) in waiting:
                continue
            kind = "infer" if listing is not None and listing.kind is Kind.INFER else "task"
            ready.append(Ready(seen.prefix, kind, seen.fingerprint, listing))
        gone = uploads.vanished(session, fingerprints, STRAYS)
        ready += [Ready(prefix, "task", "", gone=True) for prefix in gone]
    return ready, scan


def postpone(service: Service, item: Ready, begun: float, longest_seconds: float) -> None:
    """Let an upload rest whose taking `begun` (of the monotonic clock) and failed; no failure of its own
    leaves this function, for others wait their turn."""
    from easeml_core.ledger import uploads

    took = time.monotonic() - begun
    try:
        service.ledger.repeat(
            lambda session: uploads.postpone(
                session, item.prefix, item.fingerprint, took_seconds=took, longest_seconds=longest_seconds
            )
        )
    except Exception:
        log.exception("%s cannot be postponed", item.prefix)


def stray_fingerprints(scan: Scan) -> dict[str, str]:
    """A fingerprint of what is wrong with each folder that has strays."""
    found: dict[str, str] = {}
    for stray in scan.strays:
        before = found.get(stray.folder + STRAYS, "")
        found[stray.folder + STRAYS] = hashlib.sha256(f"{before}{stray.problem}".encode()).hexdigest()
    return found


def _waiting_for_champion(session: Session) -> set[tuple[str, str]]:
    """(prefix, fingerprint) of requests that were seen before and whose task still has no champion."""
    from sqlalchemy import select

    from easeml_core.ledger.models import Inference, Promotion, Task

    rows = session.execute(
        select(Task.tenant_id, Task.name, Inference.request, Inference.fingerprint)
        .join(Inference, Inference.task_id == Task.id)
        .where(Inference.state == "waiting", ~select(Promotion).where(Promotion.task_id == Task.id).exists())
    )
    return {
        (TaskName(tenant, name).key("infer", request), fingerprint)
        for tenant, name, request, fingerprint in rows
    }
