"""Which tenant: rules that pick the task a free device serves (ease.ml, section 1.8).

A rule sees only tasks with an arm that may be started now. None of these rules but HYBRID (`hybrid`)
remembers anything: who is next in turn is read from `OpenTask.since`, what is drawn at random from the
request's seed and step, and GREEDY's sigma-tilde is replayed from the task's trials.

Weights: ROUNDROBIN and RANDOM serve a task of weight 2 about twice as often as one of weight 1; GREEDY
weighs what a task may still gain; FCFS ignores weights.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from easeml_core.allocator.board import Board, TaskView
from easeml_core.allocator.models import GpUcb

_ROUNDING = 1e-12


@dataclass(frozen=True)
class Pick:
    """The task to serve, the others in the order they would have been served, and why.

    `why` is a clause that starts with the task's name. `memory` is what the rule wants to remember.
    """

    view: TaskView
    others: tuple[TaskView, ...]
    why: str
    memory: Mapping[str, Any] | None = None


class TenantRule(Protocol):
    """Picks one of `board.servable`, which is never empty."""

    @property
    def name(self) -> str:
        """What the rule is called; also its key in `Decision.memory`."""
        ...

    def pick(self, board: Board) -> Pick:
        """Decide whose turn it is; pure."""
        ...


@dataclass(frozen=True)
class Fcfs:
    """First come, first served: the oldest task until nothing of it is left."""

    name: str = "fcfs"

    def pick(self, board: Board) -> Pick:
        """The first to arrive; `servable` is in that order."""
        first, *others = board.servable
        return Pick(first, tuple(others), f"{first.task.task} came first{among(board)}")


@dataclass(frozen=True)
class Random:
    """A task drawn at random in proportion to its weight; the draw depends on seed and step only."""

    name: str = "random"

    def pick(self, board: Board) -> Pick:
        """Draw without replacement, so that the runners-up are the next draws."""
        # random.Random, not NumPy's generator: that import alone takes longer than a decision.
        draw = random.Random(f"{board.request.seed}:{board.request.step}")
        left, order = list(board.servable), []
        while left:
            chosen = draw.choices(left, weights=[view.task.weight for view in left])[0]
            left.remove(chosen)
            order.append(chosen)
        return Pick(order[0], tuple(order[1:]), f"{order[0].task.task} was drawn at random{among(board)}")


@dataclass(frozen=True)
class RoundRobin:
    """In turn: the task that has waited the most decisions, times its weight; then the oldest."""

    name: str = "round_robin"

    def pick(self, board: Board) -> Pick:
        """With equal weights and a fixed set of tasks this is the cyclic order."""
        first, *others = sorted(board.servable, key=lambda view: -(view.task.since + 1) * view.task.weight)
        waited = f"has waited longest, {count(first.task.since, 'decision')},"
        return Pick(first, tuple(others), f"{first.task.task} {waited} and is next in turn{among(board)}")


@dataclass(frozen=True)
class GreedyState:
    """What GREEDY computes for one decision, kept for HYBRID. All are in tasks' order of arrival.

    `waiting` have had no trial yet. `gap` is sigma-tilde, by task; `candidates` is the set V.
    """

    waiting: tuple[TaskView, ...]
    gap: Mapping[str, float]
    candidates: tuple[TaskView, ...]


@dataclass(frozen=True)
class Greedy:
    """Algorithm 2 of ease.ml, with its warm start: every task is served once before it begins.

    Among the tasks whose sigma-tilde is at least the average of all that can be served, it picks the one
    with the largest ``max_k B(k) - best so far``. `bounds` gives B, whatever rule chooses the model then.
    """

    name: str = "greedy"
    bounds: GpUcb = field(default_factory=GpUcb)

    def gap(self, view: TaskView, board: Board) -> float:
        """sigma-tilde of a task with at least one play: an upper bound on its regret after the last one.

        The recursion ``st <- min{B_t(a_t), y_{t-1} + st} - y_t`` from ``st = inf``, unrolled: the lowest
        bound of all plays, less the last observation. For B_t(a_t) this takes max_k B_t(k): the same where
        this rule chose a_t, and still a bound on the best quality where another rule did, or where the
        best arm had been played already.
        """
        key = (self.bounds, len(board.views), board.most_arms, board.highest_cost)
        highest = view.memo.setdefault(key, [])
        for play in range(len(highest), view.plays):
            highest.append(float(self.bounds.bounds(view, board, play + 1).max()))
        return min(highest) - view.last_observed

    def state(self, board: Board) -> GreedyState:
        """Who waits for a first trial, or else sigma-tilde and the candidate set."""
        waiting = tuple(view for view in board.servable if not view.plays)
        if waiting:
            return GreedyState(waiting, {}, ())
        gap = {view.task.task: weighed(view, self.gap(view, board)) for view in board.servable}
        average = sum(gap.values()) / len(gap) - _ROUNDING
        return GreedyState((), gap, tuple(view for view in board.servable if gap[view.task.task] >= average))

    def pick(self, board: Board) -> Pick:
        """Serve who has had nothing yet, else decide by the candidate set."""
        return self.pick_from(board, self.state(board))

    def pick_from(self, board: Board, state: GreedyState) -> Pick:
        """`pick`, for a state that was computed before."""
        if state.waiting:
            first = state.waiting[0]
            others = (*state.waiting[1:], *(view for view in board.servable if view.plays))
            why = f"{first.task.task} has had no trial yet, and every task gets one first"
            return Pick(first, others, why)
        promise = {view.task.task: self.promise(view, board) for view in board.servable}
        inside = {view.task.task for view in state.candidates}
        first, *rest = sorted(
            board.servable, key=lambda view: (view.task.task not in inside, -promise[view.task.task])
        )
        if len(board.servable) == 1:
            return Pick(first, (), f"{first.task.task}, {so_far(first)}, is the only task with work left")
        gain, name = promise[first.task.task], first.task.task
        above = f"{abs(gain):.2f} {'above' if gain >= 0 else 'below'} {so_far(first)}"
        why = (
            f"{name} may be furthest from its best of {len(promise)} tasks, with an optimistic gain of "
            f"{above}"
            if len(inside) == 1
            else f"{name} has the largest optimistic gain, {above}, among the {len(inside)} of "
            f"{len(promise)} tasks that may be furthest from their best"
        )
        return Pick(first, tuple(rest), why)

    def promise(self, view: TaskView, board: Board) -> float:
        """max_k B(k) over the arms that may be started, less the best so far, times the task's weight."""
        bounds = self.bounds.scores(view, board)
        return weighed(view, float(bounds[view.open].max()) - view.incumbent)


def weighed(view: TaskView, gain: float) -> float:
    """`gain` times the task's weight; a loss divided by it, so that weight never sets a task back."""
    return gain * view.task.weight if gain >= 0 else gain / view.task.weight


def so_far(view: TaskView) -> str:
    """`its best so far of 0.90`; a failure has no quality that people would call one."""
    return f"its best so far of {view.task.best:.2f}" if view.succeeded else "nothing so far"


def among(board: Board) -> str:
    """` of 3 tasks with work left`."""
    return f" of {count(len(board.servable), 'task')} with work left"


def count(number: int, noun: str) -> str:
    """`1 task`, `3 tasks`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
