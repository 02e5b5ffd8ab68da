"""A floor under fairness, for every policy: no open task waits for ever.

The policies of the papers are replayed as they were published, and some of them starve: FCFS by its nature,
GREEDY where one task always promises more. A service has tenants who wait.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from easeml_core.allocator.default import Easeml
from easeml_core.allocator.policy import make_policy
from easeml_core.allocator.tenants import count
from easeml_core.allocator.types import AllocationRequest, Decision, Nothing, OpenTask, Policy


def make_fair(name: str, floor: float) -> Policy:
    """The policy called `name`, under which no task waits much longer than `floor` rounds (a round: one
    decision for every task with work left). Raises `OperatorError` naming what there is."""
    policy = make_policy(name)
    # Ours has a floor of its own.
    return Easeml(floor=floor) if isinstance(policy, Easeml) else Fair(policy, floor)


@dataclass(frozen=True)
class Fair:
    """`inner`, but the task that has waited longest goes first once that is more than `floor` rounds."""

    inner: Policy
    floor: float

    @property
    def name(self) -> str:
        """That of `inner`."""
        return self.inner.name

    def choose(self, request: AllocationRequest) -> Decision | Nothing:
        """Decide, of all tasks or of the one that has waited too long."""
        first = self._overdue(request)
        if first is None:
            return self.inner.choose(request)
        # The others stay in sight, to be learned from, but get nothing.
        tasks = (task if task is first else replace(task, remaining_trials=0) for task in request.tasks)
        answer = self.inner.choose(replace(request, tasks=tuple(tasks)))
        if isinstance(answer, Nothing):
            return answer
        waited = f"{first.task} has waited {count(first.since, 'decision')}, more than {self.floor:g} rounds"
        # What a policy remembers is of its own decisions; this was none.
        return replace(
            answer, reason=f"{waited}, and goes first: {answer.reason}", memory=dict(request.memory)
        )

    def _overdue(self, request: AllocationRequest) -> OpenTask | None:
        if all(task.since <= self.floor for task in request.tasks):
            return None  # a round is at least one decision; spares looking at every arm of every task
        servable = [task for task in request.tasks if task.eligible()]
        overdue = [task for task in servable if task.since > self.floor * len(servable)]
        return min(overdue, key=lambda task: (-task.since, task.opened, task.task), default=None)
