"""What each task may gain from each of its arms, kept from one decision to the next.

One decision changes one task. So what was computed of a task is kept for as long as its arms and trials and
what was learned of its template stay the same; comparing them costs next to nothing, since unchanged tuples
are mostly the same objects. Everything here is a function of the request: a process that starts afresh
computes the same (results are rounded to DIGITS, so that the way they were computed cannot break a tie).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from easeml_core.allocator import template as templates
from easeml_core.allocator import warp
from easeml_core.allocator.belief import JITTERS, Family, Prediction, predict
from easeml_core.allocator.board import NEUTRAL_DEVIATION, NEUTRAL_MEAN, poor
from easeml_core.allocator.calibration import SHARES
from easeml_core.allocator.template import Base, Learned
from easeml_core.allocator.types import (
    AllocationRequest,
    Arm,
    Array,
    CompletedTrial,
    OpenTask,
    Prior,
)
from easeml_core.allocator.voices import voices

_Plays = tuple[tuple[int, float], ...]  # (arm, observation), by the end of the trial

DIGITS = 10
# Tasks that are looked at together: as fast as more, in less memory.
TOGETHER = 64
NO_ARM = -1.0
# A candidate of a sound task fails about once in twenty trials.
FAILURE_ODDS = 20.0


@dataclass(frozen=True, eq=False)
class Outlook:
    """The arms of a task that were neither tried nor run now, most gain per second first.

    `values` are expected gains per second, `gains` and `means` in quality if the trial succeeds, `costs` in
    seconds. `best` is what a trial has to beat: the best observation so far, or the champion of earlier data.
    `chance` is that of a trial to succeed at all.
    """

    names: tuple[str, ...]
    values: list[float]
    gains: list[float]
    means: list[float]
    deviations: list[float]
    costs: list[float]
    best: float
    chance: float
    source: str
    prediction: Prediction
    positions: tuple[int, ...]
    top: float  # the first of `values`, below 0 where there is none

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
        return next(self.places(task), None)

    def intervals(self, place: int) -> dict[str, tuple[float, float]]:
        """The central intervals of an arm's quality that hold 50 and 90 % of the belief, by percent."""
        found = self.prediction.intervals(self.positions[place], [int(share) / 100 for share in SHARES])
        return {
            share: (round(low, DIGITS), round(high, DIGITS))
            for share, (low, high) in zip(SHARES, found, strict=True)
        }


@dataclass(frozen=True, eq=False)
class _Entry:
    """A task as it was last seen, and what was made of it."""

    task: OpenTask
    learned: Learned
    outlook: Outlook
    plays: _Plays
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
    total: int  # trials that succeeded
    seen: dict[str, tuple[tuple[CompletedTrial, ...], tuple[Arm, ...]]]
    fresh: tuple[Prediction, Array, Array, Array] | None = None


