"""All open tasks as the rules of one decision see them: what was played, and what is believed of each.

Three things are settled here, once, for every policy:

* **Failures.** A failed, diverged or lost trial was charged and is a play. Its observation is a poor value,
  `poor`: the lowest that the task has observed, or less. A flat 0 would be many deviations out and would drag
  down every arm that is like it, as if the task were hopeless.
* **Running trials** on other devices are plays whose value is not known yet: they are conditioned on at
  their expected value (`gp.path`), after all that ended.
* **Arms without a prior** (a candidate new to its template, or a template without any prior) get the
  average of the others, or a wide neutral belief, independent of all others.

Tasks are in order of arrival and arms in order of their names, whatever order the request had, so that
permuting a request cannot change a decision.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from easeml_core.allocator import gp
from easeml_core.allocator.types import AllocationRequest, Array, OpenTask, Prior

_Belief = tuple[Array, Array, float]  # mean (K,), covariance (K, K) and noise variance
FAILURE_DEVIATIONS, LEAST_OWN = 2.0, 0.25
# What is believed of an arm that nobody knows anything about: 95 % between 0.2 and 1.
NEUTRAL_MEAN, NEUTRAL_DEVIATION, NEUTRAL_NOISE = 0.6, 0.2, 1e-4


@dataclass(frozen=True, eq=False)
class TaskView:
    """One task. K is the number of its arms; t that of its plays (ended ones by their end, then running).

    `names` has K entries, in order; `costs` `(K,)` in seconds, infinite for an arm that was played and is
    no longer offered; `open` `(K,)` marks what may be started now. `played` are the arms of the plays, as
    positions in `names`, and `values` their observations, None for a running one.
    """

    task: OpenTask
    names: tuple[str, ...]
    costs: Array
    open: npt.NDArray[np.bool_]
    played: tuple[int, ...]
    values: tuple[float | None, ...]
    mean: Array  # prior, (K,)
    covariance: Array  # prior, (K, K)
    noise: float
    source: str  # of the prior
    # What rules computed of the plays so far, by what they computed it from.
    memo: dict[object, list[float]] = field(default_factory=dict)

    @cached_property
    def highest_cost(self) -> float:
        """Highest cost of an arm that is offered, in seconds; 0 without arms."""
        return max((arm.predicted_cost for arm in self.task.arms), default=0.0)

    @property
    def plays(self) -> int:
        """Trials so far: ended in any way, or running."""
        return len(self.played)

    @property
    def succeeded(self) -> bool:
        """Whether any trial has a quality."""
        return any(trial.quality is not None for trial in self.task.completed)

    @cached_property
    def path(self) -> tuple[gp.Posterior, ...]:
        """The t + 1 posteriors before each play and after the last. Raises `FallbackError`."""
        return gp.path(self.mean, self.covariance, self.noise, self.played, self.values)

    @property
    def prior(self) -> gp.Posterior:
        """What was believed before any play."""
        return gp.Posterior.prior(self.mean, self.covariance, self.noise)

    @property
    def posterior(self) -> gp.Posterior:
        """What is believed now, running trials included."""
        return self.path[-1]

    @cached_property
    def observed(self) -> tuple[float, ...]:
        """Observation of each play; that of a running one is its expected value."""
        return tuple(
            float(before.mean[arm]) if value is None else value
            for before, arm, value in zip(self.path, self.played, self.values, strict=False)
        )

    @property
    def last_observed(self) -> float:
        """The last of `observed`."""
        value = self.values[-1]
        return float(self.path[-2].mean[self.played[-1]]) if value is None else value

    @property
    def incumbent(self) -> float:
        """What a trial has to beat: the best observation that has come, or the champion of earlier data; 0
        before any. Where every trial failed it is the best of their poor values, not 0: a task that always
        fails must not look like the one with most to gain."""
        return max(self.task.champion, *(value for value in self.values if value is not None), 0.0)

    def basis(self, arm: int, belief: gp.Posterior) -> dict[str, object]:
        """What `belief` in an arm rests on, for `Decision.basis`; `jitter` only where some was needed."""
        mended = {"jitter": belief.jitter} if belief.jitter else {}
        return {
            "learned_from": self.source,
            "before_any_trial": {
                "quality": float(self.mean[arm]),
                "deviation": math.sqrt(max(float(self.covariance[arm, arm]), 0.0)),
            },
            "trials_of_the_task": sum(value is not None for value in self.values),
            **mended,
        }


@dataclass(frozen=True, eq=False)
class Board:
    """All tasks of a request. `servable` are those with an arm that may be started now."""

    request: AllocationRequest
    views: tuple[TaskView, ...]

    @classmethod
    def of(cls, request: AllocationRequest, views: Views | None = None) -> Board:
        """Look at every task of `request`; `views` spares what has not changed since they were used last."""
        tasks = sorted(request.tasks, key=lambda task: (task.opened, task.task))
        look = (views or Views()).look
        return cls(request, tuple(look(task, request.priors.get(task.template)) for task in tasks))

    @cached_property
    def servable(self) -> tuple[TaskView, ...]:
        """The tasks that could use the device, in order of arrival."""
        return tuple(view for view in self.views if view.open.any())

    @cached_property
    def highest_cost(self) -> float:
        """c*, in seconds, over all arms that are offered to any task."""
        return max(view.highest_cost for view in self.views)

    @cached_property
    def most_arms(self) -> int:
        """K*, the most arms of any task."""
        return max(len(view.task.arms) for view in self.views)


@dataclass
class Views:
    """The views of the last request. A view that still holds is used again, and one more trial extends its
    path instead of starting it over: the same numbers, sooner. Tasks with the same arms share one prior."""

    _last: dict[str, tuple[Prior | None, TaskView]] = field(default_factory=dict)
    _beliefs: dict[tuple[str, ...], tuple[Prior | None, _Belief]] = field(default_factory=dict)

    def look(self, task: OpenTask, prior: Prior | None) -> TaskView:
        """The view of a task."""
        before, old = self._last.get(task.task, (None, None))
        if old is None or before is not prior or old.task.arms != task.arms:
            view = _view(task, prior, self._belief)
        elif _same(old.task, task):
            view = copy.copy(old)
            object.__setattr__(view, "task", task)
        else:
            view = _extended(_view(task, prior, self._belief), old)
        self._last[task.task] = prior, view
        return view

    def _belief(self, names: tuple[str, ...], prior: Prior | None) -> _Belief:
        before, belief = self._beliefs.get(names, (None, None))
        if belief is None or before is not prior:
            belief = _belief(names, prior)
            self._beliefs[names] = prior, belief
        return belief


def _same(old: OpenTask, new: OpenTask) -> bool:
    """Whether nothing that a view is made of has changed, the wait aside."""
    return (
        old.completed == new.completed
        and old.active == new.active
        and old.remaining_trials == new.remaining_trials
        and old.remaining_seconds == new.remaining_seconds
        and old.deadline_in == new.deadline_in
        and old.template == new.template
        and old.champion == new.champion
    )


def _extended(view: TaskView, old: TaskView) -> TaskView:
    """`view`, with the path of `old` where it is one trial behind."""
    more = len(view.played) > len(old.played) and view.names == old.names
    behind = more and view.played[:-1] == old.played and view.values[:-1] == old.values
    if behind and view.values[-1] is not None and "path" in old.__dict__:
        longer = gp.extend(old.path, view.played[-1], view.values[-1])
        if longer is not None:
            view.__dict__["path"] = longer
            view.memo.update({key: list(values) for key, values in old.memo.items()})
    return view


def _view(
    task: OpenTask, prior: Prior | None, belief_of: Callable[[tuple[str, ...], Prior | None], _Belief]
) -> TaskView:
    ended = sorted(task.completed, key=lambda trial: (trial.order, trial.arm))
    running = sorted(task.active, key=lambda trial: (trial.arm, trial.device))
    costs = {arm.name: arm.predicted_cost for arm in task.arms}
    plays = [trial.arm for trial in ended] + [trial.arm for trial in running]
    names = tuple(sorted({*costs, *plays}))
    position = {name: index for index, name in enumerate(names)}
    mean, covariance, noise = belief_of(names, prior)
    open_arms = {arm.name for arm in task.eligible()}
    values: list[float | None] = []
    observed = {position[t.arm]: t.quality for t in ended if t.quality is not None}
    failed = any(trial.quality is None for trial in ended)
    apart = own_deviations(covariance) if failed else np.empty(0)
    for trial in ended:
        arm = position[trial.arm]
        values.append(trial.quality if trial.quality is not None else poor(arm, mean, apart, observed))
    return TaskView(
        task=task,
        names=names,
        costs=np.array([costs.get(name, math.inf) for name in names]),
        open=np.array([name in open_arms for name in names], dtype=np.bool_),
        played=tuple(position[arm] for arm in plays),
        values=(*values, *(None for _ in running)),
        mean=mean,
        covariance=covariance,
        noise=noise,
        source="nothing: this template has no prior" if prior is None else prior.source,
    )


def poor(arm: int, mean: Array, apart: Array, observed: Mapping[int, float]) -> float:
    """What a trial of `arm` that did not succeed counts as.

    FAILURE_DEVIATIONS below what was to be expected of it: its prior mean, moved by what the task's successes
    `observed` (arm → quality) reached on average beyond theirs; never more than the lowest of them, nor less
    than 0. `mean` and `apart`, see `own_deviations`, have shape `(K,)`.
    """
    beyond = [quality - float(mean[other]) for other, quality in observed.items()]
    expected = float(mean[arm]) + (sum(beyond) / len(beyond) if beyond else 0.0)
    lowest = min(observed.values(), default=1.0)
    return max(0.0, min(lowest, expected - FAILURE_DEVIATIONS * float(apart[arm])))


def own_deviations(covariance: Array) -> Array:
    """How far each arm may be from what all others say of it, `(K,)`; at least LEAST_OWN of its deviation.

    A failure speaks of its own arm: that a task is hard moves all arms alike, and fails none.
    """
    variances = np.maximum(np.diagonal(covariance), 0.0)
    ridge = 1e-6 * max(float(variances.mean()), 1e-12) * np.eye(len(variances))
    left = 1.0 / np.maximum(np.diagonal(np.linalg.inv(covariance + ridge)), 1e-300)
    own: Array = np.sqrt(np.clip(left, LEAST_OWN**2 * variances, variances))
    return own


def _belief(names: tuple[str, ...], prior: Prior | None) -> _Belief:
    """Prior mean `(K,)` and covariance `(K, K)` of `names`, and the noise variance."""
    known = {} if prior is None else {name: index for index, name in enumerate(prior.arms)}
    if prior is None or not known:
        k = len(names)
        return np.full(k, NEUTRAL_MEAN), np.eye(k) * NEUTRAL_DEVIATION**2, NEUTRAL_NOISE
    rows = [index for index, name in enumerate(names) if name in known]
    there = [known[names[index]] for index in rows]
    mean = np.full(len(names), float(prior.mean.mean()))
    covariance = np.eye(len(names)) * float(np.diagonal(prior.covariance).mean())
    mean[rows] = prior.mean[there]
    covariance[np.ix_(rows, rows)] = prior.covariance[np.ix_(there, there)]
    return mean, covariance, prior.noise
