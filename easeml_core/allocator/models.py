"""Which model: rules that score the arms of one task.

A rule answers for one task at a time and knows nothing of turns; which task is served is the other half
(`tenants`). Fixed orders and expected improvement fit the same protocol.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from easeml_core.allocator import ucb
from easeml_core.allocator.board import Board, TaskView
from easeml_core.allocator.gp import Posterior
from easeml_core.allocator.types import Array, Scored


class ModelRule(Protocol):
    """Scores the arms of a task; the open arm with the highest score is the one to train."""

    @property
    def name(self) -> str:
        """What the rule is called in a policy's name."""
        ...

    def scores(self, view: TaskView, board: Board) -> Array:
        """Score of every arm, shape `(K,)`, higher is better; must be finite for open arms."""
        ...

    def belief(self, view: TaskView) -> Posterior:
        """What is expected of every arm, and how surely; the prior for a rule that believes nothing."""
        ...

    def why(self, view: TaskView, arm: int, score: float) -> str:
        """A clause for people: what speaks for `arm`, with the numbers that decided."""
        ...


def scored(view: TaskView, arm: int, score: float, belief: Posterior) -> Scored:
    """What a decision tells of an arm: its `score`, and the `belief` in it."""
    return Scored(
        task=view.task.task,
        arm=view.names[arm],
        score=score,
        expected_quality=min(max(float(belief.mean[arm]), 0.0), 1.0),  # a Gaussian knows no such bounds
        deviation=float(belief.deviation[arm]),
        predicted_cost=float(view.costs[arm]),
    )


def favourite(view: TaskView, scores: Array) -> int:
    """Position of the open arm to train: highest score, then lowest cost, then first name."""
    return ranked(view, scores)[0]


def ranked(view: TaskView, scores: Array) -> list[int]:
    """Positions of the open arms, best first; the same ties as `favourite`."""
    positions = [int(index) for index in np.flatnonzero(view.open)]
    return sorted(positions, key=lambda k: (-float(scores[k]), float(view.costs[k]), view.names[k]))


@dataclass(frozen=True)
class GpUcb:
    """GP-UCB (ease.ml, 1.6 and 1.8), with costs or without.

    `delta` is the chance that a bound fails; `scale` multiplies beta (1 is the paper's).
    """

    cost_aware: bool = True
    delta: float = ucb.DELTA
    scale: float = 1.0

    @property
    def name(self) -> str:
        """`gp_ucb`, or `gp_ucb_oblivious` where costs are ignored; with another scale `gp_ucb*0.1`."""
        scale = "" if self.scale == 1 else f"*{self.scale:g}"
        return f"gp_ucb{'' if self.cost_aware else '_oblivious'}{scale}"

    def bounds(self, view: TaskView, board: Board, play: int) -> Array:
        """B^i_t(k) before play number `play` (from 1), from the observations before it; shape `(K,)`.

        The number of tasks, the costs and the prior are today's also for past plays.
        """
        before = view.path[play - 1]
        if self.cost_aware:
            beta = ucb.beta_cost_aware(
                play,
                tasks=len(board.views),
                most_arms=board.most_arms,
                highest_cost=board.highest_cost,
                delta=self.delta,
            )
            return ucb.upper_bounds(before.mean, before.deviation, self.scale * beta, view.costs)
        beta = ucb.beta_cost_oblivious(play, arms=len(view.task.arms), delta=self.delta)
        return ucb.upper_bounds(before.mean, before.deviation, self.scale * beta)

    def scores(self, view: TaskView, board: Board) -> Array:
        """The bounds for the play that comes next."""
        return self.bounds(view, board, view.plays + 1)

    def belief(self, view: TaskView) -> Posterior:
        """The posterior, running trials included."""
        return view.posterior

    def why(self, view: TaskView, arm: int, score: float) -> str:
        """The expectation, the cost and the bound of the arm."""
        now, left = view.posterior, int(view.open.sum())
        bound = f"{'cost-aware ' if self.cost_aware else ''}upper bound"
        place = (
            f"has the highest {bound}, {score:.2f}, of the {left} candidates left"
            if left > 1
            else f"is the only candidate left ({bound} {score:.2f})"
        )
        return (
            f"{view.names[arm]} is expected to reach {min(max(now.mean[arm], 0.0), 1.0):.2f} "
            f"± {now.deviation[arm]:.2f} "
            f"in about {seconds(view.costs[arm])} and {place}"
        )


@dataclass(frozen=True)
class Cheapest:
    """The cheapest arm first. Believes nothing but the costs, so nothing about a prior can break it."""

    name: str = "cheapest"

    def scores(self, view: TaskView, board: Board) -> Array:
        """Minus the predicted cost in seconds."""
        return -view.costs

    def belief(self, view: TaskView) -> Posterior:
        """The prior as it was given: nothing is computed of it that could fail."""
        return view.prior

    def why(self, view: TaskView, arm: int, score: float) -> str:
        """The cost of the arm."""
        left = int(view.open.sum())
        return f"{view.names[arm]}, about {seconds(view.costs[arm])}, is the cheapest of the {left} left"


def seconds(value: float) -> str:
    """A duration for people: `3 s`, `0.4 s`, `12 min`, `3.5 h`."""
    if not math.isfinite(value):
        return "an unknown time"
    if value < 120:
        return f"{value:.2g} s" if value < 10 else f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 7200 else f"{value / 3600:.1f} h"
