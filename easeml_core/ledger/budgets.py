"""What a task may still spend: sums over its trials, never a counter that could drift.

A budget is for one data version: new data asks the question anew, so it may spend as much again. A trial
counts from the moment it is leased, as what it reserved; once ended, as what it cost. So the sum can only
fall short of the budget, whatever runs at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import case, func, or_, select
from sqlalchemy.orm import Session

from easeml_core.ledger.models import Task, Trial, TrialState

LIVE = tuple(state for state in TrialState if state.live)


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits (None: no limit) and what counts against them. Times are seconds of device time."""

    trials: int | None
    seconds: float | None
    used_trials: int = 0
    charged_seconds: float = 0.0
    reserved_seconds: float = 0.0

    @property
    def remaining_trials(self) -> int | None:
        """Trials that may still be started."""
        return None if self.trials is None else max(self.trials - self.used_trials, 0)

    @property
    def remaining_seconds(self) -> float | None:
        """Device time that may still be reserved."""
        if self.seconds is None:
            return None
        return max(self.seconds - self.charged_seconds - self.reserved_seconds, 0.0)

    def as_dict(self) -> dict[str, float | int | None]:
        """JSON-ready, with what remains."""
        return {
            "trials": self.trials,
            "seconds": self.seconds,
            "used_trials": self.used_trials,
            "charged_seconds": round(self.charged_seconds, 3),
            "reserved_seconds": round(self.reserved_seconds, 3),
            "remaining_trials": self.remaining_trials,
            "remaining_seconds": self.remaining_seconds,
        }


def budgets_of(session: Session, tasks: Iterable[Task]) -> dict[int, Budget]:
    """The budget of each task's current data version, by task id; one query for all.

    A trial cancelled before it cost anything does not count as one.
    """
    by_id = {task.id: task for task in tasks}
    live = Trial.state.in_(LIVE)
    # Attempts that were lost have cost something already; the reservation covers all attempts together.
    held = func.greatest(Trial.reserved_seconds, Trial.cost_seconds)
    counted = or_(Trial.state != TrialState.CANCELLED, Trial.cost_seconds > 0)
    rows = session.execute(
        select(
            Trial.task_id,
            func.count().filter(counted),
            func.coalesce(func.sum(case((live, 0.0), else_=Trial.cost_seconds)), 0.0),
            func.coalesce(func.sum(case((live, held), else_=0.0)), 0.0),
        )
        .join(Task, Task.id == Trial.task_id)
        .where(Trial.task_id.in_(list(by_id)), Trial.data_version_id == Task.data_version_id)
        .group_by(Trial.task_id)
    )
    used = {task_id: (trials, charged, reserved) for task_id, trials, charged, reserved in rows}
    return {
        task_id: Budget(task.budget_trials, task.budget_seconds, *used.get(task_id, (0, 0.0, 0.0)))
        for task_id, task in by_id.items()
    }


def budget_of(session: Session, task: Task) -> Budget:
    """The budget of one task's current data version."""
    return budgets_of(session, [task])[task.id]
