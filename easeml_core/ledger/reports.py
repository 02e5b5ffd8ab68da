"""What people read of the ledger, as JSON-ready dictionaries: one source for status files and commands.

Times are ISO 8601 in UTC, costs are seconds, qualities are in [0, 1]; what is not known is None.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from easeml_core.ledger import budgets, promotions
from easeml_core.ledger.activity import Report, decisions, devices, explain, iso
from easeml_core.ledger.models import (
    Attempt,
    Candidate,
    DataVersion,
    Task,
    Tenant,
    Trial,
    TrialState,
)
from easeml_core.ledger.predictions import calibration
from easeml_core.ledger.tasks import task_name
from easeml_core.naming import CandidateName, trial_label

__all__ = [
    "calibration",
    "champion_report",
    "decisions",
    "devices",
    "explain",
    "task_report",
    "tasks",
    "tenants",
]


def task_report(session: Session, task: Task) -> Report:
    """Everything about one task: state, problems, data, budget, candidates, trials, champion.

    `leaderboard` is the succeeded trials on the current data version, best first; `running` the live ones;
    `candidates` every candidate with what became of it (`untried`, or its trial's state).
    """
    rows = session.execute(
        select(Trial, Candidate.name, Attempt.device, Attempt.started_at, DataVersion.digest)
        .join(Candidate, Candidate.id == Trial.candidate_id)
        .join(DataVersion, DataVersion.id == Trial.data_version_id)
        .outerjoin(Attempt, (Attempt.trial_id == Trial.id) & (Attempt.number == Trial.attempt))
        .where(Trial.task_id == task.id)
        .order_by(Trial.id)
    ).all()
    everything = [_trial(*row) for row in rows]
    current = [
        report
        for report, (trial, *_) in zip(everything, rows, strict=True)
        if trial.data_version_id == task.data_version_id
    ]
    leaderboard = sorted(
        (trial for trial in current if trial["quality"] is not None),
        key=lambda trial: (-trial["quality"], trial["ended_at"]),
    )
    return {
        **_task(task),
        "program": task.program,
        "spec": task.spec,
        "data": _data(task.data_version),
        "budget": budgets.budget_of(session, task).as_dict(),
        "candidates": _candidates(session, task, current),
        "champion": champion_report(session, task),
        "leaderboard": leaderboard,
        "running": [trial for trial in current if trial["state"] in budgets.LIVE],
        "trials": everything,
    }


def tasks(session: Session) -> list[Report]:
    """One line per task, by tenant and name: state, trials, best quality, budget.

    The best quality is what the tenant has on the present data: that of a trial, or of a champion of earlier
    data that was scored on it.
    """
    found = session.scalars(select(Task).order_by(Task.tenant_id, Task.name)).all()
    budget = budgets.budgets_of(session, found)
    best = dict(
        session.execute(
            select(Trial.task_id, func.max(Trial.quality))
            .join(Task, (Task.id == Trial.task_id) & (Task.data_version_id == Trial.data_version_id))
            .group_by(Trial.task_id)
        ).all()
    )
    for task_id, quality in promotions.rescored(session, [task.id for task in found]).items():
        best[task_id] = max(best.get(task_id) or 0.0, quality)
    return [
        {**_task(task), "best_quality": best.get(task.id), "budget": budget[task.id].as_dict()}
        for task in found
    ]


def tenants(session: Session) -> list[Report]:
    """One line per tenant, with its tasks and the device time it was charged over all data versions."""
    charged: dict[str, tuple[int, float]] = {
        tenant: (number, seconds)
        for tenant, number, seconds in session.execute(
            select(Task.tenant_id, func.count(), func.sum(Trial.cost_seconds))
            .join(Trial, Trial.task_id == Task.id)
            .group_by(Task.tenant_id)
        )
    }
    by_tenant: dict[str, list[Report]] = {}
    for task in tasks(session):
        by_tenant.setdefault(task["tenant"], []).append(task)
    return [
        {
            "tenant": tenant.id,
            "created_at": iso(tenant.created_at),
            "trials": charged.get(tenant.id, (0, 0.0))[0],
            "charged_seconds": charged.get(tenant.id, (0, 0.0))[1],
            "tasks": by_tenant.get(tenant.id, []),
        }
        for tenant in session.scalars(select(Tenant).order_by(Tenant.id))
    ]


def champion_report(session: Session, task: Task) -> Report | None:
    """The task's champion: whose model it is, how good, and where to load it from; None before any.

    `score` and `quality` are on the data it was trained on, `current_score` and `current_quality` on the
    task's present data: the same unless it was trained on another version (`on_current_data`), None where
    they are not known (`current_reason`). `successor` is the trial that replaces it, if that turns out better
    where the champion has not been scored on the present data yet.
    """
    standing = promotions.standing(session, task)
    if standing is None:
        return None
    promotion, trial = standing.promotion, standing.trial
    due = promotions.promotion_due(session, task)
    return {
        "candidate": trial.candidate.name,
        "trial": trial_label(trial.id),
        "trial_id": trial.id,
        "model_version": promotion.model_version,
        "model_uri": task_name(task).champion_uri,
        "quality": promotion.quality,
        "score": trial.score,
        "objective": task.objective,
        "mlflow_run_id": trial.mlflow_run_id,
        "promoted_at": iso(promotion.made_at),
        "reason": promotion.reason,
        "on_current_data": trial.data_version_id == task.data_version_id,
        "current_score": standing.score,
        "current_quality": standing.quality,
        "current_reason": standing.reason,
        "successor": None if due is None else trial_label(due.id),
    }


def _task(task: Task) -> Report:
    return {
        "task": str(task_name(task)),
        "tenant": task.tenant_id,
        "name": task.name,
        "task_id": task.id,
        "state": task.state,
        "state_reason": task.state_reason,
        "template": task.template,
        "objective": task.objective,
        "weight": task.weight,
        "deadline": iso(task.deadline),
        "stop_quality": task.stop_quality,
        "problems": task.problems,
        "created_at": iso(task.created_at),
        "updated_at": iso(task.updated_at),
    }


def _data(version: DataVersion | None) -> Report | None:
    if version is None:
        return None
    return {
        "digest": version.digest,
        "n_train": version.n_train,
        "n_val": version.n_val,
        "created_at": iso(version.created_at),
        "facts": version.facts,
    }


def _candidates(session: Session, task: Task, current: list[Report]) -> list[Report]:
    tried = {trial["candidate"]: trial for trial in current if trial["state"] != TrialState.CANCELLED}
    found = session.scalars(select(Candidate).where(Candidate.task_id == task.id).order_by(Candidate.id))
    return [
        {
            "candidate": candidate.name,
            "model": CandidateName.parse(candidate.name).model,
            "offered": candidate.offered,
            "state": tried[candidate.name]["state"] if candidate.name in tried else "untried",
            "quality": tried[candidate.name]["quality"] if candidate.name in tried else None,
        }
        for candidate in found
        if candidate.offered or candidate.name in tried
    ]


def _trial(trial: Trial, candidate: str, device: str | None, started: datetime | None, digest: str) -> Report:
    result = trial.result or {}
    return {
        "trial": trial_label(trial.id),
        "trial_id": trial.id,
        "candidate": candidate,
        "state": trial.state,
        "attempt": trial.attempt,
        "device": device,
        "quality": trial.quality,
        "score": trial.score,
        "reason": trial.reason,
        "failure": trial.failure,
        "cost_seconds": trial.cost_seconds,
        "predicted_seconds": trial.predicted_seconds,
        "hyperparameters": result.get("hyperparameters", {}),
        "epochs": result.get("epochs"),
        "mlflow_run_id": trial.mlflow_run_id,
        "model_uri": trial.model_uri,
        "data_version": digest,
        "started_at": iso(started),
        "ended_at": iso(trial.ended_at),
    }
