"""What each task may gain from each of its arms, kept from one decision to the next.

One decision changes one task. So what was computed of a task is kept for as long as its arms and trials and
what was learned of its template stay the same; comparing them costs next to nothing, since unchanged tuples
are mostly the same objects. Everything here is a function of the request: a process that starts afresh
computes the same (results are rounded to DIGITS, so that the way they were computed cannot break a tie).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from easeml_core.allocator import template as templates
from easeml_core.allocator import warp
from easeml_core.allocator.belief import Family, Prediction, predict
from easeml_core.allocator.board import FAILURE_DEVIATIONS, NEUTRAL_DEVIATION, NEUTRAL_MEAN
from easeml_core.allocator.template import Base, Learned
from easeml_core.allocator.types import (
    ActiveTrial,
    AllocationRequest,
    Arm,
    Array,
    CompletedTrial,
    Ended,
    OpenTask,
    Prior,
)

DIGITS = 10


@dataclass(frozen=True, eq=False)
class Outlook:
    """The arms of a task that were neither tried nor run now, most gain per second first.

    `values` are expected gains per second, `gains` and `means` in quality, `costs` in seconds. `best` is
    the best observation so far.
    """

    names: tuple[str, ...]
    values: list[float]
    gains: list[float]
    means: list[float]
    deviations: list[float]
    costs: list[float]
    best: float
    source: str
    prediction: Prediction
    positions: tuple[int, ...]

    def places(self, task: OpenTask) -> Iterator[int]:
        """Places in the ranking that fit the task's budget and deadline, best first."""
        if task.remaining_trials is not None and task.remaining_trials < 1:
            return
        limit = min(
            math.inf if task.remaining_seconds is None else task.remaining_seconds,
            math.inf if task.deadline_in is None else task.deadline_in,
        )
        for place, cost in enumerate(self.costs):
            if cost <= limit:
                yield place

    def first(self, task: OpenTask) -> int | None:
        """The best place that fits, None where nothing does."""
        if task.remaining_trials is None and task.remaining_seconds is None and task.deadline_in is None:
            return 0 if self.names else None
        return next(self.places(task), None)

    def interval(self, place: int, share: float = 0.9) -> tuple[float, float]:
        """The central interval of an arm's quality that holds `share` of the belief."""
        return self.prediction.interval(self.positions[place], share)


@dataclass(frozen=True, eq=False)
class _Entry:
    """A task as it was last seen, and what was made of it."""

    arms: tuple[Arm, ...]
    completed: tuple[CompletedTrial, ...]
    active: tuple[ActiveTrial, ...]
    learned: Learned
    outlook: Outlook
    plays: tuple[tuple[int, float], ...]
    families: tuple[Family, ...]


@dataclass
class _Template:
    """What was learned of a template, and from what."""

    prior: Prior | None
    extra: frozenset[str]
    start: Base
    learned: Learned
    reached: int
    last: int  # `order` of the last trial that was learned from
    fresh: tuple[Prediction, Array, Array, Array] | None = None
    seen: dict[str, tuple[tuple[CompletedTrial, ...], int]] = field(default_factory=dict)
    arms: dict[str, tuple[Arm, ...]] = field(default_factory=dict)


@dataclass
class Outlooks:
    """Outlooks of all tasks of a request; remembers those of the last request."""

    _entries: dict[str, _Entry] = field(default_factory=dict)
    _templates: dict[str, _Template] = field(default_factory=dict)

    def of(self, request: AllocationRequest) -> list[tuple[OpenTask, Outlook]]:
        """Every task with its outlook, in the request's order. Raises `FallbackError`."""
        by_template: dict[str, list[OpenTask]] = {}
        for task in request.tasks:
            by_template.setdefault(task.template, []).append(task)
        found = []
        entries = {}
        for name, tasks in by_template.items():
            known = self._templates[name] = self._template(name, tasks, request.priors.get(name))
            learned = known.learned
            for task in tasks:
                entry = self._entries.get(task.task)
                if (
                    entry is None
                    or entry.learned is not learned
                    or entry.completed != task.completed
                    or entry.active != task.active
                    or entry.arms != task.arms
                ):
                    entry = _look(task, known, entry)
                entries[task.task] = entry
                found.append((task, entry.outlook))
        self._entries = entries
        return found

    def _template(self, name: str, tasks: list[OpenTask], prior: Prior | None) -> _Template:
        """What is known of a template now: the same object as before where nothing to learn has come."""
        old = self._templates.get(name)
        if old is not None and old.prior is prior and _still_holds(old, tasks):
            return old
        extra = frozenset(_unknown(tasks, () if prior is None else prior.arms))
        if old is not None and old.prior is prior and old.extra == extra:
            start = old.start
        else:
            start = templates.base(prior, sorted(extra), (NEUTRAL_MEAN, NEUTRAL_DEVIATION))
        ends = np.array(
            sorted(t.order for task in tasks for t in task.completed if t.quality is not None), dtype=np.int64
        )
        reached = templates.first_trials(ends)
        last = int(ends[reached - 1]) if reached else -1
        rows = {
            task.task: {t.arm: t.quality for t in task.completed if t.quality is not None and t.order <= last}
            for task in tasks
        }
        learned = templates.learn(start, {task: row for task, row in rows.items() if row})
        made = _Template(prior, extra, start, learned, reached, last)
        _note(made, tasks)
        return made


def _unknown(tasks: list[OpenTask], known: tuple[str, ...]) -> set[str]:
    there = set(known)
    unknown: set[str] = set()
    for arms in {task.arms for task in tasks}:
        unknown |= {arm.name for arm in arms} - there
    for task in tasks:
        unknown |= {trial.arm for trial in (*task.completed, *task.active)} - there
    return unknown


