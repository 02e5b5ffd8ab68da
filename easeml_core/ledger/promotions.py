"""Champions: which trial's model is a task's best, and the append-only log of how it became so."""

from __future__ import annotations

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from easeml_core.ledger.models import Promotion, Task, Trial, TrialState
from easeml_core.ledger.session import lock


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


def promotion_due(session: Session, task: Task) -> Trial | None:
    """The trial that should become champion and is not; None when the champion is right."""
    best = best_trial(session, task)
    if best is None:
        return None
    current = champion(session, task.id)
    return None if current is not None and current.trial_id == best.id else best


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
