"""What happens to a trial, each step a short transaction under row locks.

    planned ──lease──▶ leased ──begin──▶ running ──finish──▶ succeeded | failed | diverged
       ▲                  │                 │
       └──── give_back ───┴─────────────────┘   lost `max_attempts` times: lost; task over: cancelled

An attempt lives exactly as long as its lease row. Whoever writes for an attempt names its number; once
the lease is gone the number is stale, and the write is refused with `FencedError`. Rows are always locked
in the order task, trial, lease.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sqlalchemy import and_, delete, func, or_, select, update
from sqlalchemy.orm import Session

from easeml_core.errors import FencedError
from easeml_core.ledger.lifecycle import SHORTEST_TRIAL_SECONDS
from easeml_core.ledger.models import TRIAL_ENDS, Attempt, Lease, Task, TaskState, Trial, TrialState
from easeml_core.naming import trial_label
from easeml_core.workorder import Outcome

# Why a trial ended without a model, where it was not its trainer that said so (see `Trial.failure`).
LOST = "lost"
DEADLINE = "deadline"
# State of an attempt that the installation kept from running; its device reports it, no trial pays for it.
FAULT = "fault"


def locked_task(session: Session, task_id: int) -> Task:
    """The task, as it is now, changed by no one else until the transaction ends."""
    query = select(Task).where(Task.id == task_id).with_for_update(key_share=True)
    return session.scalars(query, execution_options={"populate_existing": True}).one()


def locked(session: Session, trial_id: int) -> Trial:
    """The trial and its task, as they are now, changed by no one else until the transaction ends.

    Raises FencedError where there is no such trial.
    """
    task_id = session.scalar(select(Trial.task_id).where(Trial.id == trial_id))
    if task_id is None:
        raise FencedError(f"the ledger has no {trial_label(trial_id)}")
    locked_task(session, task_id)
    query = select(Trial).where(Trial.id == trial_id).with_for_update(key_share=True)
    return session.scalars(query, execution_options={"populate_existing": True}).one()


def lease(session: Session, trial: Trial, device: str, lease_seconds: float) -> Attempt:
    """Start the trial's next attempt on a free device. The database refuses a taken device or trial."""
    trial.attempt += 1
    trial.state = TrialState.LEASED
    trial.reason = ""
    attempt = Attempt(trial_id=trial.id, number=trial.attempt, device=device, state=TrialState.LEASED)
    session.add(attempt)
    session.add(
        Lease(
            device=device,
            trial_id=trial.id,
            attempt=trial.attempt,
            expires_at=func.clock_timestamp() + timedelta(seconds=lease_seconds),
        )
    )
    session.flush()
    return attempt


def begin(session: Session, trial_id: int, attempt: int, lease_seconds: float) -> None:
    """Leased → running; again for the same attempt is fine (a re-attached operator). Renews the lease."""
    trial = locked(session, trial_id)
    renew(session, trial_id, attempt, lease_seconds)
    trial.state = TrialState.RUNNING
    session.get_one(Attempt, (trial_id, attempt)).state = TrialState.RUNNING


def renew(
    session: Session, trial_id: int, attempt: int, lease_seconds: float, mlflow_run_id: str | None = None
) -> None:
    """Extend the attempt's lease, and note its MLflow run once known. Raises FencedError without a lease.

    An expired lease is refused even before anyone took it over: its holder was away for too long.
    """
    now = func.clock_timestamp()
    renewed = session.scalar(
        update(Lease)
        .where(Lease.trial_id == trial_id, Lease.attempt == attempt, Lease.expires_at > now)
        .values(expires_at=now + timedelta(seconds=lease_seconds), heartbeat_at=now)
        .returning(Lease.device)
    )
    if renewed is None:
        raise FencedError(f"attempt {attempt} of {trial_label(trial_id)} holds no lease any more")
    if mlflow_run_id is not None:
        session.execute(
            update(Attempt)
            .where(Attempt.trial_id == trial_id, Attempt.number == attempt)
            .values(mlflow_run_id=mlflow_run_id)
        )


