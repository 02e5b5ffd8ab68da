"""Tasks as intake changes them: registered, given data and candidates, or rejected.

Every function is idempotent and works inside the caller's transaction, so that intake can do all of
them at once: a task never has a data version without candidates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from easeml_core.ledger import lifecycle
from easeml_core.ledger.models import Candidate, DataVersion, Task, TaskState, Tenant
from easeml_core.ledger.session import announce
from easeml_core.naming import TaskName

if TYPE_CHECKING:
    from easeml_core.data import VersionFacts
    from easeml_core.errors import Problem
    from easeml_core.spec import Spec


def find_task(session: Session, name: TaskName, *, lock: bool = False) -> Task | None:
    """The task, or None; with `lock` no one else changes it until the transaction ends."""
    query = select(Task).where(Task.tenant_id == name.tenant, Task.name == name.task)
    return session.scalars(query.with_for_update() if lock else query).one_or_none()


def task_name(task: Task) -> TaskName:
    """The name that other systems know the task by."""
    return TaskName(task.tenant_id, task.name)


def _create(session: Session, name: TaskName, state: TaskState) -> Task:
    session.execute(insert(Tenant).values(id=name.tenant).on_conflict_do_nothing())
    session.execute(
        insert(Task)
        .values(tenant_id=name.tenant, name=name.task, state=state)
        .on_conflict_do_nothing(index_elements=[Task.tenant_id, Task.name])
    )
    task = find_task(session, name, lock=True)
    assert task is not None
    return task


def register_task(session: Session, name: TaskName, spec: Spec, *, default_trials: int) -> Task:
    """Create the task, or give it a changed spec; either opens it unless its tenant paused or cancelled it.

    A spec without any budget gets `default_trials`. The same spec again changes nothing. Follow with
    `add_version` and `offer_candidates` in the same transaction: only then can anything be trained.
    """
    task = _create(session, name, TaskState.OPEN)
    task.problems = []
    if task.spec_digest == spec.digest and task.state != TaskState.REJECTED:
        return task
    unlimited = spec.budget_trials is None and spec.budget_seconds is None
    task.spec = spec.as_dict()
    task.spec_digest = spec.digest
    task.program = str(spec.program)
    task.template = spec.template
    task.objective = spec.objective
    task.weight = spec.priority
    task.budget_trials = default_trials if unlimited else spec.budget_trials
    task.budget_seconds = spec.budget_seconds
    task.deadline = spec.deadline
    if task.data_version is not None:
        task.stop_quality = _stop_quality(spec, task.data_version.facts)
    lifecycle.reopen(session, task, "spec accepted")
    session.flush()
    return task


def add_version(session: Session, task: Task, spec: Spec, facts: VersionFacts) -> DataVersion:
    """Make a staged data version the task's current one; a change of version re-opens the task.

    Results on the earlier versions stay, as prior. The same digest again changes nothing; going back to
    an earlier digest finds that version's results again.
    """
    parent = task.data_version
    session.execute(
        insert(DataVersion)
        .values(
            task_id=task.id,
            digest=facts.digest,
            parent_id=parent.id if parent is not None and parent.digest != facts.digest else None,
            n_train=facts.n_train,
            n_val=facts.n_val,
            facts=facts.model_dump(mode="json"),
        )
        .on_conflict_do_nothing(index_elements=[DataVersion.task_id, DataVersion.digest])
    )
    version = session.scalars(
        select(DataVersion).where(DataVersion.task_id == task.id, DataVersion.digest == facts.digest)
    ).one()
    if task.data_version_id != version.id:
        task.data_version = version
        task.updated_at = func.clock_timestamp()
        task.stop_quality = _stop_quality(spec, version.facts)
        lifecycle.cancel_planned(session, task, "a newer data version took over", keep_version=version.id)
        reason = f"data version {version.digest[:8]} accepted"
        if not lifecycle.reopen(session, task, reason) and task.state == TaskState.OPEN:
            task.state_reason = reason
        session.flush()
    return version


def offer_candidates(session: Session, task: Task, names: Iterable[str]) -> tuple[str, ...]:
    """Offer exactly these candidates from now on; results of others stay. Returns the new names.

    A new name re-opens a task that is done.
    """
    wanted = list(dict.fromkeys(names))
    new: tuple[str, ...] = ()
    if wanted:
        added = session.scalars(
            insert(Candidate)
            .values([{"task_id": task.id, "name": name} for name in wanted])
            .on_conflict_do_nothing(index_elements=[Candidate.task_id, Candidate.name])
            .returning(Candidate.name)
        )
        new = tuple(added)
    session.execute(
        update(Candidate).where(Candidate.task_id == task.id).values(offered=Candidate.name.in_(wanted))
    )
    if new:
        lifecycle.reopen(session, task, f"{len(new)} candidates added")
    announce(session)
    return new


def candidate_id(session: Session, task: Task, name: str) -> int:
    """Id of one candidate of a task."""
    return session.scalars(
        select(Candidate.id).where(Candidate.task_id == task.id, Candidate.name == name)
    ).one()


def reject_task(session: Session, name: TaskName, problems: Iterable[Problem]) -> Task:
    """Note the problems of the latest upload; a task with an accepted earlier version goes on with it."""
    task = _create(session, name, TaskState.REJECTED)
    task.problems = [problem.as_dict() for problem in problems]
    task.updated_at = func.clock_timestamp()
    if task.data_version_id is None:
        task.state = TaskState.REJECTED
        task.state_reason = f"{len(task.problems)} problems in the upload, see below"
    session.flush()
    return task


def _stop_quality(spec: Spec, facts: Mapping[str, Any]) -> float | None:
    """The quality at which the task has reached its goal; None without a goal."""
    if spec.stop_when is None:
        return None
    from easeml_core import objectives

    reference = facts.get("reference", {}).get(spec.objective, 1.0)
    return objectives.quality(spec.objective, spec.stop_when, reference)
