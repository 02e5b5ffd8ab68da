"""MM-GP-EI: multi-device, multi-tenant expected improvement (Yu et al., AISTATS 2019; section 2).

    EIrate(x) = EI of x over its task's best / cost of x,     maximised over all arms of all tasks

Warm start: the cheapest arm of every task, then the second cheapest of each. A free device takes the global
maximum; ties: the cheaper, then of the task that came first. The
paper leaves running trials out of the posterior; here they are conditioned on at their expected value, as
for every policy (`board`), so that two devices do not try the same thing twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from easeml_core.allocator.board import Board, TaskView, Views
from easeml_core.allocator.calibration import normal_intervals
from easeml_core.allocator.ei import GpEi
from easeml_core.allocator.models import Cheapest, ranked, scored, seconds
from easeml_core.allocator.tenants import count
from easeml_core.allocator.types import AllocationRequest, Decision, Nothing, Scored

WARM_START = 2
RUNNERS_UP = 5


@dataclass(frozen=True)
class MmGpEi:
    """Over all tenants at once. `warm_start` trials of every task are its cheapest."""

    name: str = "mm_gp_ei"
    warm_start: int = WARM_START
    _views: Views = field(default_factory=Views, compare=False, repr=False)

    def choose(self, request: AllocationRequest) -> Decision | Nothing:
        """Decide; raises `FallbackError` where a posterior cannot be computed."""
        board = Board.of(request, self._views)
        if not board.servable:
            from easeml_core.allocator.policy import why_nothing

            return Nothing(why_nothing(request.tasks))
        rule = GpEi(per_second=True)
        pool = []
        for place, view in enumerate(board.servable):
            scores = rule.scores(view, board) * view.task.weight
            cold = view.plays < self.warm_start
            order = Cheapest().scores(view, board) if cold else scores
            for arm in ranked(view, order)[: RUNNERS_UP + 1]:
                # Cold tasks first, those with fewest trials before the others.
                waits, cost = min(view.plays, self.warm_start), float(view.costs[arm])
                key = (waits, 0.0, place, cost) if cold else (waits, -float(scores[arm]), cost, place)
                pool.append((key, view, arm, float(scores[arm])))
        pool.sort(key=lambda item: item[0])
        _, view, arm, score = pool[0]
        choice = scored(view, arm, score, view.posterior)
        return Decision(
            policy=self.name,
            choice=choice,
            reason=self._reason(view, choice, len(board.servable)),
            runners_up=tuple(scored(v, k, value, v.posterior) for _, v, k, value in pool[1 : RUNNERS_UP + 1]),
            memory=dict(request.memory),
            intervals=normal_intervals(choice.expected_quality, choice.deviation),
            basis=view.basis(arm, view.posterior),
        )

    def _reason(self, view: TaskView, choice: Scored, tasks: int) -> str:
        if view.plays < self.warm_start:
            so_far = f"had {count(view.plays, 'trial')} so far"
            first = f"its first {self.warm_start} are its cheapest: {choice.arm}"
            return f"{choice.task} {so_far}; {first}, about {seconds(choice.predicted_cost)}."
        return (
            f"{choice.arm} of {choice.task} is expected to reach {choice.expected_quality:.2f} "
            f"± {choice.deviation:.2f} in about {seconds(choice.predicted_cost)} and has the highest "
            f"expected improvement per second, {choice.score:.2g}, of {count(tasks, 'task')}."
        )
