"""The log of decisions: what was chosen, over what, and why. Append-only; policies read it back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from sqlalchemy import case, func, null, select
from sqlalchemy.orm import Session

from easeml_core.allocator.calibration import normal_intervals
from easeml_core.allocator.types import Decision
from easeml_core.ledger.models import DecisionRecord, Task, Trial


def record(
    session: Session, trial: Trial, device: str, decision: Decision, seen: dict[str, Any]
) -> DecisionRecord:
    """Append the decision that started `trial`, with what it saw, in the transaction of its first lease."""
    choice = decision.choice
    row = DecisionRecord(
        trial_id=trial.id,
        device=device,
        policy=decision.policy,
        reason=decision.reason,
        expected_quality=float(choice.expected_quality),
        deviation=float(choice.deviation),
        predicted_seconds=float(choice.predicted_cost),
        score=float(choice.score),
        runners_up=[asdict(scored) for scored in decision.runners_up],
        fallbacks=list(decision.fallbacks),
        memory=dict(decision.memory),
        seen=seen,
    )
    session.add(row)
    session.flush()
    return row


def intervals_of(record: DecisionRecord) -> dict[str, tuple[float, float]]:
    """The intervals that a decision claimed; for one of before they were kept, those of a Gaussian."""
    kept = record.seen.get("intervals")
    if not kept:
        return normal_intervals(record.expected_quality, record.deviation)
    return {share: (float(low), float(high)) for share, (low, high) in kept.items()}


def count(session: Session) -> int:
    """Decisions taken so far, over all tasks."""
    return session.scalar(select(func.count()).select_from(DecisionRecord)) or 0


def last_memory(session: Session) -> dict[str, Any]:
    """What the latest decision asked to keep; empty before the first."""
    query = select(DecisionRecord.memory).order_by(DecisionRecord.id.desc()).limit(1)
    return session.scalar(query) or {}


def decisions_since(session: Session, task_ids: Iterable[int]) -> dict[int, int]:
    """By task: decisions made since one last served it, or since it arrived where none has."""
    ids = list(task_ids)
    served = (
        select(Trial.task_id, func.max(DecisionRecord.made_at).label("at"))
        .join(DecisionRecord, DecisionRecord.trial_id == Trial.id)
        .where(Trial.task_id.in_(ids))
        .group_by(Trial.task_id)
        .subquery()
    )
    # Tasks among the decisions, latest first: one pass counts the later ones of every task.
    waiting = (
        select(Task.id.label("task_id"), func.coalesce(served.c.at, Task.created_at).label("at"))
        .outerjoin(served, served.c.task_id == Task.id)
        .where(Task.id.in_(ids))
    )
    made = select(null().label("task_id"), DecisionRecord.made_at.label("at"))
    moments = waiting.union_all(made).subquery()
    decision = case((moments.c.task_id.is_(None), 1), else_=0)
    later = func.sum(decision).over(order_by=moments.c.at.desc(), groups=(None, -1))
    counted = select(moments.c.task_id, func.coalesce(later, 0).label("later")).subquery()
    rows = session.execute(select(counted).where(counted.c.task_id.is_not(None)))
    return {task_id: int(number) for task_id, number in rows}
