"""What a policy is asked, and what it answers: frozen, validated, free of any database or clock.

Units: costs and times are seconds of device time; qualities are in [0, 1], higher is better. A policy is
a pure function of its request: the same request gives the same decision.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


class Ended(StrEnum):
    """How a completed trial ended, as far as the allocator cares."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DIVERGED = "diverged"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Arm:
    """A candidate of a task that may be tried: its name and its predicted cost in seconds."""

    name: str
    predicted_cost: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.predicted_cost) and self.predicted_cost > 0):
            raise ValueError(f"cost of {self.name} must be finite and positive; got {self.predicted_cost}")


@dataclass(frozen=True, slots=True)
class CompletedTrial:
    """A trial that has ended. `quality` is set exactly when it succeeded.

    `order` is the position of its end among all trials of all tasks (policies replay it).
    """

    arm: str
    ended: Ended
    quality: float | None
    cost: float
    order: int

    def __post_init__(self) -> None:
        if (self.ended is Ended.SUCCEEDED) != (self.quality is not None):
            raise ValueError(f"{self.arm}: a quality goes with success, and only with it")
        if self.quality is not None and not 0.0 <= self.quality <= 1.0:  # also refuses NaN
            raise ValueError(f"{self.arm}: quality must be in [0, 1]; got {self.quality}")
        if not (math.isfinite(self.cost) and self.cost >= 0):
            raise ValueError(f"{self.arm}: cost must be finite and not negative; got {self.cost}")


@dataclass(frozen=True, slots=True)
class ActiveTrial:
    """A trial that is planned or running now: its arm must not be chosen again. A type of its own, so
    that it can never be taken for an observation."""

    arm: str
    device: str
    predicted_cost: float
    elapsed: float = 0.0


@dataclass(frozen=True, slots=True)
class OpenTask:
    """One task that wants training. `weight` is its share in the global objective.

    `task` is unique among the tasks of a request; written `tenant/task` it reads best in reasons.
    `arms` are all candidates of the task's program, tried or not. `remaining_trials` and
    `remaining_seconds` are what the budget still allows with running work already taken off; None means
    no limit. `deadline_in` is seconds from now. `since` counts decisions since this task was last served.
    `champion` is what a champion that was trained on earlier data reaches on the present validation split, 0
    without one: it is what the tenant has, though no arm's result.
    """

    task: str
    tenant: str
    template: str
    arms: tuple[Arm, ...]
    completed: tuple[CompletedTrial, ...] = ()
    active: tuple[ActiveTrial, ...] = ()
    weight: float = 1.0
    remaining_trials: int | None = None
    remaining_seconds: float | None = None
    deadline_in: float | None = None
    since: int = 0
    opened: int = 0  # position of the task's arrival among all tasks
    champion: float = 0.0

    def __post_init__(self) -> None:
        names = [arm.name for arm in self.arms]
        if len(set(names)) != len(names):
            raise ValueError(f"{self.task}: an arm is listed twice")
        if not (math.isfinite(self.weight) and self.weight > 0):
            raise ValueError(f"{self.task}: weight must be finite and positive; got {self.weight}")
        if not 0.0 <= self.champion <= 1.0:
            raise ValueError(f"{self.task}: a champion's quality must be in [0, 1]; got {self.champion}")

    @property
    def best(self) -> float:
        """Best quality observed so far; 0 before any (paper: a user's accuracy before any run)."""
        return max((trial.quality for trial in self.completed if trial.quality is not None), default=0.0)

    def eligible(self) -> tuple[Arm, ...]:
        """Arms that may be started now: neither ended nor active, and within budget and deadline."""
        return tuple(self.each_eligible())

    def each_eligible(self) -> Iterator[Arm]:
        """`eligible`, one by one: whether there is any is soon known."""
        if self.remaining_trials is not None and self.remaining_trials < 1:
            return
        taken = {trial.arm for trial in self.completed} | {trial.arm for trial in self.active}
        limit = min(
            math.inf if self.remaining_seconds is None else self.remaining_seconds,
            math.inf if self.deadline_in is None else self.deadline_in,
        )
        for arm in self.arms:
            if arm.name not in taken and arm.predicted_cost <= limit:
                yield arm


