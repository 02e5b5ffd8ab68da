"""What of the bucket is ready to be taken: one code path for the trigger, for intake and for inference."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from easeml_core.bucket.entries import Kind, Listing, Scan
from easeml_core.naming import TaskName

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from easeml_core.service.context import Service

# Of a folder whose files belong nowhere: ends with a slash, so that it is never a listing's prefix.
STRAYS = "/"


@dataclass(frozen=True)
class Ready:
    """An upload that has settled and was not dealt with yet. `kind` says who takes it: "task" or "infer".

    `listing` is None for strays: `strays` are then the problems of the folder `prefix`.
    """

    prefix: str
    kind: str
    fingerprint: str
    listing: Listing | None = None


def task_of(prefix: str) -> TaskName:
    """The task that a listing's prefix belongs to."""
    return TaskName(*prefix.split("/")[:2])


def scan_uploads(service: Service) -> list[Ready]:
    """Look at the bucket, record in the ledger what was seen and since when, and return what is ready.

    A request under `infer/` that is known to wait for a champion is ready once there is one. Raises
    `TemporaryError` while bucket or ledger are away.
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
            if not seen.pending or not seen.settled(needed):
                continue
            if (seen.prefix, seen.fingerprint) in waiting:
                continue
            kind = "infer" if listing is not None and listing.kind is Kind.INFER else "task"
            ready.append(Ready(seen.prefix, kind, seen.fingerprint, listing))
    return ready, scan


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
