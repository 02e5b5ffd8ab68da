"""Makes the best trial's model a task's champion: the only place that does.

Steps, each safe to repeat after a kill: the trial is picked from the ledger; its files in the store are
listed, downloaded and compared with what the trainer sent; a model version is made (once per run); the
alias `champion` is moved; the promotion is appended to the ledger. One promoter per task at a time.

A champion is replaced when a strictly better trial of the current data version exists. One that was trained
on another version is compared by what it reaches on the current validation split: `rescore` finds that out,
and until then nothing is promoted. Where it cannot be scored there, the best trial takes its place.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from easeml_core.errors import OperatorError
from easeml_core.tracking import Tracking
from easeml_core.workorder import TrialResult

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from easeml_core.ledger.models import Task, Trial
    from easeml_core.ledger.promotions import Standing
    from easeml_core.service.context import Service

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Promotion:
    """What became champion. `refused` names better trials whose models are damaged, and the damage."""

    trial_id: int
    model_version: str
    quality: float
    reason: str
    refused: tuple[str, ...] = ()


def promote(service: Service, task_id: int) -> Promotion | None:
    """Bring a task's champion up to date; None when it is (or nothing has succeeded).

    A model whose files are damaged is refused, and the next best taken. Raises OperatorError, saying what
    is wrong with the files, when nothing better than the present champion could be promoted for that
    reason; TemporaryError while MLflow or the ledger is away.
    """
    from easeml_core.ledger.models import Task
    from easeml_core.ledger.session import lock

    with service.ledger.transaction() as session:
        # Held for the few seconds this takes, so that a slower promoter cannot move the alias back.
        lock(session, f"easeml.promote.{task_id}")
        return _promote(session, service, session.get_one(Task, task_id))


def _promote(session: Session, service: Service, task: Task) -> Promotion | None:
    from easeml_core.ledger import promotions
    from easeml_core.ledger.tasks import task_name

    name = task_name(task)
    tracking = Tracking(service.settings.resolved_mlflow_url())
    refused: list[str] = []
    current = promotions.standing(session, task)
    better = _better_trials(session, task, current)
    if better:
        tracking.check()  # the task's lock is held: a server that hangs must not hold it for long
    for trial in better:
        if problems := model_problems(tracking, trial):
            refused.append(f"trial {trial.id}: {'; '.join(problems[:5])}")
            log.warning("not promoting %s", refused[-1])
            continue
        version = tracking.register(
            name.model,
            str(trial.model_uri),
            str(trial.mlflow_run_id),
            {
                "easeml.trial": str(trial.id),
                "easeml.candidate": trial.candidate.name,
                "easeml.data_version": trial.data_version.digest,
                "easeml.quality": f"{trial.quality:.6g}",
            },
        )
        tracking.set_champion(version)
        reason = _reason(task, trial, current)
        promotions.record_promotion(session, trial, version.version, reason)
        return Promotion(trial.id, version.version, float(trial.quality or 0.0), reason, tuple(refused))
    if refused:
        raise OperatorError(f"no model of {name} can be promoted: {' | '.join(refused)}")
    return None


def model_problems(tracking: Tracking, trial: Trial) -> list[str]:
    """What is wrong with the files of a trial's model; empty when nothing is."""
    result = TrialResult.model_validate(trial.result)
    if result.model_uri is None or result.mlflow_run_id is None:
        return ["it logged no model"]
    return tracking.verify_files(result.model_uri, result.model_files)


def _better_trials(session: Session, task: Task, current: Standing | None) -> list[Trial]:
    """Succeeded trials of the current data version that should replace the champion, best first."""
    from sqlalchemy import select

    from easeml_core.ledger.models import Trial, TrialState

    if current is not None and current.pending:
        return []
    query = (
        select(Trial)
        .where(
            Trial.task_id == task.id,
            Trial.data_version_id == task.data_version_id,
            Trial.state == TrialState.SUCCEEDED,
        )
        .order_by(Trial.quality.desc(), Trial.ended_order)
    )
    if current is not None and current.quality is not None:
        query = query.where(Trial.quality > current.quality)
    return list(session.scalars(query))


def _reason(task: Task, trial: Trial, current: Standing | None) -> str:
    what = f"{trial.candidate.name}: {task.objective} {trial.score:.4g}"
    if current is None:
        return f"{what}, the first model of this task"
    before = current.trial.candidate.name
    if current.trial.data_version_id == trial.data_version_id:
        return f"{what}, better than {before} with {current.score:.4g}"
    before += " of the earlier data version"
    if current.score is None:
        return f"{what}, the best on the present data; {before} cannot be scored on it: {current.reason}"
    return f"{what}, better than {before} with {current.score:.4g} on the present one"
