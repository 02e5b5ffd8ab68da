"""Offers tasks what the catalogue has gained since they were accepted (`candidates.accept_new`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from easeml_core.naming import CandidateName

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from easeml_core.ledger.models import Task
    from easeml_core.service.context import Service
    from easeml_core.spec import Spec


def offer_new(service: Service, task_id: int) -> tuple[str, ...]:
    """Offer a task every candidate of the catalogue that it wants and does not have; returns their names.

    What its spec includes, excludes and normalises counts as on acceptance. A task that is done opens
    again, unless something else than a lack of candidates has ended it: a used budget, its goal.
    Nothing for a task that takes no new ones, has no data, or was cancelled.
    """
    from easeml_core.catalog import candidates_for
    from easeml_core.ledger import lifecycle, tasks, trials
    from easeml_core.ledger.models import TaskState
    from easeml_core.spec import Spec

    def offer(session: Session) -> tuple[str, ...]:
        task = trials.locked_task(session, task_id)
        if task.data_version is None or task.state == TaskState.CANCELLED:
            return ()
        spec = Spec.from_dict(task.spec)
        if not spec.accept_new:
            return ()
        wanted = candidates_for(spec, task.data_version.facts)
        if not set(wanted) - set(known(session, task)):
            return ()
        new = tasks.offer_candidates(session, task, wanted)
        lifecycle.review(session, task, service.settings.max_failures)
        return new

    return service.ledger.repeat(offer)


def without_new(session: Session, task: Task, spec: Spec, candidates: Iterable[str]) -> tuple[str, ...]:
    """Of `candidates`, those of models that the task knows, where it takes no new ones and its spec is the
    same as before; else all."""
    names = tuple(candidates)
    models = {CandidateName.parse(name).model for name in known(session, task)}
    if spec.accept_new or not models or task.spec_digest != spec.digest:
        return names
    return tuple(name for name in names if CandidateName.parse(name).model in models)


def known(session: Session, task: Task) -> tuple[str, ...]:
    """Every candidate that the task was ever offered."""
    from sqlalchemy import select

    from easeml_core.ledger.models import Candidate

    return tuple(session.scalars(select(Candidate.name).where(Candidate.task_id == task.id)))
