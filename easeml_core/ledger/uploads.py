"""What intake has seen of the bucket, and what of it is still to be done.

>>> with ledger.transaction() as session:                          # doctest: +SKIP
...     observe(session, {"clinic/tumours": "a1"})                 # first seen: age 0, pending
...     observe(session, {"clinic/tumours": "a1"})                 # unchanged: its age grows
...     finish(session, "clinic/tumours", "a1")                    # nothing pending until it changes
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import case, delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from easeml_core.ledger.models import Upload


@dataclass(frozen=True, slots=True)
class Observation:
    """One prefix of the bucket. `age_seconds` is how long its fingerprint has not changed."""

    prefix: str
    fingerprint: str
    age_seconds: float
    pending: bool

    def settled(self, settle_seconds: float) -> bool:
        """Whether the upload has been unchanged for `settle_seconds`."""
        return self.age_seconds >= settle_seconds


def observe(session: Session, fingerprints: Mapping[str, str]) -> list[Observation]:
    """Record the present fingerprint of each prefix; several observers may do so at once.

    Returns one observation per prefix, sorted by prefix. Ages are measured by the database's clock.
    """
    if not fingerprints:
        return []
    # Always in one order, so that the trigger and the intake run cannot deadlock on each other's rows.
    rows = [{"prefix": prefix, "seen_fingerprint": fingerprints[prefix]} for prefix in sorted(fingerprints)]
    now = func.clock_timestamp()
    new = insert(Upload).values([row | {"seen_at": now} for row in rows])
    unchanged = Upload.seen_fingerprint == new.excluded.seen_fingerprint
    upsert = new.on_conflict_do_update(
        index_elements=[Upload.prefix],
        set_={
            "seen_fingerprint": new.excluded.seen_fingerprint,
            "seen_at": case((unchanged, Upload.seen_at), else_=new.excluded.seen_at),
        },
    ).returning(
        Upload.prefix,
        Upload.seen_fingerprint,
        func.extract("epoch", now - Upload.seen_at),
        Upload.done_fingerprint.is_distinct_from(Upload.seen_fingerprint),
    )
    found = session.execute(upsert).all()
    return sorted(
        (Observation(prefix, seen, max(float(age), 0.0), to_do) for prefix, seen, age, to_do in found),
        key=lambda observation: observation.prefix,
    )


def pending(session: Session, settle_seconds: float) -> list[str]:
    """Prefixes that have settled and differ from what was last finished with."""
    settled = Upload.seen_at <= func.clock_timestamp() - timedelta(seconds=settle_seconds)
    to_do = Upload.done_fingerprint.is_distinct_from(Upload.seen_fingerprint)
    return list(session.scalars(select(Upload.prefix).where(settled, to_do).order_by(Upload.prefix)))


def finish(session: Session, prefix: str, fingerprint: str) -> None:
    """Note that what `prefix` held at `fingerprint` has been dealt with (accepted or rejected).

    A change meanwhile has another fingerprint, so it stays pending.
    """
    now = func.clock_timestamp()
    new = insert(Upload).values(
        prefix=prefix, seen_fingerprint=fingerprint, seen_at=now, done_fingerprint=fingerprint, done_at=now
    )
    session.execute(
        new.on_conflict_do_update(
            index_elements=[Upload.prefix], set_={"done_fingerprint": fingerprint, "done_at": now}
        )
    )


def forget(session: Session, prefixes: Iterable[str]) -> None:
    """Forget prefixes that the bucket no longer has."""
    session.execute(delete(Upload).where(Upload.prefix.in_(list(prefixes))))