@dataclass(frozen=True, slots=True)
class Prior:
    """Joint Gaussian prior over the arms of one template, before a task has observations.

    `mean` has shape `(K,)`, `covariance` shape `(K, K)`, in the order of `arms`; `noise` is the variance
    of an observation. `source` says where it comes from (`the catalogue and 12 past tasks`).

    A Gaussian cannot hold all that past tasks say. For policies that learn more from them, `history`
    `(N, K)` are their qualities, NaN where unknown, `tasks` what those tasks are called, and `catalogue` the
    mean and covariance believed before any of them; None where the prior was made in another way.
    """

    arms: tuple[str, ...]
    mean: Array
    covariance: Array
    noise: float
    source: str
    history: Array | None = None
    catalogue: tuple[Array, Array] | None = None
    tasks: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        k = len(self.arms)
        if self.mean.shape != (k,) or self.covariance.shape != (k, k):
            raise ValueError(f"prior over {k} arms has shapes {self.mean.shape}, {self.covariance.shape}")
        if len(set(self.arms)) != k:
            raise ValueError("a prior lists an arm twice")
        if self.history is not None and self.history.shape[1:] != (k,):
            raise ValueError(f"a history of {k} arms has shape {self.history.shape}")
        if self.tasks is not None and (self.history is None or len(self.tasks) != len(self.history)):
            raise ValueError("a prior names other tasks than its history has")
        if not (np.isfinite(self.mean).all() and np.isfinite(self.covariance).all()):
            raise ValueError("a prior must be finite")
        if not (math.isfinite(self.noise) and self.noise >= 0):
            raise ValueError(f"noise must be finite and not negative; got {self.noise}")


@dataclass(frozen=True, slots=True)
class AllocationRequest:
    """All that a policy may know for one decision.

    `memory` is that of the last `Decision`, whichever policy made it and for whichever device; it is `{}`
    before the first.
    """

    device: str
    tasks: tuple[OpenTask, ...]
    priors: Mapping[str, Prior]  # by template
    seed: int
    step: int = 0  # decisions taken so far, over all tasks
    memory: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [task.task for task in self.tasks]
        if len(set(names)) != len(names):
            raise ValueError("a task is listed twice in the request")


@dataclass(frozen=True, slots=True)
class Scored:
    """One arm as the policy saw it: a runner-up, or the choice itself.

    `score` is what the policy's model rule compared (for GP-UCB: its upper confidence bound, which may
    exceed 1). `expected_quality` and `deviation` are what the policy believed about the arm's quality,
    given all that had ended; `predicted_cost` is in seconds.
    """

    task: str
    arm: str
    score: float
    expected_quality: float
    deviation: float
    predicted_cost: float


@dataclass(frozen=True, slots=True)
class Decision:
    """Which task's which arm to train next, and why.

    `reason` is one or two sentences for people, with the numbers that decided. `memory` is JSON-ready and
    comes back in the next request; a policy keeps what is its own under its own key and hands the other
    keys on, so that falling back for one decision makes no policy forget. `fallbacks` lists the policies
    that failed before this one answered, each with what was wrong.

    `intervals` are the central intervals of the choice's quality that hold 50 and 90 % of the belief, by
    percent: `{"50": (0.88, 0.92), "90": (0.83, 0.95)}`. `basis` says what the belief rests on, JSON-ready: at
    least `learned_from`, in words.
    """

    policy: str
    choice: Scored
    reason: str
    runners_up: tuple[Scored, ...] = ()
    memory: Mapping[str, Any] = field(default_factory=dict)
    fallbacks: tuple[str, ...] = ()
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    basis: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Nothing:
    """No arm can be started now; `reason` says why."""

    reason: str


@runtime_checkable
class Policy(Protocol):
    """Decides what a free device trains next. Pure: it changes neither the request nor itself."""

    @property
    def name(self) -> str:
        """What the policy is called in settings and decisions."""
        ...

    def choose(self, request: AllocationRequest) -> Decision | Nothing:
        """Decide, or raise `FallbackError` where the request is beyond this policy."""
        ...
