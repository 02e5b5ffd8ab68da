"""Builds the allocator's request from the ledger: everything a policy may know, in a handful of queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from easeml_core.allocator.cost import CostModel, Rates
from easeml_core.allocator.types import ActiveTrial, AllocationRequest, Arm, CompletedTrial, Ended, OpenTask
from easeml_core.ledger import budgets, decisions, promotions
from easeml_core.ledger.budgets import LIVE
from easeml_core.ledger.models import Attempt, Candidate, DataVersion, Task, TaskState, Trial, TrialState
from easeml_core.ledger.tasks import task_name
from easeml_core.naming import cuda_index
from easeml_core.service import forecast

_ENDED = {str(ended): ended for ended in Ended}


@dataclass(frozen=True, slots=True)
class Situation:
    """The request, and what is behind its names and costs. `over` are tasks that no trial can be started
    for."""

    request: AllocationRequest
    tasks: Mapping[str, Task]
    versions: Mapping[str, int]  # task → id of its current data version
    costs: CostModel
    over: tuple[int, ...]


def build_request(session: Session, device: str, seed: int) -> Situation:
    """What a policy is asked when `device` is free. The caller holds the allocation lock."""
    rows = session.execute(
        select(Task, DataVersion)
        .join(DataVersion, DataVersion.id == Task.data_version_id)
        .where(Task.state == TaskState.OPEN)
        .order_by(Task.id)
    ).all()
    tasks = {str(task_name(task)): task for task, _ in rows}
    versions = {task.id: version for task, version in rows}
    names = {task.id: name for name, task in tasks.items()}
    # Before the budgets: a trial that ends in between is then taken for live although its reservation is
    # given back already, never for ended while its reservation still counts.
    completed, active = _trials(session, names)
    budget = budgets.budgets_of(session, tasks.values())
    since = decisions.decisions_since(session, names)
    rescored = promotions.rescored(session, names)
    offered = _offered(session, names)
    costs = forecast.cost_model(session)
    predicted = _Costs(costs, device)
    now = datetime.now(UTC)

    open_tasks = []
    over = []
    for name, task in tasks.items():
        view = OpenTask(
            task=name,
            tenant=task.tenant_id,
            template=task.template,
            arms=predicted.arms(offered.get(task.id, ()), versions[task.id]),
            completed=tuple(completed[task.id]),
            active=tuple(active[task.id]),
            weight=task.weight,
            remaining_trials=budget[task.id].remaining_trials,
            remaining_seconds=budget[task.id].remaining_seconds,
            deadline_in=None if task.deadline is None else (task.deadline - now).total_seconds(),
            since=since[task.id],
            opened=task.id,
            champion=rescored.get(task.id, 0.0),
        )
        view = _give_a_first_chance(view)
        goal = task.stop_quality is not None and view.best >= task.stop_quality
        # What runs now may give back what it has reserved: its end decides whether the task is over.
        if goal or not (view.active or any(view.each_eligible())):
            over.append(task.id)
        if not goal:
            open_tasks.append(view)

    arms_of: dict[str, set[str]] = defaultdict(set)
    for view in open_tasks:
        arms_of[view.template].update(trial.arm for trial in view.completed)
        arms_of[view.template].update(trial.arm for trial in view.active)
    # Tasks mostly offer the same.
    for template, arms in {(view.template, offered.get(tasks[view.task].id, ())) for view in open_tasks}:
        arms_of[template].update(arms)
    # Tried ones too that are no longer offered; but not what the catalogue has lost.
    known_of = {template: sorted(filter(forecast.is_known, arms)) for template, arms in arms_of.items()}
    history = forecast.histories(session, known_of, [version.id for version in versions.values()])
    request = AllocationRequest(
        device=device,
        tasks=tuple(open_tasks),
        priors={
            template: forecast.prior_of(template, known, history.get(template, []))
            for template, known in known_of.items()
            if known
        },
        seed=seed,
        step=decisions.count(session),
        memory=decisions.last_memory(session),
    )
    current = {name: versions[task.id].id for name, task in tasks.items()}
    return Situation(request, tasks, current, costs, tuple(over))


@dataclass(frozen=True, slots=True)
class _Costs:
    """What candidates cost on a device. Tasks mostly offer the same ones, and there may be a thousand."""

    model: CostModel
    device: str
    rates: dict[tuple[str, ...], Rates] = field(default_factory=dict)

    def arms(self, names: tuple[str, ...], version: DataVersion) -> tuple[Arm, ...]:
        """The candidates as arms of a task with such data."""
        rates = self.rates.get(names)
        if rates is None:
            kinds = [forecast.device_kind(self.device, name) for name in names]
            rates = self.rates[names] = self.model.rates(names, kinds)
        sizes = forecast.sizes_of(version.facts | {"n_train": version.n_train})
        work = forecast.works_of(names, sizes, gpu=cuda_index(self.device) is not None)
        return tuple(map(Arm, names, rates.seconds(work).tolist()))


def _give_a_first_chance(task: OpenTask) -> OpenTask:
    """The task, with costs that let its cheapest arm start where nothing was tried yet.

    A prediction alone must not close a task: before any trial it may be off by orders of magnitude, and
    the trial is stopped at the limit all the same. So the costs are taken to be off by as much as keeps
    the cheapest arm from fitting.
    """
    limits = [limit for limit in (task.remaining_seconds, task.deadline_in) if limit is not None]
    if task.completed or task.active or not limits:
        return task
    limit = min(limits)
    cheapest = min((arm.predicted_cost for arm in task.arms), default=0.0)
    if not 0 < limit < cheapest:
        return task
    arms = (Arm(arm.name, limit * (arm.predicted_cost / cheapest)) for arm in task.arms)
    return replace(task, arms=tuple(arms))


def _offered(session: Session, tasks: Iterable[int]) -> dict[int, tuple[str, ...]]:
    """The candidates that each task offers, sorted."""
    # As one text each, which most tasks have in common: a thousand tasks offer a hundred thousand candidates.
    rows = session.execute(
        select(Candidate.task_id, func.string_agg(Candidate.name, "\n").label("names"))
        .where(Candidate.task_id.in_(list(tasks)), Candidate.offered)
        .group_by(Candidate.task_id)
    )
    texts: dict[int, str] = {row.task_id: row.names for row in rows}
    lists = {text: tuple(sorted(filter(forecast.is_known, text.split("\n")))) for text in set(texts.values())}
    return {task_id: lists[text] for task_id, text in texts.items()}


def _trials(
    session: Session, names: Mapping[int, str]
) -> tuple[dict[int, list[CompletedTrial]], dict[int, list[ActiveTrial]]]:
    """Completed and active trials of each task's current data version."""
    completed: dict[int, list[CompletedTrial]] = defaultdict(list)
    active: dict[int, list[ActiveTrial]] = defaultdict(list)
    running = (
        select(
            func.json_build_array(
                Attempt.device,
                Trial.predicted_seconds,
                func.extract("epoch", func.clock_timestamp() - Attempt.started_at),
            )
        )
        .where(Attempt.trial_id == Trial.id, Attempt.number == Trial.attempt)
        .correlate(Trial)
        .scalar_subquery()
    )
    # Columns, not trials: of a thousand tasks these are tens of thousands. One statement, so that a trial
    # that ends meanwhile is seen once.
    rows = session.execute(
        select(
            Trial.task_id,
            Candidate.name,
            Trial.state,
            Trial.quality,
            Trial.cost_seconds,
            Trial.ended_order,
            case((Trial.state.in_(LIVE), running)),
        )
        .join(Task, (Task.id == Trial.task_id) & (Task.data_version_id == Trial.data_version_id))
        .join(Candidate, Candidate.id == Trial.candidate_id)
        .where(Trial.task_id.in_(names), Trial.state != TrialState.CANCELLED)
        .order_by(Trial.ended_order, Trial.id)
    )
    for task, arm, state, quality, cost, order, now in rows:
        if state in _ENDED:
            completed[task].append(CompletedTrial(arm, _ENDED[state], quality, cost, order or 0))
        else:
            device, predicted, elapsed = now
            active[task].append(ActiveTrial(arm, device, predicted, max(elapsed, 0.0)))
    return completed, active
