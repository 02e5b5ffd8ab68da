"""Champions: which trial's model is a task's best, and the append-only log of how it became so.

Qualities are compared on one validation split only, that of the task's present data version. A champion
that was trained on another version is compared by what it reaches there (`Rescore`), and nothing replaces
it before that is known. One that cannot be scored there gives way to any trial of the present version.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from easeml_core.ledger.models import Promotion, Rescore, Task, Trial, TrialState
from easeml_core.ledger.session import lock


@dataclass(frozen=True, slots=True)
class Standing:
    """A task's champion, and what it reaches on the task's present data version.

    `score` and `quality` are those of its trial where that trained on this version, else those that its
    model was given there later. They are None where it could not be scored, for a `reason`, and while it
    is `pending`.
    """

    promotion: Promotion
    trial: Trial
    score: float | None
    quality: float | None
    reason: str = ""
    pending: bool = False


def best_trial(session: Session, task: Task) -> Trial | None:
    """The succeeded trial of highest quality on the task's current data version; the earlier one on a tie."""
    return session.scalars(
        select(Trial)
        .where(
            Trial.task_id == task.id,
            Trial.data_version_id == task.data_version_id,
            Trial.state == TrialState.SUCCEEDED,
        )
        .order_by(Trial.quality.desc(), Trial.ended_order)
        .limit(1)
    ).one_or_none()


def champion(session: Session, task_id: int) -> Promotion | None:
    """The latest promotion of a task, or None before its first."""
    return session.scalars(
        select(Promotion).where(Promotion.task_id == task_id).order_by(Promotion.id.desc()).limit(1)
    ).one_or_none()


def standing(session: Session, task: Task) -> Standing | None:
    """The champion and what it reaches on the present data; None before any."""
    current = champion(session, task.id)
    if current is None:
        return None
    trial = session.get_one(Trial, current.trial_id)
    if trial.data_version_id == task.data_version_id:
        return Standing(current, trial, trial.score, trial.quality)
    found = session.get(Rescore, (trial.id, task.data_version_id))
    if found is None or found.made_at is None:
        reason = "it has not been scored on the present data yet"
        return Standing(current, trial, None, None, reason, pending=True)
    return Standing(current, trial, found.score, found.quality, found.reason)


def rescored(session: Session, task_ids: Iterable[int]) -> dict[int, float]:
    """By task, the quality of its champion on its present data, where that was found out by re-scoring."""
    latest = select(func.max(Promotion.id)).where(Promotion.task_id.in_(task_ids)).group_by(Promotion.task_id)
    rows = session.execute(
        select(Task.id, Rescore.quality)
        .join(Promotion, Promotion.task_id == Task.id)
        .join(
            Rescore,
            (Rescore.trial_id == Promotion.trial_id) & (Rescore.data_version_id == Task.data_version_id),
        )
        .where(Promotion.id.in_(latest), Rescore.quality.is_not(None))
    )
    return {task_id: quality for task_id, quality in rows if quality is not None}


def promotion_due(session: Session, task: Task) -> Trial | None:
    """The trial that should become champion and is not; None when the champion is right.

    While the champion's standing is pending, whether that trial is better is to be found out first.
    """
    best = best_trial(session, task)
    current = standing(session, task)
    if best is None or best.quality is None or current is None or current.quality is None:
        return best
    return best if best.quality > current.quality else None


def record_promotion(session: Session, trial: Trial, model_version: str, reason: str) -> Promotion:
    """Append a promotion, unless the trial is the champion already; one caller at a time per task.

    A trial may become champion again, after its task went back to an earlier data version.
    """
    assert trial.quality is not None
    lock(session, f"easeml.promote.{trial.task_id}")
    current = champion(session, trial.task_id)
    if current is not None and current.trial_id == trial.id:
        return current
    promotion = Promotion(
        task_id=trial.task_id,
        trial_id=trial.id,
        model_version=model_version,
        quality=trial.quality,
        reason=reason,
    )
    session.add(promotion)
    now = func.clock_timestamp()
    session.execute(update(Task).where(Task.id == trial.task_id).values(updated_at=now))
    session.flush()
    return promotion
