"""HYBRID, the default of ease.ml: GREEDY until it freezes, then ROUNDROBIN (section 1.8).

Freezing stage: for `freeze` = 10 ended trials in a row the candidate set of GREEDY was the same and the sum
of the tasks' best qualities did not rise. From then on tasks are served in turn, for the rest of the run.

A service's run has no end, so here a run ends when a new task arrives: with other tasks the belief that
froze is another one, and GREEDY gets its chance again.

Memory, under the key `hybrid` of `Decision.memory` (all JSON-ready):

=============  ==================================================================================
`phase`        `greedy` or `round_robin`
`unchanged`    ended trials in a row that changed neither the candidate set nor the sum of bests
`candidates`   digest of the candidate set
`best`         sum of the tasks' best qualities
`ended`        trials ended so far, over the open tasks
`newest`       highest `OpenTask.opened`
=============  ==================================================================================

Missing or unreadable memory starts a new run: the policy then is GREEDY, which is never wrong, only slow
to notice.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from easeml_core.allocator.board import Board
from easeml_core.allocator.tenants import Greedy, GreedyState, Pick, RoundRobin, count

log = logging.getLogger(__name__)

FREEZE = 10


@dataclass(frozen=True, slots=True)
class _Memory:
    phase: str = "greedy"
    unchanged: int = 0
    candidates: str = ""
    best: float = 0.0
    ended: int = 0
    newest: int = -1

    @classmethod
    def read(cls, stored: Mapping[str, Any] | None) -> _Memory:
        if stored is None:
            return cls()
        try:
            return cls(
                phase="round_robin" if stored["phase"] == "round_robin" else "greedy",
                unchanged=int(stored["unchanged"]),
                candidates=str(stored["candidates"]),
                best=float(stored["best"]),
                ended=int(stored["ended"]),
                newest=int(stored["newest"]),
            )
        except (KeyError, TypeError, ValueError) as problem:
            log.warning("hybrid cannot read what it remembered (%r); it starts a new run", problem)
            return cls()


@dataclass(frozen=True)
class Hybrid:
    """GREEDY, and ROUNDROBIN once it is frozen. `freeze` is the paper's s."""

    name: str = "hybrid"
    freeze: int = FREEZE
    greedy: Greedy = field(default_factory=Greedy)
    in_turn: RoundRobin = field(default_factory=RoundRobin)

    def pick(self, board: Board) -> Pick:
        """Note whether the last trials changed anything, then pick by the phase."""
        state = self.greedy.state(board)
        memory = self._next(_Memory.read(board.request.memory.get(self.name)), board, state)
        if memory.phase == "greedy" or state.waiting:
            return replace(self.greedy.pick_from(board, state), memory=asdict(memory))
        turn = self.in_turn.pick(board)
        why = f"{turn.why} (served in turn since {count(self.freeze, 'trial')} in a row changed nothing)"
        return replace(turn, why=why, memory=asdict(memory))

    def _next(self, last: _Memory, board: Board, state: GreedyState) -> _Memory:
        now = _Memory(
            phase=last.phase,
            unchanged=last.unchanged,
            candidates=_digest(state),
            best=sum(view.task.best for view in board.views),
            ended=sum(len(view.task.completed) for view in board.views),
            newest=max(view.task.opened for view in board.views),
        )
        if now.newest > last.newest or state.waiting:
            return replace(now, phase="greedy", unchanged=0)
        if now.candidates != last.candidates or now.best > last.best:
            return replace(now, unchanged=0)
        # Several devices decide between two results: only a trial that ended is a step of the paper.
        unchanged = last.unchanged + max(0, now.ended - last.ended)
        phase = "round_robin" if unchanged >= self.freeze else last.phase
        return replace(now, phase=phase, unchanged=unchanged)


def _digest(state: GreedyState) -> str:
    names = "\n".join(view.task.task for view in state.candidates)
    return hashlib.sha256(names.encode()).hexdigest()[:16] if names else ""
