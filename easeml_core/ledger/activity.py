"""What people read of devices and decisions: see `reports`, which offers all of it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from easeml_core.ledger.decisions import intervals_of
from easeml_core.ledger.models import Attempt, Candidate, DecisionRecord, Lease, Task, Trial
from easeml_core.ledger.tasks import task_name
from easeml_core.naming import trial_label

Report = dict[str, Any]


def devices(session: Session, configured: Sequence[str]) -> list[Report]:
    """Every configured device (and any other that holds a lease): what it runs, since when, and why."""
    leases = {lease.device: lease for lease in session.scalars(select(Lease))}
    names = dict.fromkeys((*configured, *sorted(leases)))
    return [_device(session, name, leases.get(name)) for name in names]


def decisions(session: Session, *, task: Task | None = None, limit: int = 50) -> list[Report]:
    """The latest decisions, newest first, of one task or of all."""
    query = (
        select(DecisionRecord, Trial, Candidate.name, Task)
        .join(Trial, Trial.id == DecisionRecord.trial_id)
        .join(Candidate, Candidate.id == Trial.candidate_id)
        .join(Task, Task.id == Trial.task_id)
        .order_by(DecisionRecord.id.desc())
        .limit(limit)
    )
    if task is not None:
        query = query.where(Task.id == task.id)
    return [_decision(*row) for row in session.execute(query)]


def explain(session: Session, decision_id: int) -> Report | None:
    """One decision in full: what it was chosen over, and what became of it. None where there is none."""
    row = session.execute(
        select(DecisionRecord, Trial, Candidate.name, Task)
        .join(Trial, Trial.id == DecisionRecord.trial_id)
        .join(Candidate, Candidate.id == Trial.candidate_id)
        .join(Task, Task.id == Trial.task_id)
        .where(DecisionRecord.id == decision_id)
    ).one_or_none()
    if row is None:
        return None
    record, trial, candidate, task = row
    attempts = session.scalars(select(Attempt).where(Attempt.trial_id == trial.id).order_by(Attempt.number))
    return {
        **_decision(record, trial, candidate, task),
        "runners_up": _runners_up(session, record),
        "seen": record.seen,
        "memory": record.memory,
        "attempts": [
            {
                "attempt": attempt.number,
                "device": attempt.device,
                "state": attempt.state,
                "reason": attempt.reason,
                "seconds": attempt.seconds,
                "started_at": iso(attempt.started_at),
                "ended_at": iso(attempt.ended_at),
                "mlflow_run_id": attempt.mlflow_run_id,
            }
            for attempt in attempts
        ],
    }


def _runners_up(session: Session, record: DecisionRecord) -> list[Report]:
    """What a decision chose over, each with the best quality that it has reached since, None where it has not
    been tried to success."""
    after = (
        select(Task.tenant_id, Task.name, Candidate.name, func.max(Trial.quality))
        .select_from(Trial)
        .join(Task, (Task.id == Trial.task_id) & (Task.data_version_id == Trial.data_version_id))
        .join(Candidate, Candidate.id == Trial.candidate_id)
        .where(Trial.id > record.trial_id, Candidate.name.in_({one["arm"] for one in record.runners_up}))
        .group_by(Task.tenant_id, Task.name, Candidate.name)
    )
    since = {
        (f"{tenant}/{task}", candidate): quality
        for tenant, task, candidate, quality in session.execute(after)
    }
    return [{**one, "quality": since.get((one["task"], one["arm"]))} for one in record.runners_up]


def _device(session: Session, name: str, lease: Lease | None) -> Report:
    now = datetime.now(UTC)
    if lease is None:
        return {"device": name, "state": "free"}
    trial = session.get_one(Trial, lease.trial_id)
    attempt = session.get_one(Attempt, (lease.trial_id, lease.attempt))
    decision = session.scalars(
        select(DecisionRecord).where(DecisionRecord.trial_id == trial.id).order_by(DecisionRecord.id).limit(1)
    ).one_or_none()
    return {
        "device": name,
        "state": "expired" if lease.expires_at <= now else attempt.state,
        "task": str(task_name(trial.task)),
        "tenant": trial.task.tenant_id,
        "candidate": trial.candidate.name,
        "trial": trial_label(trial.id),
        "trial_id": trial.id,
        "attempt": lease.attempt,
        "elapsed_seconds": max((now - attempt.started_at).total_seconds(), 0.0),
        "predicted_seconds": trial.predicted_seconds,
        "heartbeat_age_seconds": max((now - lease.heartbeat_at).total_seconds(), 0.0),
        "mlflow_run_id": attempt.mlflow_run_id,
        "decision": None if decision is None else decision.id,
        "policy": None if decision is None else decision.policy,
        "reason": None if decision is None else decision.reason,
    }


def _decision(record: DecisionRecord, trial: Trial, candidate: str, task: Task) -> Report:
    return {
        "decision": record.id,
        "made_at": iso(record.made_at),
        "device": record.device,
        "task": str(task_name(task)),
        "template": task.template,
        "candidate": candidate,
        "policy": record.policy,
        "fallbacks": record.fallbacks,
        "reason": record.reason,
        "expected_quality": record.expected_quality,
        "deviation": record.deviation,
        "intervals": {share: list(ends) for share, ends in intervals_of(record).items()},
        "predicted_seconds": record.predicted_seconds,
        "score": record.score,
        "runners_up": record.runners_up,
        "trial": trial_label(trial.id),
        "trial_id": trial.id,
        "outcome": trial.state,
        "quality": trial.quality,
        "cost_seconds": trial.cost_seconds,
    }


def iso(moment: datetime | None) -> str | None:
    """ISO 8601 in UTC, to the second."""
    return None if moment is None else moment.astimezone(UTC).isoformat(timespec="seconds")
