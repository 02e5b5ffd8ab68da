"""What the holder of a device tells the ledger: that an attempt runs, lives, and how it ended.

Everything here may be repeated after a kill at any point. A holder whose lease is gone gets
`FencedError` and must stop its trainer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from pydantic import ValidationError
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from easeml_core import naming
from easeml_core.errors import FencedError
from easeml_core.ledger import lifecycle, promotions, trials
from easeml_core.ledger.models import Attempt, Lease, Task, TaskState, Trial, TrialState
from easeml_core.ledger.session import announce
from easeml_core.ledger.tasks import task_name
from easeml_core.service.context import Service
from easeml_core.settings import Settings
from easeml_core.workorder import HEARTBEAT_FILE, Heartbeat, Outcome, TrialResult

VANISHED = "the trainer vanished without a result"


@dataclass(frozen=True, slots=True)
class Settlement:
    """What became of a trial. `promote` says that its task's champion is due to change, or to be compared on
    new data first."""

    task_id: int
    task: str
    state: str
    promote: bool


def begin(service: Service, trial_id: int, attempt: int) -> None:
    """The attempt's trainer is about to start: leased → running. Raises FencedError without a lease."""
    lease_seconds = service.settings.lease_seconds
    service.ledger.repeat(lambda session: trials.begin(session, trial_id, attempt, lease_seconds))


def renew(service: Service, trial_id: int, attempt: int, mlflow_run_id: str | None = None) -> None:
    """Keep the lease for another `lease_seconds`. Raises FencedError when it is gone: stop the trainer."""
    lease_seconds = service.settings.lease_seconds
    service.ledger.repeat(
        lambda session: trials.renew(session, trial_id, attempt, lease_seconds, mlflow_run_id)
    )


def cancelled(service: Service, trial_id: int) -> bool:
    """Whether the trial's tenant has cancelled its task: then stop the trainer and settle what it leaves."""
    query = select(Task.state).join(Trial, Trial.task_id == Task.id).where(Trial.id == trial_id)
    return service.ledger.repeat(lambda session: session.scalar(query)) == TaskState.CANCELLED


def settle(service: Service, trial_id: int, attempt: int, result: TrialResult | None) -> Settlement:
    """Write how an attempt ended; None means that it left nothing. Charges its compute time, once.

    The same call again returns the same. Raises FencedError where the attempt was given up before: its
    result is noted with the attempt, but counts for nothing.
    """
    if result is not None and (result.trial_id, result.attempt) != (trial_id, attempt):
        raise FencedError(
            f"this is the result of attempt {result.attempt} of {naming.trial_label(result.trial_id)}, "
            f"not of attempt {attempt} of {naming.trial_label(trial_id)}"
        )
    settlement = service.ledger.repeat(
        lambda session: _settle(session, service.settings, trial_id, attempt, result)
    )
    if settlement is None:
        raise FencedError(f"attempt {attempt} of {naming.trial_label(trial_id)} was given up before it ended")
    return settlement


def expire(service: Service) -> int:
    """Give up every attempt whose lease has expired; returns how many. Each in a transaction of its own."""
    leases = service.ledger.repeat(trials.expired)
    for lease in leases:
        service.ledger.repeat(
            partial(_expire, settings=service.settings, trial_id=lease.trial_id, number=lease.attempt)
        )
    return len(leases)


def computed_seconds(settings: Settings, trial_id: int, attempt: int) -> float:
    """Compute time of an attempt by its last heartbeat; 0 where it left none that can be read."""
    path = naming.attempt_dir(settings.work_dir, trial_id, attempt) / HEARTBEAT_FILE
    try:
        seconds = Heartbeat.read(path).compute_seconds
    except (OSError, ValidationError):
        return 0.0
    return seconds if 0 <= seconds < float("inf") else 0.0


def _settle(
    session: Session, settings: Settings, trial_id: int, number: int, result: TrialResult | None
) -> Settlement | None:
    trial = trials.locked(session, trial_id)
    attempt = session.get(Attempt, (trial_id, number))
    if attempt is None:
        raise FencedError(f"{naming.trial_label(trial_id)} has no attempt {number}")
    if attempt.ended_at is None:
        _end(session, settings, trial, number, result)
        if attempt.mlflow_run_id is None and result is not None:
            attempt.mlflow_run_id = result.mlflow_run_id
    elif result is not None and attempt.state != _state(result):
        if attempt.state == TrialState.LOST and "late result" not in attempt.reason:
            attempt.reason += f"; late result, not counted: {result.outcome}, quality {result.quality}"
        return None
    return _settlement(session, trial)


def _expire(session: Session, settings: Settings, trial_id: int, number: int) -> None:
    trial = trials.locked(session, trial_id)
    still = select(Lease).where(
        Lease.trial_id == trial_id, Lease.attempt == number, Lease.expires_at <= func.clock_timestamp()
    )
    if session.scalars(still).one_or_none() is not None:
        _end(session, settings, trial, number, None, "its lease expired: the holder of the device went away")


def _end(
    session: Session,
    settings: Settings,
    trial: Trial,
    number: int,
    result: TrialResult | None,
    vanished: str = VANISHED,
) -> None:
    """End a live attempt of a locked trial, and with it the trial or even the task."""
    if result is None:
        seconds = computed_seconds(settings, trial.id, number)
        trials.end_attempt(session, trial, number, TrialState.LOST, vanished, seconds)
        trials.give_back(session, trial, vanished, settings.max_attempts)
    else:
        trials.end_attempt(session, trial, number, _state(result), result.reason, result.cost_seconds)
        if result.outcome is Outcome.INTERRUPTED:
            trials.give_back(session, trial, result.reason or "interrupted", settings.max_attempts)
        else:
            state, reason, failure = _verdict(result)
            trials.finish(
                session,
                trial,
                state,
                reason=reason,
                failure=failure,
                quality=result.quality if failure is None else None,
                score=result.score,
                result=result.model_dump(mode="json"),
                mlflow_run_id=result.mlflow_run_id,
                model_uri=result.model_uri,
            )
    lifecycle.review(session, trial.task, settings.max_failures)
    announce(session)


def _state(result: TrialResult) -> str:
    return trials.FAULT if result.fault else str(result.outcome)


def _verdict(result: TrialResult) -> tuple[TrialState, str, str | None]:
    """The trial's state, its reason for people, and the kind of failure that is counted."""
    if result.outcome is Outcome.SUCCEEDED and result.quality is not None:
        return TrialState.SUCCEEDED, result.reason, None
    if result.outcome is Outcome.SUCCEEDED:
        return TrialState.FAILED, result.reason or "finished without a quality", "no_result"
    state = TrialState.DIVERGED if result.outcome is Outcome.DIVERGED else TrialState.FAILED
    return state, result.reason or str(result.outcome).replace("_", " "), str(result.outcome)


def _settlement(session: Session, trial: Trial) -> Settlement:
    due = promotions.promotion_due(session, trial.task)
    return Settlement(trial.task_id, str(task_name(trial.task)), trial.state, due is not None)