@dataclass
class Outlooks:
    """Outlooks of all tasks of a request; remembers those of the last request."""

    _entries: dict[str, _Entry] = field(default_factory=dict)
    _templates: dict[str, _Template] = field(default_factory=dict)

    def of(self, request: AllocationRequest) -> list[Outlook]:
        """The outlook of every task, in the request's order. Raises `FallbackError`."""
        before, get = self._entries, self._entries.get
        # A thousand tasks pass here at every decision, and all but one or two are as they were.
        changed = [
            task
            for task in request.tasks
            if (entry := get(task.task)) is None
            or entry.task.completed is not task.completed
            or entry.task.active is not task.active
            or entry.task.arms is not task.arms
            or entry.task.champion != task.champion
            or entry.task.template != task.template
        ]
        names = {task.template for task in request.tasks}
        if len(before) != len(request.tasks) or not self._same(names, changed, request):
            by_template: dict[str, list[OpenTask]] = {name: [] for name in names}
            for task in request.tasks:
                by_template[task.template].append(task)
            for name, tasks in by_template.items():
                self._templates[name] = self._learn(name, tasks, request.priors.get(name))
            changed = list(request.tasks)
            self._entries = {task.task: before[task.task] for task in changed if task.task in before}
        entries = self._entries
        for start in range(0, len(changed), TOGETHER):
            self._look_at(changed[start : start + TOGETHER])
        return [entries[task.task].outlook for task in request.tasks]

    def _look_at(self, tasks: Sequence[OpenTask]) -> None:
        """Bring the entries of some tasks up to date."""
        entries, stale = self._entries, dict[str, tuple[OpenTask, Learned, _Plays]]()
        for task in tasks:
            learned, before = self._templates[task.template].learned, entries.get(task.task)
            if before is not None and _same_trials(before, task, learned):
                entries[task.task] = replace(before, task=task)
            else:
                stale[task.task] = task, learned, _plays(task, learned)
        families = _conditioned(stale, entries)
        for name, (task, _, plays) in stale.items():
            entries[name] = _look(task, self._templates[task.template], plays, families[name])

    def basis(self, task: OpenTask) -> dict[str, object]:
        """What the belief in the arms of a task rested on in the last request, for `Decision.basis`."""
        entry = self._entries[task.task]
        jitter = max(family.jitter for family in entry.families)
        return {
            "learned_from": entry.outlook.source,
            "trials_of_the_task": len(task.completed),
            "experts": voices(entry.families, entry.learned.weights, task.task),
            **({"jitter": jitter} if jitter > JITTERS[0] else {}),
        }

    def _same(self, names: set[str], changed: list[OpenTask], request: AllocationRequest) -> bool:
        """Whether what was learned of all templates still holds, given the tasks that changed."""
        for name in names:
            known = self._templates.get(name)
            if known is None or known.prior is not request.priors.get(name):
                return False
        if any(task.task not in self._entries for task in changed):
            return False
        if any(self._entries[task.task].task.template != task.template for task in changed):
            return False
        return all(
            _still_holds(self._templates[name], [task for task in changed if task.template == name])
            for name in {task.template for task in changed}
        )

    def _learn(self, name: str, tasks: list[OpenTask], prior: Prior | None) -> _Template:
        """What is known of a template now; what only the prior decides is kept."""
        old = self._templates.get(name)
        extra = frozenset(_unknown(tasks, () if prior is None else prior.arms))
        if old is not None and old.prior is prior and old.extra == extra:
            start = old.start
        else:
            start = templates.base(prior, sorted(extra), (NEUTRAL_MEAN, NEUTRAL_DEVIATION))
        ends = sorted(t.order for task in tasks for t in task.completed if t.quality is not None)
        reached = templates.first_trials(len(ends))
        last = ends[reached - 1] if reached else -1
        rows = {
            task.task: {t.arm: t.quality for t in task.completed if t.quality is not None and t.order <= last}
            for task in tasks
        }
        learned = templates.learn(start, {task: row for task, row in rows.items() if row})
        seen = {task.task: (task.completed, task.arms) for task in tasks}
        return _Template(prior, extra, start, learned, reached, last, len(ends), seen)


def _unknown(tasks: list[OpenTask], known: tuple[str, ...]) -> set[str]:
    there = set(known)
    unknown: set[str] = set()
    for task in tasks:
        unknown |= {arm.name for arm in task.arms} - there
        unknown |= {trial.arm for trial in task.completed} - there
        unknown |= {trial.arm for trial in task.active} - there
    return unknown


def _successes(completed: tuple[CompletedTrial, ...]) -> int:
    return sum(1 for trial in completed if trial.quality is not None)


def _learned_from(completed: tuple[CompletedTrial, ...], last: int) -> set[tuple[str, float]]:
    return {(t.arm, t.quality) for t in completed if t.quality is not None and t.order <= last}


def _still_holds(known: _Template, changed: list[OpenTask]) -> bool:
    """Whether learning again would give the same: no new arms, and the same first trials."""
    total = known.total
    for task in changed:
        completed, arms = known.seen[task.task]
        if arms is not task.arms and arms != task.arms:
            return False
        if any(trial.arm not in known.learned.index for trial in task.completed):
            return False
        if _learned_from(completed, known.last) != _learned_from(task.completed, known.last):
            return False
        total += _successes(task.completed) - _successes(completed)
    if templates.first_trials(total) != known.reached:
        return False
    known.total = total
    known.seen.update({task.task: (task.completed, task.arms) for task in changed})
    return True


def _same_trials(before: _Entry, task: OpenTask, learned: Learned) -> bool:
    """Whether what was made of a task before still holds."""
    return (
        before.learned is learned
        and before.task.completed == task.completed
        and before.task.active == task.active
        and before.task.arms == task.arms
        and before.task.champion == task.champion
    )


