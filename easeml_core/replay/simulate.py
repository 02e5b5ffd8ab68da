"""Plays a policy against a table: 1..M devices, simulated time, no randomness but the seed's.

Whenever a device is free the policy is asked, with all that has ended by then and what runs on the other
devices; its choice then runs for the table's cost. Deterministic: the same table, policy and seed give the
same trace. Costs told to the policy are the table's own, unless `predicted` gives others.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from easeml_core.allocator import choose_with_ladder, make_policy, priors
from easeml_core.allocator.types import (
    ActiveTrial,
    AllocationRequest,
    Arm,
    Array,
    CompletedTrial,
    Decision,
    Ended,
    OpenTask,
    Policy,
    Prior,
)
from easeml_core.replay.table import Table

_TEMPLATE = "table"


@dataclass(frozen=True, slots=True)
class Run:
    """One trial of a replay; `task` and `arm` are positions in the table, times are in its unit of cost.

    `expected`, `intervals` and `predicted` (its cost) are what the decision said.
    """

    task: int
    arm: int
    device: str
    start: float
    end: float
    quality: float
    fallbacks: tuple[str, ...] = ()
    expected: float = math.nan
    predicted: float = math.nan
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Trace:
    """What happened: runs in the order they ended, over `table`."""

    table: Table
    runs: tuple[Run, ...]

    @property
    def makespan(self) -> float:
        """When the last run ended."""
        return max((run.end for run in self.runs), default=0.0)

    def losses(self) -> tuple[Array, Array]:
        """Times `(R + 1,)` from 0, and each task's accuracy loss from each time on, `(R + 1, N)`.

        Loss of a task: its best quality in the table less the best found so far, 0 before any run.
        """
        found = np.zeros(len(self.table.tasks))
        steps = [found.copy()]
        for run in self.runs:
            found[run.task] = max(found[run.task], run.quality)
            steps.append(found.copy())
        return np.array([0.0, *(run.end for run in self.runs)]), self.table.best - np.array(steps)

    def area(self) -> float:
        """Area under the average loss over the fraction of the makespan; lower is better."""
        times, losses = self.losses()
        return float((losses[:-1].mean(axis=1) * np.diff(times)).sum() / times[-1])

    def time_to(self, loss: float) -> float:
        """First time at which the average loss is at most `loss`; infinite where it never is."""
        times, losses = self.losses()
        reached = np.flatnonzero(losses.mean(axis=1) <= loss)
        return float(times[reached[0]]) if len(reached) else float("inf")


def replay(
    table: Table,
    policy: str | Policy,
    *,
    history: Table | None = None,
    devices: int = 1,
    seed: int = 0,
    predicted: Array | None = None,
    prior: Prior | None = None,
    until_best: bool = False,
) -> Trace:
    """Serve all tasks of `table` until every known cell has been run, or the policy has nothing to start.

    `history`, of the same models, gives the prior, unless a `prior` is given. `predicted` `(N, K)` are the
    costs that the policy is told. With `until_best` the replay ends once every task has its best: what comes
    later changes no loss. Raises ValueError where `devices` is below 1.
    """
    if devices < 1:
        raise ValueError(f"a replay needs at least one device; got {devices}")
    game = _Game(table, table.cost if predicted is None else predicted)
    prior = prior or priors.build(_TEMPLATE, table.models, past_tasks(history))
    # One policy for the whole replay: it may keep what it computed from one decision to the next.
    policy = make_policy(policy) if isinstance(policy, str) else policy
    found, best = np.zeros(len(table.tasks)), table.best
    busy: list[tuple[float, int, Run]] = []  # by end, then by order of start
    free = [f"device{number}" for number in range(devices)]
    now, runs, memory = 0.0, list[Run](), dict[str, object]()
    started = 0
    while True:
        while free:
            request = AllocationRequest(
                device=free[0],
                tasks=game.open_tasks([run for _, _, run in busy], now),
                priors={_TEMPLATE: prior},
                seed=seed,
                step=started,
                memory=memory,
            )
            answer = choose_with_ladder(policy, request)
            if not isinstance(answer, Decision):
                break
            run = game.start(answer, free.pop(0), now)
            heapq.heappush(busy, (run.end, started, run))
            memory = dict(answer.memory)
            started += 1
        if not busy:
            return Trace(table, tuple(runs))
        now, _, run = heapq.heappop(busy)
        game.finish(run, len(runs))
        runs.append(run)
        found[run.task] = max(found[run.task], run.quality)
        if until_best and (found >= best).all():
            return Trace(table, tuple(runs))
        free = sorted([*free, run.device])


@dataclass
class _Game:
    """The tasks of a table while they are played; only what a trial changed is made anew."""

    table: Table
    predicted: Array
    tasks: list[OpenTask] = field(default_factory=list)
    task_at: dict[str, int] = field(default_factory=dict)
    model_at: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = ~np.isnan(self.table.quality)
        self.task_at = {name: i for i, name in enumerate(self.table.tasks)}
        self.model_at = {name: j for j, name in enumerate(self.table.models)}
        self.tasks = [
            OpenTask(
                task=name,
                tenant=name,
                template=_TEMPLATE,
                arms=tuple(
                    Arm(self.table.models[j], float(self.predicted[i, j])) for j in np.flatnonzero(known[i])
                ),
                opened=i,
            )
            for i, name in enumerate(self.table.tasks)
        ]

    def open_tasks(self, running: Sequence[Run], now: float) -> tuple[OpenTask, ...]:
        busy: dict[int, list[ActiveTrial]] = {}
        for run in running:
            arm = self.table.models[run.arm]
            active = ActiveTrial(arm, run.device, float(self.predicted[run.task, run.arm]), now - run.start)
            busy.setdefault(run.task, []).append(active)
        return tuple(
            replace(task, active=tuple(busy[i])) if i in busy else task for i, task in enumerate(self.tasks)
        )

    def start(self, decision: Decision, device: str, now: float) -> Run:
        i = self.task_at[decision.choice.task]
        j = self.model_at[decision.choice.arm]
        self.tasks = [
            replace(task, since=0 if k == i else task.since + 1) for k, task in enumerate(self.tasks)
        ]
        quality, cost = float(self.table.quality[i, j]), float(self.table.cost[i, j])
        choice = decision.choice
        return Run(
            i,
            j,
            device,
            now,
            now + cost,
            quality,
            decision.fallbacks,
            choice.expected_quality,
            choice.predicted_cost,
            decision.intervals,
        )

    def finish(self, run: Run, order: int) -> None:
        trial = CompletedTrial(
            self.table.models[run.arm], Ended.SUCCEEDED, run.quality, run.end - run.start, order
        )
        task = self.tasks[run.task]
        self.tasks[run.task] = replace(task, completed=(*task.completed, trial))


def past_tasks(table: Table | None) -> list[priors.TaskHistory]:
    """The tasks of a table as a history; none without one."""
    if table is None:
        return []
    return [
        priors.TaskHistory(
            task, {m: float(q) for m, q in zip(table.models, row, strict=True) if not np.isnan(q)}
        )
        for task, row in zip(table.tasks, table.quality, strict=True)
    ]
