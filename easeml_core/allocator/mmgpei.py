"""MM-GP-EI: multi-device, multi-tenant expected improvement (Yu et al., AISTATS 2019; section 2).

    EIrate(x) = EI of x over its task's best / cost of x,     maximised over all arms of all tasks

Warm start: the two cheapest arms of every task, task by task. A free device takes the global maximum. The
paper leaves running trials out of the posterior; here they are conditioned on at their expected value, as
for every policy (`board`), so that two devices do not try the same thing twice.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from easeml_core.allocator.board import Board, TaskView, Views
from easeml_core.allocator.calibration import normal_intervals
from easeml_core.allocator.ei import GpEi
from easeml_core.allocator.models import Cheapest, ranked
from easeml_core.allocator.tenants import count
from easeml_core.allocator.types import AllocationRequest, Array, Decision, Nothing, Scored

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
        cold = [view for view in board.servable if view.plays < self.warm_start]
        rule = GpEi(per_second=True)
        pool = []
        for place, view in enumerate(board.servable):
            scores = rule.scores(view, board) * view.task.weight
            order = Cheapest().scores(view, board) if view.plays < self.warm_start else scores
            for arm in ranked(view, order)[: RUNNERS_UP + 1]:
                # Cold tasks first, those with fewest trials before the others.
                waits = view.plays if view.plays < self.warm_start else self.warm_start
                key = (waits, 0.0 if view in cold else -float(scores[arm]), place, -float(order[arm]))
                pool.append((key, view, arm, float(scores[arm])))
        pool.sort(key=lambda item: item[0])
        _, view, arm, score = pool[0]
        return Decision(
            policy=self.name,
            choice=_scored(view, arm, score),
            reason=self._reason(view, arm, score, len(board.servable), bool(cold)),
            runners_up=tuple(_scored(v, k, value) for _, v, k, value in pool[1 : RUNNERS_UP + 1]),
            memory=dict(request.memory),
            intervals=normal_intervals(float(view.posterior.mean[arm]), float(view.posterior.deviation[arm])),
            basis=view.basis(arm),
        )

    def _reason(self, view: TaskView, arm: int, score: float, tasks: int, cold: bool) -> str:
        name = view.names[arm]
        if cold:
            so_far = f"had {count(view.plays, 'trial')} so far"
            return f"{view.task.task} {so_far}; its first {self.warm_start} are its cheapest: {name}."
        now: tuple[Array, Array] = (view.posterior.mean, view.posterior.deviation)
        return (
            f"{name} of {view.task.task} is expected to reach {now[0][arm]:.2f} ± {now[1][arm]:.2f} and has "
            f"the highest expected improvement per second, {score:.2g}, of {count(tasks, 'task')}."
        )


def _scored(view: TaskView, arm: int, score: float) -> Scored:
    return Scored(
        task=view.task.task,
        arm=view.names[arm],
        score=score,
        expected_quality=float(view.posterior.mean[arm]),
        deviation=float(view.posterior.deviation[arm]),
        predicted_cost=float(view.costs[arm]),
    )