def _look(task: OpenTask, known: _Template, plays: _Plays, families: tuple[Family, ...]) -> _Entry:
    """Rank the arms of a task, of whose `plays` the `families` know."""
    learned = known.learned
    best = max(task.champion, *(value for _, value in plays), 0.0)
    if not (plays or task.active or task.champion):
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
    return _Entry(task, learned, outlook, plays, families)


def _plays(task: OpenTask, learned: Learned) -> _Plays:
    """(arm, observation) of each ended trial, by its end; a failure is a poor observation (see `board`)."""
    ended = sorted(task.completed, key=lambda trial: (trial.order, trial.arm))
    observed = {learned.index[trial.arm]: trial.quality for trial in ended if trial.quality is not None}
    plays = []
    for trial in ended:
        arm, quality = learned.index[trial.arm], trial.quality
        plays.append((arm, poor(arm, learned.mean, learned.apart, observed) if quality is None else quality))
    return tuple(plays)


def chance_of_success(completed: tuple[CompletedTrial, ...]) -> float:
    """Chance that the next trial of a task succeeds, given how the `completed` ones ended; 1 at first.

    Either something is wrong with the task, and all its trials fail, or with single candidates. The first
    failure is as likely to be the one as the other; each further one is FAILURE_ODDS times as likely where
    all fail. One success tells that the task is sound.
    """
    if not completed or any(trial.quality is not None for trial in completed):
        return 1.0
    return 1.0 / (1.0 + FAILURE_ODDS ** (len(completed) - 1))


def _conditioned(
    tasks: Mapping[str, tuple[OpenTask, Learned, _Plays]], entries: Mapping[str, _Entry]
) -> dict[str, tuple[Family, ...]]:
    """What the families make of the plays of some tasks: those of before and more go on from there, all
    others start anew, those with as many plays together."""
    found: dict[str, tuple[Family, ...]] = {}
    anew: dict[tuple[str, int], list[str]] = {}
    for name, (task, learned, plays) in tasks.items():
        before = entries.get(name)
        if before is None or before.learned is not learned or plays[: len(before.plays)] != before.plays:
            anew.setdefault((task.template, len(plays)), []).append(name)
            continue
        found[name] = before.families
        for arm, quality in plays[len(before.plays) :]:
            value = float(warp.warp(np.array(quality), learned.soft))
            found[name] = tuple(family.observe(arm, value) for family in found[name])
    for names in anew.values():
        learned = tasks[names[0]][1]
        plays_of = [tasks[name][2] for name in names]
        arms = np.array([[arm for arm, _ in plays] for plays in plays_of], dtype=np.int64)
        values = warp.warp(np.array([[quality for _, quality in plays] for plays in plays_of]), learned.soft)
        made = [Family.of_many(family, arms, values) for family in learned.families]
        found |= zip(names, zip(*made, strict=True), strict=True)
    return found


def _rank(
    task: OpenTask,
    learned: Learned,
    prediction: Prediction,
    expected: tuple[Array, Array, Array],
    best: float,
) -> Outlook:
    taken = {trial.arm for trial in task.completed} | {trial.arm for trial in task.active}
    left = [arm for arm in task.arms if arm.name not in taken]
    costs = np.array([arm.predicted_cost for arm in left])
    at = np.array([learned.index[arm.name] for arm in left], dtype=np.int64)
    mean, deviation, gain = np.round(np.stack(expected)[:, at], DIGITS)
    chance = chance_of_success(task.completed)
    values = chance * gain / costs
    # Positions are in the order of names.
    order = np.lexsort((at, costs, -values))
    past = f"{learned.past} past tasks" if learned.past != 1 else "1 past task"
    return Outlook(
        names=tuple(left[i].name for i in order.tolist()),
        values=values[order].tolist(),
        gains=gain[order].tolist(),
        means=mean[order].tolist(),
        deviations=deviation[order].tolist(),
        costs=costs[order].tolist(),
        best=best,
        chance=chance,
        source=f"{past} and the open tasks" if learned.past else "the catalogue and the open tasks",
        prediction=prediction,
        positions=tuple(at[order].tolist()),
        top=float(values[order[0]]) if len(order) else NO_ARM,
    )
