"""Were past decisions right about qualities and costs? By policy and template, and over time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from easeml_core.allocator.calibration import Outcome, calibrate
from easeml_core.ledger.activity import iso
from easeml_core.ledger.budgets import LIVE
from easeml_core.ledger.decisions import intervals_of
from easeml_core.ledger.models import DecisionRecord, Task, Trial, TrialState

PERIODS = 5
FEWEST = 10  # decisions in a period: fewer say nothing


@dataclass(frozen=True, slots=True)
class _Judged:
    policy: str
    template: str
    made_at: datetime
    outcome: Outcome


def calibration(session: Session, task: Task | None = None) -> dict[str, Any]:
    """JSON-ready: `all` decisions whose trials ended, of one task or of all, and `groups` by policy and
    template, largest first; each with `periods`, oldest first, of equally many decisions.

    A decision whose trial was cancelled says nothing and is left out.
    """
    judged = _judged(session, task)
    groups: dict[tuple[str, str], list[_Judged]] = {}
    for one in judged:
        groups.setdefault((one.policy, one.template), []).append(one)
    return {
        "all": _figures(judged),
        "groups": [
            {"policy": policy, "template": template, **_figures(found)}
            for (policy, template), found in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
        ],
    }


def _judged(session: Session, task: Task | None) -> list[_Judged]:
    query = (
        select(DecisionRecord, Trial.quality, Trial.cost_seconds, Task.template)
        .join(Trial, Trial.id == DecisionRecord.trial_id)
        .join(Task, Task.id == Trial.task_id)
        .where(Trial.state.not_in((*LIVE, TrialState.CANCELLED)))
        .order_by(DecisionRecord.id)
    )
    if task is not None:
        query = query.where(Task.id == task.id)
    return [
        _Judged(
            record.policy,
            template,
            record.made_at,
            Outcome(
                record.expected_quality, intervals_of(record), quality, record.predicted_seconds, seconds
            ),
        )
        for record, quality, seconds, template in session.execute(query)
    ]


def _figures(judged: Sequence[_Judged]) -> dict[str, Any]:
    number = min(PERIODS, len(judged) // FEWEST)
    edges = [round(len(judged) * step / number) for step in range(number + 1)] if number > 1 else []
    periods = [judged[start:end] for start, end in pairwise(edges)]
    return {
        **calibrate([one.outcome for one in judged]).as_dict(),
        "periods": [
            {
                "from": iso(period[0].made_at),
                "to": iso(period[-1].made_at),
                **calibrate([one.outcome for one in period]).as_dict(),
            }
            for period in periods
        ],
    }
