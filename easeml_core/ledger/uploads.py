"""What intake has seen of the bucket, and what of it is still to be done.

>>> with ledger.transaction() as session:                          # doctest: +SKIP
...     observe(session, {"clinic/tumours": "a1"})                 # first seen: age 0, pending
...     observe(session, {"clinic/tumours": "a1"})                 # unchanged: its age grows
...     finish(session, "clinic/tumours", "a1")                    # nothing pending until it changes
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlalchemy import and_, case, delete, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from easeml_core.errors import Problem
from easeml_core.ledger.models import Upload

FIRST_REST_SECONDS = 5.0  # after the first failure; doubled with each further one


@dataclass(frozen=True, slots=True)
class Observation:
    """One prefix of the bucket. `age_seconds` is how long its fingerprint has not changed; `resting` is
    whether taking it failed as it is and has to be tried again, but not yet."""

    prefix: str
    fingerprint: str
    age_seconds: float
    pending: bool
    resting: bool = False

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
        func.coalesce(
            and_(Upload.tried_fingerprint == Upload.seen_fingerprint, Upload.retry_at > now), False
        ),
    )
    found = session.execute(upsert).all()
    return sorted(
        (Observation(prefix, seen, max(float(age), 0.0), *flags) for prefix, seen, age, *flags in found),
        key=lambda observation: observation.prefix,
    )


def pending(session: Session, settle_seconds: float) -> list[str]:
    """Prefixes that have settled and differ from what was last finished with."""
    settled = Upload.seen_at <= func.clock_timestamp() - timedelta(seconds=settle_seconds)
    to_do = Upload.done_fingerprint.is_distinct_from(Upload.seen_fingerprint)
    return list(session.scalars(select(Upload.prefix).where(settled, to_do).order_by(Upload.prefix)))


def finish(session: Session, prefix: str, fingerprint: str) -> None:
    """Note that what `prefix` held at `fingerprint` has been dealt with (accepted or rejected).

    A change meanwhile has another fingerprint, so it stays pending. Failures before count no more.
    """
    now = func.clock_timestamp()
    new = insert(Upload).values(
        prefix=prefix, seen_fingerprint=fingerprint, seen_at=now, done_fingerprint=fingerprint, done_at=now
    )
    session.execute(
        new.on_conflict_do_update(
            index_elements=[Upload.prefix],
            set_={"done_fingerprint": fingerprint, "done_at": now, "tried_fingerprint": None, "failures": 0},
        )
    )


def postpone(
    session: Session, prefix: str, fingerprint: str, *, took_seconds: float, longest_seconds: float
) -> None:
    """Note that taking `prefix` at `fingerprint` failed: it rests before it is tried again.

    5 s, 10 s, 20 s … up to `longest_seconds`, but never less than the failure took: whatever an upload does
    to us, the others get at least half of the time. A change of the upload ends its rest.
    """
    row = session.get(Upload, prefix, with_for_update=True)
    if row is None:
        return
    row.failures = row.failures + 1 if row.tried_fingerprint == fingerprint else 1
    row.tried_fingerprint = fingerprint
    rest = min(FIRST_REST_SECONDS * 2.0 ** min(row.failures - 1, 30), longest_seconds)
    now = session.scalars(select(func.clock_timestamp())).one()
    row.retry_at = now + timedelta(seconds=max(rest, took_seconds))


def note(session: Session, prefix: str, problems: Iterable[Problem]) -> None:
    """Replace what the tenant is told of `prefix` until it changes or goes."""
    told = [problem.as_dict() for problem in problems]
    session.execute(update(Upload).where(Upload.prefix == prefix).values(problems=told))


def notes(session: Session, prefixes: Sequence[str]) -> list[dict[str, Any]]:
    """What tenants are told of these prefixes, in their order."""
    rows = {row.prefix: row for row in session.scalars(select(Upload).where(Upload.prefix.in_(prefixes)))}
    return [problem for prefix in prefixes if prefix in rows for problem in rows[prefix].problems]


def vanished(session: Session, present: Collection[str], ends_with: str) -> list[str]:
    """Prefixes that are gone and were told of: those with notes, and those that end with `ends_with`."""
    told = or_(
        Upload.prefix.endswith(ends_with, autoescape=True), func.jsonb_array_length(Upload.problems) > 0
    )
    known = session.scalars(select(Upload.prefix).where(told).order_by(Upload.prefix))
    return [prefix for prefix in known if prefix not in present]


def forget(session: Session, prefixes: Iterable[str]) -> None:
    """Forget prefixes that the bucket no longer has."""
    session.execute(delete(Upload).where(Upload.prefix.in_(list(prefixes))))
