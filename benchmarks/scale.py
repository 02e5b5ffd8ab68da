"""How long a decision of the default policy takes, and in how much memory, with many open tasks.

Run in a process of its own, so that memory is its own: `python -m benchmarks.scale TASKS ARMS SEEN DECISIONS
TRIED` prints one JSON object. TRIED is the percentage of the arms that each past task has tried.
`fresh_seconds` is the first decision, with nothing kept (imports and the making of the request excluded;
`benchmarks/ledger.py` counts that, too); `warm_*` are those that follow in the same process, each after one
more trial ended. `resident_mb` is what the process grew by from before the first decision to its peak.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from easeml_core.allocator import choose_with_ladder, make_policy, priors
from easeml_core.allocator.types import AllocationRequest, Arm, CompletedTrial, Decision, Ended, OpenTask

PAST = 100


def request_of(tasks: int, arms: int, seen: int, tried: int = 100) -> AllocationRequest:
    """Open tasks with `seen` trials each, of one template with PAST past tasks, each with `tried` % of its
    cells."""
    draw = np.random.default_rng(0)
    names = [f"model-{number:03d}" for number in range(arms)]
    level = draw.normal(0.75, 0.08, (PAST + tasks, 1))
    quality = np.clip(
        level + draw.normal(0, 0.04, (1, arms)) + draw.normal(0, 0.03, (len(level), arms)), 0, 1
    )
    known = np.random.default_rng(1).random((PAST, arms)) < tried / 100
    history = [
        priors.TaskHistory(
            f"past-{row}", {names[arm]: float(quality[row, arm]) for arm in np.flatnonzero(known[row])}
        )
        for row in range(PAST)
    ]
    prior = priors.build("table", names, history)
    opened = []
    for number in range(tasks):
        costs = draw.uniform(1, 100, arms)
        row = quality[PAST + number]
        completed = tuple(
            CompletedTrial(
                names[arm], Ended.SUCCEEDED, float(row[arm]), float(costs[arm]), place * tasks + number
            )
            for place, arm in enumerate(draw.permutation(arms)[:seen])
        )
        opened.append(
            OpenTask(
                task=f"tenant-{number % 40}/task-{number:05d}",
                tenant=f"tenant-{number % 40}",
                template="table",
                arms=tuple(Arm(name, float(cost)) for name, cost in zip(names, costs, strict=True)),
                completed=completed,
                since=number,
                opened=number,
            )
        )
    return AllocationRequest("cpu0", tuple(opened), {"table": prior}, seed=0)


def measure(tasks: int, arms: int, seen: int, decisions: int, tried: int) -> dict[str, float]:
    """Seconds of a first decision and of the ones after it, and memory."""
    make_policy("easeml").choose(request_of(2, 4, 1))  # imports and first calls into the linear algebra
    request = request_of(tasks, arms, seen, tried)
    before = _resident_mb()
    policy = make_policy("easeml")
    spent = []
    for step in range(decisions + 1):
        started = time.perf_counter()
        answer = choose_with_ladder(policy, request)
        spent.append(time.perf_counter() - started)
        assert isinstance(answer, Decision)
        assert not answer.fallbacks, answer.fallbacks
        request = _played(request, answer, order=tasks * seen + step)
    warm = np.array(spent[1:]) * 1e3
    return {
        "tasks": tasks,
        "arms": arms,
        "seen": seen,
        "tried_percent": tried,
        "fresh_seconds": spent[0],
        "warm_median_ms": float(np.median(warm)),
        "warm_p99_ms": float(np.percentile(warm, 99)),
        "resident_mb": _peak_mb() - before,
        "process_mb": _peak_mb(),
    }


def _played(request: AllocationRequest, decision: Decision, order: int) -> AllocationRequest:
    choice = decision.choice
    trial = CompletedTrial(choice.arm, Ended.SUCCEEDED, choice.expected_quality, choice.predicted_cost, order)
    tasks = [
        replace(task, completed=(*task.completed, trial), since=0) if task.task == choice.task else task
        for task in request.tasks
    ]
    return replace(request, tasks=tuple(tasks), step=request.step + 1)


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def main(arguments: Sequence[str]) -> None:
    """Print the figures as JSON."""
    print(json.dumps(measure(*(int(argument) for argument in arguments))))


if __name__ == "__main__":
    main(sys.argv[1:])
