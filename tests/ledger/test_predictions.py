from __future__ import annotations

import json
from typing import Any

import pytest

from easeml_core.ledger import Ledger, reports
from easeml_core.ledger.models import Candidate, DataVersion, DecisionRecord, Task, Tenant, Trial
from easeml_core.ledger.predictions import FEWEST, PERIODS

CLAIMED = {"50": [0.75, 0.85], "90": [0.7, 0.9]}


@pytest.fixture
def decided(ledger: Ledger) -> Any:
    """Adds one decision and its trial: expected 0.8 in 10 s; the policy also names the task's template."""
    ends = iter(range(1, 10_000))

    def add(session: Any, policy: str, quality: float | None, state: str = "succeeded", **seen: Any) -> None:
        task = session.query(Task).filter_by(name=policy).one_or_none()
        if task is None:
            session.merge(Tenant(id="lab"))
            session.flush()
            task = Task(tenant_id="lab", name=policy, state="open", template=f"of {policy}")
            session.add(task)
            session.flush()
        version = DataVersion(task_id=task.id, digest=f"d{next(ends)}", n_train=1, n_val=1, facts={})
        candidate = Candidate(task_id=task.id, name=f"m{next(ends)}")
        session.add_all([version, candidate])
        session.flush()
        ended = state not in ("running", "cancelled")
        trial = Trial(
            task_id=task.id,
            candidate_id=candidate.id,
            data_version_id=version.id,
            state=state,
            attempt=1,
            predicted_seconds=10.0,
            reserved_seconds=60.0,
            cost_seconds=20.0 if ended else 0.0,
            quality=quality,
            ended_order=next(ends) if ended else None,
        )
        session.add(trial)
        session.flush()
        session.add(
            DecisionRecord(
                trial_id=trial.id,
                device="cpu0",
                policy=policy,
                reason="because",
                expected_quality=0.8,
                deviation=0.1,
                predicted_seconds=10.0,
                score=1.0,
                runners_up=[],
                fallbacks=[],
                memory={},
                seen=seen,
            )
        )
        session.flush()

    return add


def test_by_policy_and_over_time(ledger: Ledger, decided: Any) -> None:
    with ledger.transaction() as session:
        for step in range(4 * FEWEST):
            decided(session, "a", 0.8 if step < 2 * FEWEST else 0.5, intervals=CLAIMED)
        decided(session, "a", None, "running")
        decided(session, "a", None, "cancelled")
        decided(session, "b", 0.72, intervals=CLAIMED)
        decided(session, "b", None, "failed", intervals=CLAIMED)
        found = reports.calibration(session)
        only = reports.calibration(session, session.query(Task).filter_by(name="b").one())
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    first, second = found["groups"]
    assert (first["policy"], first["template"], first["decisions"], first["failed"]) == ("a", "of a", 40, 0)
    assert first["within"] == {"50": 0.5, "90": 0.5}
    assert first["verdict"] == "over-confident"
    assert first["cost_factor"] == first["cost_bias"] == pytest.approx(2.0)
    assert [period["decisions"] for period in first["periods"]] == [FEWEST] * 4
    assert [period["within"]["90"] for period in first["periods"]] == [1.0, 1.0, 0.0, 0.0]
    assert first["periods"][0]["to"] <= first["periods"][1]["from"]
    assert len(found["all"]["periods"]) == 4 < PERIODS
    assert (second["decisions"], second["failed"], second["within"]) == (2, 1, {"50": 0.0, "90": 1.0})
    assert second["quality_bias"] == pytest.approx(-0.08)
    assert only["all"] == {key: second[key] for key in only["all"]}


def test_decisions_of_before_intervals_were_kept_count_as_gaussian(ledger: Ledger, decided: Any) -> None:
    with ledger.transaction() as session:
        decided(session, "old", 0.8 + 0.06)  # 0.6 deviations
        decided(session, "old", 0.8 - 0.16)  # 1.6
        decided(session, "old", 0.8 - 0.17)  # 1.7
        found = reports.calibration(session)["all"]
    assert found["within"] == {"50": pytest.approx(1 / 3), "90": pytest.approx(2 / 3)}
