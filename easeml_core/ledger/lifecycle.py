"""When a task opens and closes: the only place that changes `Task.state` by rule.

A task is over when its goal is reached, its budget is used, its deadline has passed or every candidate
has been tried (`done`), or when trial after trial fails the same way (`failed`). A new spec, data version
or candidate opens it again; what its tenant paused or cancelled stays so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from easeml_core.ledger.budgets import budget_of
from easeml_core.ledger.models import TRIAL_ENDS, Candidate, Task, TaskState, Trial, TrialState
from easeml_core.ledger.session import announce

REOPENS = (TaskState.DONE, TaskState.FAILED, TaskState.REJECTED)
# Less time than this is none: no trainer gets anywhere in it.
SHORTEST_TRIAL_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a task is over, in words for its tenant."""

    state: TaskState
    reason: str


def reopen(session: Session, task: Task, reason: str) -> bool:
    """Open a task that was over or rejected; True when it was. Devices that wait are told either way."""
    announce(session)
    if task.state not in REOPENS:
        return False
    set_state(task, TaskState.OPEN, reason)
    return True


def set_state(task: Task, state: TaskState, reason: str) -> None:
    """Change a task's state, with the reason that people read."""
    task.state = state
    task.state_reason = reason
    task.updated_at = datetime.now(UTC)


def review(session: Session, task: Task, max_failures: int, *, nothing_fits: bool = False) -> Ending | None:
    """Close an open task that is over and cancel its planned trials; returns why, or None if it goes on.

    The caller holds the task's row lock. `nothing_fits` says that the allocator found every untried
    candidate too expensive for what is left of the budget or of the time.
    """
    if task.state != TaskState.OPEN or task.data_version_id is None:
        return None
    ending = _ending(session, task, max_failures, nothing_fits)
    if ending is not None:
        set_state(task, ending.state, ending.reason)
        cancel_planned(session, task, ending.reason)
        announce(session)
    return ending


def cancel_planned(session: Session, task: Task, reason: str, *, keep_version: int | None = None) -> int:
    """Cancel trials that wait for another attempt; returns how many. Running ones are not touched."""
    query = update(Trial).where(Trial.task_id == task.id, Trial.state == TrialState.PLANNED)
    if keep_version is not None:
        query = query.where(Trial.data_version_id != keep_version)
    cancelled = session.scalars(
        query.values(
            state=TrialState.CANCELLED,
            reason=reason,
            ended_at=func.clock_timestamp(),
            ended_order=TRIAL_ENDS.next_value(),
        ).returning(Trial.id)
    )
    return len(cancelled.all())


def _ending(session: Session, task: Task, max_failures: int, nothing_fits: bool) -> Ending | None:
    trials = session.scalars(
        select(Trial)
        .where(
            Trial.task_id == task.id,
            Trial.data_version_id == task.data_version_id,
            Trial.state != TrialState.CANCELLED,
        )
        .order_by(Trial.ended_order)
    ).all()
    ended = [trial for trial in trials if not TrialState(trial.state).live]
    best = max((trial.quality for trial in ended if trial.quality is not None), default=None)

    if task.stop_quality is not None and best is not None and best >= task.stop_quality:
        return Ending(TaskState.DONE, f"goal reached: quality {best:.4f} of at least {task.stop_quality:.4f}")
    if task.deadline is not None and task.deadline <= datetime.now(UTC):
        return Ending(TaskState.DONE, f"deadline {task.deadline:%Y-%m-%d %H:%M} UTC has passed")
    if (repeated := _repeated_failure(ended, max_failures)) is not None:
        return repeated
    if len(ended) < len(trials):
        return None  # what runs now may still fail, reach the goal, or give back what it reserved

    why = _used_up(session, task, {trial.candidate_id for trial in ended}, nothing_fits)
    if why is None:
        return None
    if best is None and ended:
        return Ending(TaskState.FAILED, f"{why} and none succeeded; {_top_reason(ended)}")
    return Ending(TaskState.DONE, why)


def _used_up(session: Session, task: Task, tried: set[int], nothing_fits: bool) -> str | None:
    budget = budget_of(session, task)
    if budget.remaining_trials is not None and budget.remaining_trials < 1:
        return f"budget of {budget.trials} trials is used"
    if budget.remaining_seconds is not None and budget.remaining_seconds < SHORTEST_TRIAL_SECONDS:
        return f"budget of {budget.seconds:.0f} s device time is used"
    offered = session.scalars(
        select(Candidate.id).where(Candidate.task_id == task.id, Candidate.offered)
    ).all()
    untried = len(set(offered) - tried)
    if not untried:
        return f"every candidate ({len(offered)}) has been tried"
    if nothing_fits:
        return f"none of the {untried} untried candidates fits into what is left of the budget or the time"
    return None


def _repeated_failure(ended: Sequence[Trial], max_failures: int) -> Ending | None:
    last = ended[-max_failures:]
    kinds = {trial.failure for trial in last}
    if len(last) < max_failures or len(kinds) != 1 or None in kinds:
        return None
    kind = str(kinds.pop()).replace("_", " ")
    return Ending(TaskState.FAILED, f"the last {max_failures} trials ended as “{kind}”; {_top_reason(last)}")


def _top_reason(trials: Sequence[Trial]) -> str:
    (reason, count), *_ = Counter(trial.reason or "no reason given" for trial in trials).most_common(1)
    return f"most often ({count} of {len(trials)}): {reason}"
