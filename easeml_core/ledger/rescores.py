"""Scoring a champion on a data version other than its own: the tries, and the one verdict."""

from __future__ import annotations

from sqlalchemy import Update, func, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from easeml_core.ledger.models import Rescore, Task, Trial


def begin(session: Session, trial_id: int, version_id: int) -> int:
    """Count a try, before it is made: one that kills its process counts, too. Returns how many that makes."""
    statement = insert(Rescore).values(trial_id=trial_id, data_version_id=version_id, tries=1)
    again = statement.on_conflict_do_update(
        index_elements=[Rescore.trial_id, Rescore.data_version_id], set_={"tries": Rescore.tries + 1}
    )
    return session.scalars(again.returning(Rescore.tries)).one()


def take_back(session: Session, trial_id: int, version_id: int) -> None:
    """Uncount a try that was not the model's fault: a server was away."""
    session.execute(_unjudged(trial_id, version_id).values(tries=Rescore.tries - 1))


def record(
    session: Session,
    trial_id: int,
    version_id: int,
    *,
    score: float | None = None,
    quality: float | None = None,
    reason: str = "",
) -> None:
    """Write the verdict, unless there is one: score and quality, or the reason why there are none."""
    now = func.clock_timestamp()
    verdict = _unjudged(trial_id, version_id).values(score=score, quality=quality, reason=reason, made_at=now)
    if session.scalars(verdict.returning(Rescore.trial_id)).one_or_none() is not None:
        task = session.get_one(Trial, trial_id).task_id
        session.execute(update(Task).where(Task.id == task).values(updated_at=now))


def _unjudged(trial_id: int, version_id: int) -> Update:
    return update(Rescore).where(
        Rescore.trial_id == trial_id, Rescore.data_version_id == version_id, Rescore.made_at.is_(None)
    )