def expired(session: Session) -> list[Lease]:
    """Leases that nobody renewed in time, in an order in which they can be locked one after the other."""
    query = select(Lease).where(Lease.expires_at <= func.clock_timestamp())
    return list(session.scalars(query.order_by(Lease.trial_id)))


def end_attempt(session: Session, trial: Trial, number: int, state: str, reason: str, seconds: float) -> None:
    """End a live attempt of a locked trial: its lease goes, its compute time is charged, once."""
    attempt = session.get_one(Attempt, (trial.id, number))
    assert attempt.ended_at is None, "an attempt ends once"
    attempt.state = state
    attempt.reason = reason
    attempt.seconds = seconds
    attempt.ended_at = session.scalar(select(func.clock_timestamp()))
    trial.cost_seconds += seconds
    session.execute(delete(Lease).where(Lease.trial_id == trial.id, Lease.attempt == number))
    session.flush()


def finish(
    session: Session,
    trial: Trial,
    state: TrialState,
    *,
    reason: str = "",
    failure: str | None = None,
    **values: Any,
) -> None:
    """Give a trial its final state; `values` are further columns of `Trial` (quality, score, result …)."""
    # Asked first: a query flushes, and a half-changed trial breaks the table's rules.
    order, now = session.execute(select(TRIAL_ENDS.next_value(), func.clock_timestamp())).one()
    trial.task.updated_at = now
    trial.state = state
    trial.reason = reason
    trial.failure = failure
    trial.ended_order = order
    trial.ended_at = now
    for name, value in values.items():
        setattr(trial, name, value)
    session.flush()


def give_back(session: Session, trial: Trial, reason: str, max_attempts: int) -> None:
    """After a lost or interrupted attempt: plan another one, unless that makes no sense any more.

    An interrupted attempt (a stopped worker, a killed trainer) counts towards `max_attempts` only where it
    had computed nothing: one that computed gets on from its checkpoint, and its limit ends it. A `FAULT`
    never counts: it pauses the device, not the trial.
    """
    task = trial.task
    idle = and_(Attempt.state == Outcome.INTERRUPTED, Attempt.seconds == 0)
    lost = session.scalar(
        select(func.count()).where(Attempt.trial_id == trial.id, or_(Attempt.state == TrialState.LOST, idle))
    )
    if task.state not in (TaskState.OPEN, TaskState.PAUSED):
        finish(session, trial, TrialState.CANCELLED, reason=f"task is {task.state}: {task.state_reason}")
    elif trial.data_version_id != task.data_version_id:
        finish(session, trial, TrialState.CANCELLED, reason="a newer data version took over")
    elif lost is not None and lost >= max_attempts:
        finish(session, trial, TrialState.LOST, reason=f"vanished {lost} times; last: {reason}", failure=LOST)
    elif trial.reserved_seconds - trial.cost_seconds < SHORTEST_TRIAL_SECONDS:
        spent = f"computed {trial.cost_seconds:.0f} s in {trial.attempt} attempts, which is its limit"
        finish(session, trial, TrialState.FAILED, reason=spent, failure=DEADLINE)
    else:
        trial.state = TrialState.PLANNED
        trial.reason = reason
        session.flush()


def next_planned(session: Session) -> Trial | None:
    """The oldest trial that waits for another attempt, with its task locked; None without one.

    Skips tasks that someone is changing right now: their change announces itself.
    """
    query = (
        select(Trial)
        .join(Task, Task.id == Trial.task_id)
        .where(
            Trial.state == TrialState.PLANNED,
            Task.state == TaskState.OPEN,
            Trial.data_version_id == Task.data_version_id,
        )
        .order_by(Trial.id)
        .limit(1)
        .with_for_update(key_share=True, skip_locked=True)
    )
    return session.scalars(query, execution_options={"populate_existing": True}).one_or_none()
