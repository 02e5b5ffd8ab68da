"""Ease.ml's default policy: over all tasks at once, the trial with the most expected gain per second.

    a task's index = weight * chance of success * E[max(quality - best so far, 0)] / predicted cost

maximised over all arms of all tasks: which tenant and which model is one question. The expectation is under
the mixture of `belief`, in quality, so a sure step from 0.70 to 0.75 and an even chance of 0.80 weigh the
same. Nothing is explored for its own sake; a belief with honest tails returns to a task by itself.

* **Running trials** count as what they are expected to add: the task's best is raised by their expected
  improvement, and their arms are conditioned on as `belief` says.
* **A champion that was trained on earlier data** is the best so far with what it reaches on the present.
* **Failed, diverged and lost trials** are observed as `board` has it: a poor value. While a task has nothing
  but these, each lowers its chance of success (`outlook.chance_of_success`): else it would promise most.
* **Fairness floor.** A task that has waited more than FLOOR rounds (a round is one decision for every
  task with work left) is served before any other, by its own best arm.

For a process that lives longer than a decision, what was computed is kept, keyed by what it was computed
from; the same request gives the same decision with or without.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from easeml_core.allocator import tenants
from easeml_core.allocator.models import seconds
from easeml_core.allocator.outlook import NO_ARM, Outlook, Outlooks
from easeml_core.allocator.types import AllocationRequest, Array, Decision, Nothing, OpenTask, Scored

NAME = "easeml"
RUNNERS_UP = 5
FLOOR = 20.0


@dataclass(frozen=True, slots=True)
class _Best:
    """The best startable arm of a task; `value` is its index, weight included."""

    task: OpenTask
    outlook: Outlook
    place: int  # in the outlook's ranking
    value: float

    @property
    def order(self) -> tuple[float, float, int, str]:
        """Sorts the best first; ties: cheaper, then who came first."""
        return (-self.value, self.outlook.costs[self.place], self.task.opened, self.task.task)


@dataclass(frozen=True)
class Easeml:
    """The default policy. `floor` is the most rounds that a task may wait."""

    name: str = NAME
    floor: float = FLOOR
    _outlooks: Outlooks = field(default_factory=Outlooks, compare=False, repr=False)

    def choose(self, request: AllocationRequest) -> Decision | Nothing:
        """Decide; raises `FallbackError` where a belief cannot be computed."""
        tasks, outlooks = request.tasks, self._outlooks.of(request)
        values = np.array(
            [
                outlook.top * task.weight
                if task.remaining_seconds is None
                and task.deadline_in is None
                and (task.remaining_trials is None or task.remaining_trials > 0)
                else _limited(task, outlook)
                for task, outlook in zip(tasks, outlooks, strict=True)
            ]
        )
        servable = np.flatnonzero(values >= 0)
        if not len(servable):
            from easeml_core.allocator.policy import why_nothing

            return Nothing(why_nothing(tasks))
        waits = np.array([task.since for task in tasks])[servable]
        waited = bool(waits.max() > self.floor * len(servable))
        among = servable[waits == waits.max()] if waited else servable
        ahead = among[values[among] == values[among].max()]
        chosen = min((_head(tasks[i], outlooks[i], float(values[i])) for i in ahead), key=_order)
        first = _leaders(values, servable)
        heads = sorted((_head(tasks[i], outlooks[i], float(values[i])) for i in first), key=_order)
        intervals = chosen.outlook.intervals(chosen.place)
        return Decision(
            policy=self.name,
            choice=self._scored(chosen.task, chosen.outlook, chosen.place),
            reason=self._reason(chosen, intervals["90"], len(servable), waited),
            runners_up=self._runners_up(chosen, heads[: RUNNERS_UP + 1]),
            memory=dict(request.memory),
            intervals=intervals,
            basis=self._outlooks.basis(chosen.task),
        )

    def _runners_up(self, chosen: _Best, ahead: list[_Best]) -> tuple[Scored, ...]:
        """The arms with the next highest indices, of whatever task."""
        heads = {entry.task.task: entry for entry in (*ahead, chosen)}
        pool: list[tuple[tuple[float, float, int, str], int, _Best]] = []
        for entry in heads.values():
            for number, place in enumerate(entry.outlook.places(entry.task)):
                if number > RUNNERS_UP:
                    break
                value = entry.task.weight * entry.outlook.values[place]
                order = _Best(entry.task, entry.outlook, place, value).order
                if (entry.task.task, place) != (chosen.task.task, chosen.place):
                    pool.append((order, place, entry))
        pool.sort(key=lambda item: item[:2])
        return tuple(self._scored(e.task, e.outlook, place) for _, place, e in pool[:RUNNERS_UP])

    def _scored(self, task: OpenTask, outlook: Outlook, place: int) -> Scored:
        return Scored(
            task=task.task,
            arm=outlook.names[place],
            score=task.weight * outlook.values[place],
            expected_quality=outlook.means[place],
            deviation=outlook.deviations[place],
            predicted_cost=outlook.costs[place],
        )

    def _reason(self, chosen: _Best, interval: tuple[float, float], tasks: int, waited: bool) -> str:
        outlook, place, name = chosen.outlook, chosen.place, chosen.task.task
        arm, gain = outlook.names[place], outlook.gains[place]
        low, high = interval
        succeeded = any(trial.quality is not None for trial in chosen.task.completed)
        best = f"over its best so far of {outlook.best:.3f}" if succeeded else "as it has nothing so far"
        if chosen.task.champion > chosen.task.best:
            best = f"over the {outlook.best:.3f} that its champion, trained on earlier data, reaches now"
        failed = len(chosen.task.completed)
        doubt = (
            f"; after {tenants.count(failed, 'failure')} and no success, a chance of {outlook.chance:.2g} "
            "that it does not fail, too, is counted in"
            if outlook.chance < 1
            else ""
        )
        running = ", with what runs on other devices counted as expected" if chosen.task.active else ""
        expects = (
            f"{arm} is expected to reach {outlook.means[place]:.3f} (90 % between {low:.3f} and {high:.3f}) "
            f"in about {seconds(outlook.costs[place])}, an expected gain of {gain:.3g} {best}{running}{doubt}"
        )
        if waited:
            wait = tenants.count(chosen.task.since, "decision")
            return f"{name} has waited {wait}, more than {self.floor:g} rounds, and goes first; {expects}."
        if gain == 0:
            return (
                f"{name}: nothing is expected to improve on its best so far of {outlook.best:.3f}, nor does "
                f"another task promise more; while there is budget the cheapest candidate goes first, {arm} "
                f"in about {seconds(outlook.costs[place])}."
            )
        left = sum(1 for _ in outlook.places(chosen.task))
        others = [f"its {tenants.count(left - 1, 'other candidate')} left"] if left > 1 else []
        others += [f"those of {tenants.count(tasks - 1, 'other task')} with work left"] if tasks > 1 else []
        most = (
            f"nothing promises more per second among {' and '.join(others)}"
            if others
            else "it is all that is left"
        )
        return f"{name}: {expects}; {most}. Learned from {outlook.source}."


def _head(task: OpenTask, outlook: Outlook, value: float) -> _Best:
    place = outlook.first(task)
    assert place is not None
    return _Best(task, outlook, place, value)


def _limited(task: OpenTask, outlook: Outlook) -> float:
    """The index of the best arm that fits the task's budget and deadline, below 0 without one."""
    place = outlook.first(task)
    return NO_ARM if place is None else outlook.values[place] * task.weight


def _leaders(values: Array, servable: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The tasks that the runners-up can be of: those with the highest indices, ties included."""
    count = min(RUNNERS_UP + 1, len(servable))
    edge = np.partition(values[servable], len(servable) - count)[len(servable) - count]
    leaders: npt.NDArray[np.int64] = servable[values[servable] >= edge]
    return leaders


def _order(entry: _Best) -> tuple[float, float, int, str]:
    return entry.order
