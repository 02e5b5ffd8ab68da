"""The service's own results as a table for replays."""

from __future__ import annotations

import numpy as np
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from easeml_core.allocator.types import Array
from easeml_core.ledger.models import Candidate, DataVersion, Task, Trial, TrialState
from easeml_core.replay.table import Table

LEAST_SECONDS = 1e-3


def tables_of(session: Session) -> dict[str, Table]:
    """By template: best quality and mean seconds of each candidate on each data version. What was never run,
    or never succeeded, stays unknown."""
    rows = session.execute(
        select(
            Task.template,
            Task.tenant_id,
            Task.name,
            DataVersion.digest,
            Candidate.name,
            func.max(Trial.quality),
            func.avg(Trial.cost_seconds),
        )
        .select_from(Trial)
        .join(Task, Task.id == Trial.task_id)
        .join(Candidate, Candidate.id == Trial.candidate_id)
        .join(DataVersion, DataVersion.id == Trial.data_version_id)
        .where(Trial.state == TrialState.SUCCEEDED)
        .group_by(Task.template, Task.tenant_id, Task.name, DataVersion.digest, Candidate.name)
        .order_by(Task.template, Task.tenant_id, Task.name, DataVersion.digest, Candidate.name)
    ).all()
    by_template: dict[str, dict[str, dict[str, tuple[float, float]]]] = {}
    for template, tenant, task, digest, candidate, quality, cost in rows:
        cells = by_template.setdefault(template, {}).setdefault(f"{tenant}/{task}@{digest[:8]}", {})
        cells[candidate] = (float(quality), max(float(cost), LEAST_SECONDS))
    return {template: _table(cells_of) for template, cells_of in by_template.items()}


def _table(cells_of: dict[str, dict[str, tuple[float, float]]]) -> Table:
    models = sorted({model for cells in cells_of.values() for model in cells})
    shape = len(cells_of), len(models)
    quality: Array = np.full(shape, np.nan)
    cost: Array = np.ones(shape)
    for i, cells in enumerate(cells_of.values()):
        for model, (reached, seconds) in cells.items():
            quality[i, models.index(model)], cost[i, models.index(model)] = reached, seconds
    return Table(tuple(cells_of), tuple(models), quality, cost)
