"""The limit: a policy that knows every quality, and always runs the best remaining gain per cost.

Greedy, so not quite optimal; but no policy that has to learn comes near it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from easeml_core.allocator.policy import why_nothing
from easeml_core.allocator.types import AllocationRequest, Decision, Nothing, Scored
from easeml_core.replay.table import Table


@dataclass(frozen=True, eq=False)
class Clairvoyant:
    """Knows `table`. A trial that runs on another device counts as if it had ended."""

    table: Table
    name: str = "clairvoyant"
    _places: dict[str, dict[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._places["tasks"] = {name: i for i, name in enumerate(self.table.tasks)}
        self._places["models"] = {name: j for j, name in enumerate(self.table.models)}

    def choose(self, request: AllocationRequest) -> Decision | Nothing:
        """The largest gain per cost over all tasks; ties: the cheapest."""
        best: tuple[float, float, str, str] | None = None
        for task in request.tasks:
            row = self.table.quality[self._places["tasks"][task.task]]
            taken = {trial.arm for trial in task.completed} | {trial.arm for trial in task.active}
            reached = max((float(row[self._places["models"][arm]]) for arm in taken), default=0.0)
            left = [arm for arm in task.arms if arm.name not in taken]
            if not left:
                continue
            gains = np.maximum(row[[self._places["models"][arm.name] for arm in left]] - reached, 0.0)
            costs = np.array([arm.predicted_cost for arm in left])
            rate = task.weight * gains / costs
            at = int(np.lexsort((costs, -rate))[0])
            found = (-float(rate[at]), float(costs[at]), task.task, left[at].name)
            best = found if best is None else min(best, found)
        if best is None:
            return Nothing(why_nothing(request.tasks))
        rate_of, cost, name, arm = best
        quality = float(self.table.quality[self._places["tasks"][name], self._places["models"][arm]])
        return Decision(
            policy=self.name,
            choice=Scored(name, arm, -rate_of, quality, 0.0, cost),
            reason=f"{arm} of {name} gains most per second: it reaches {quality:.3f}.",
            memory=dict(request.memory),
        )
