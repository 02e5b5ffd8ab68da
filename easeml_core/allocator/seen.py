"""What a decision saw, kept with it: the request itself is gone once the next trial has ended."""

from __future__ import annotations

from typing import Any

from easeml_core.allocator.types import AllocationRequest, Decision


def seen(request: AllocationRequest, decision: Decision) -> dict[str, Any]:
    """JSON-ready: the served task as it was, how many others there were, and what the belief rested on.

    `tried` are the ended trials of the task on its current data, `running` those on other devices; `best` is
    None before any success. `left` counts candidates that could have been started; limits are None where
    there are none. Qualities are in [0, 1], times in seconds.
    """
    task = next(task for task in request.tasks if task.task == decision.choice.task)
    ended = sorted(task.completed, key=lambda trial: trial.order)
    return {
        "open_tasks": len(request.tasks),
        "tasks_with_work": sum(1 for other in request.tasks if other.eligible()),
        "running_trials": sum(len(other.active) for other in request.tasks),
        "tried": [
            {"candidate": t.arm, "ended": str(t.ended), "quality": t.quality, "cost_seconds": t.cost}
            for t in ended
        ],
        "running": [
            {"candidate": t.arm, "device": t.device, "elapsed_seconds": round(t.elapsed, 1)}
            for t in task.active
        ],
        "best": max((t.quality for t in ended if t.quality is not None), default=None),
        "candidates": len(task.arms),
        "left": len(task.eligible()),
        "waited": task.since,
        "weight": task.weight,
        "remaining_trials": task.remaining_trials,
        "remaining_seconds": task.remaining_seconds,
        "deadline_in_seconds": task.deadline_in,
        "intervals": {share: list(ends) for share, ends in decision.intervals.items()},
        "basis": dict(decision.basis),
    }