def _note(known: _Template, tasks: list[OpenTask]) -> None:
    known.seen = {task.task: (task.completed, _successes(task.completed)) for task in tasks}
    known.arms = {task.task: task.arms for task in tasks}


def _successes(completed: tuple[CompletedTrial, ...]) -> int:
    return sum(1 for trial in completed if trial.quality is not None)


def _learned_from(completed: tuple[CompletedTrial, ...], last: int) -> set[tuple[str, float]]:
    return {(t.arm, t.quality) for t in completed if t.quality is not None and t.order <= last}


def _still_holds(known: _Template, tasks: list[OpenTask]) -> bool:
    """Whether learning again would give the same: the same tasks and arms, and the same first trials."""
    if len(tasks) != len(known.seen):
        return False
    changed = []
    for task in tasks:
        before = known.seen.get(task.task)
        if before is None:
            return False
        if before[0] is not task.completed and before[0] != task.completed:
            changed.append(task)
        arms = known.arms[task.task]
        if arms is not task.arms and arms != task.arms:
            return False
    for task in changed:
        before = known.seen[task.task][0]
        if _learned_from(before, known.last) != _learned_from(task.completed, known.last):
            return False
        if any(trial.arm not in known.learned.index for trial in task.completed):
            return False
        known.seen[task.task] = (task.completed, _successes(task.completed))
    total = sum(count for _, count in known.seen.values())
    return templates.first_trials(np.empty(total)) == known.reached


def _look(task: OpenTask, known: _Template, before: _Entry | None) -> _Entry:
    """Condition on a task's trials and rank its arms."""
    learned = known.learned
    plays = _plays(task, learned)
    families = _condition(plays, learned, before)
    best = max((value for _, value in plays), default=0.0)
    if not plays and not task.active:
        if known.fresh is None:
            prediction = predict(families, learned.weights, learned.soft)
            qualities = prediction.qualities()
            known.fresh = (prediction, *prediction.moments(qualities), prediction.improvement(qualities, 0.0))
        prediction, mean, deviation, gain = known.fresh
    else:
        now, incumbent = families, best
        for trial in sorted(task.active, key=lambda trial: (trial.arm, trial.device)):
            arm = learned.index[trial.arm]
            prediction = predict(now, learned.weights, learned.soft, task.task)
            qualities = prediction.qualities([arm])
            incumbent += float(prediction.improvement(qualities, incumbent)[0])
            now = tuple(family.observe(arm, None) for family in now)
        prediction = predict(now, learned.weights, learned.soft, task.task)
        qualities = prediction.qualities()
        mean, deviation = prediction.moments(qualities)
        gain = prediction.improvement(qualities, incumbent)
    outlook = _rank(task, learned, prediction, (mean, deviation, gain), best)
    return _Entry(task.arms, task.completed, task.active, learned, outlook, plays, families)


def _plays(task: OpenTask, learned: Learned) -> tuple[tuple[int, float], ...]:
    """(arm, observation) of each ended trial, by its end; a failure is a poor observation (see `board`)."""
    ended = sorted(task.completed, key=lambda trial: (trial.order, trial.arm))
    lowest = min((trial.quality for trial in ended if trial.quality is not None), default=1.0)
    plays = []
    for trial in ended:
        arm = learned.index[trial.arm]
        if trial.ended is Ended.SUCCEEDED and trial.quality is not None:
            plays.append((arm, trial.quality))
        else:
            poor = float(learned.mean[arm]) - FAILURE_DEVIATIONS * float(learned.deviation[arm])
            plays.append((arm, max(0.0, min(lowest, poor))))
    return tuple(plays)


def _condition(
    plays: tuple[tuple[int, float], ...], learned: Learned, before: _Entry | None
) -> tuple[Family, ...]:
    if plays and before is not None and before.learned is learned and plays[:-1] == before.plays:
        arm, quality = plays[-1]
        value = float(warp.warp(np.array(quality), learned.soft))
        return tuple(family.observe(arm, value) for family in before.families)
    if before is not None and before.learned is learned and plays == before.plays:
        return before.families
    values = warp.warp(np.array([quality for _, quality in plays]), learned.soft)
    arms = [arm for arm, _ in plays]
    return tuple(Family.of(family, arms, list(values)) for family in learned.families)


def _rank(
    task: OpenTask,
    learned: Learned,
    prediction: Prediction,
    expected: tuple[Array, Array, Array],
    best: float,
) -> Outlook:
    taken = {trial.arm for trial in task.completed} | {trial.arm for trial in task.active}
    names = [arm.name for arm in task.arms if arm.name not in taken]
    costs = np.array([arm.predicted_cost for arm in task.arms if arm.name not in taken])
    at = np.array([learned.index[name] for name in names], dtype=np.int64)
    mean, deviation, gain = (np.round(array[at], DIGITS) for array in expected)
    values = gain / costs
    order = sorted(range(len(names)), key=lambda i: (-values[i], costs[i], names[i]))
    past = f"{learned.past} past tasks" if learned.past != 1 else "1 past task"
    return Outlook(
        names=tuple(names[i] for i in order),
        values=values[order].tolist(),
        gains=gain[order].tolist(),
        means=mean[order].tolist(),
        deviations=deviation[order].tolist(),
        costs=costs[order].tolist(),
        best=best,
        source=f"{past} and the open tasks" if learned.past else "the catalogue and the open tasks",
        prediction=prediction,
        positions=tuple(int(at[i]) for i in order),
    )
