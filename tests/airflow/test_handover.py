"""The train step hands its device from one trial to the next."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import pytest
from airflow.sdk.exceptions import DownstreamTasksSkipped
from sqlalchemy import select

from easeml_core.ledger.models import Trial
from easeml_core.service import Service
from tests.airflow.rows import lease_next
from tests.airflow.standby import ScriptedStandby
from tests.airflow.steps import attempt_folder, settle_step, train_step, trial_of

pytestmark = pytest.mark.usefixtures("environment")


class Instance:
    """What a running task knows of its DAG."""

    dag_id = "easeml_allocate_cpu0"
    stats_tags: Mapping[str, str] = {}

    def __init__(self, *, is_paused: bool) -> None:
        self.is_paused = is_paused

    def get_dag(self, dag_id: str) -> Instance:
        assert dag_id == self.dag_id
        return self


@pytest.fixture
def following(service: Service, settings, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the allocator gave the device after its first trial: a trial of SVM, when asked."""
    from easeml_core.service import decide

    given: list[dict[str, Any]] = []

    def decide_next(_service: Service, _device: str, wait_seconds: float) -> decide.Assignment:
        assert wait_seconds == 0, "a train step waits for no work"
        given.append(lease_next(service, settings, "SVM"))
        return decide.Assignment(**given[-1])

    monkeypatch.setattr(decide, "decide", decide_next)
    return given


def test_a_trial_that_ended_hands_its_device_over_at_once(
    service: Service, standby: ScriptedStandby, assignment, following, context
) -> None:
    with pytest.raises(DownstreamTasksSkipped):
        train_step(assignment).execute(context | {"ti": Instance(is_paused=False)})
    (after,) = following
    assert len(standby.started) == 2
    assert (attempt_folder(after) / "leash").stat().st_mtime > time.time() + 5, "nobody holds its leash yet"
    with service.ledger.transaction() as session:
        ended, next_ = session.scalars(select(Trial).order_by(Trial.id))
        assert (ended.state, next_.state) == ("succeeded", "leased")
        charged = ended.cost_seconds

    assert len(standby.promotions) == 1
    # Should the settle step run nevertheless, nothing changes.
    assert settle_step(assignment, {"stopped": None}) == "succeeded"
    assert train_step(after).execute(context)["trial_id"] == after["trial_id"]
    assert len(standby.started) == 2, "attached, not started again"
    with service.ledger.transaction() as session:
        assert session.get_one(Trial, assignment["trial_id"]).cost_seconds == charged


def test_a_paused_device_drains(
    service: Service, standby: ScriptedStandby, assignment, following, context
) -> None:
    with pytest.raises(DownstreamTasksSkipped):
        train_step(assignment).execute(context | {"ti": Instance(is_paused=True)})
    assert (following, len(standby.started)) == ([], 1)
    assert trial_of(service).state == "succeeded"
    assert len(standby.promotions) == 1


@pytest.mark.parametrize("behaviour", ["fault", "interrupted"])
def test_after_what_is_no_end_of_a_trial_nothing_is_handed_over(
    standby: ScriptedStandby, assignment, following, context, behaviour: str
) -> None:
    standby.behaviour = behaviour
    assert train_step(assignment).execute(context | {"ti": Instance(is_paused=False)})["stopped"] is None
    assert following == []


def test_a_handover_that_fails_is_left_to_the_steps_that_follow(
    service: Service, standby: ScriptedStandby, assignment, context, monkeypatch: pytest.MonkeyPatch
) -> None:
    from easeml_core.service import decide

    def away(*_: object, **__: object) -> None:
        raise OSError("the ledger is away")

    monkeypatch.setattr(decide, "decide", away)
    trained = train_step(assignment).execute(context | {"ti": Instance(is_paused=False)})
    assert trained["stopped"] is None
    assert settle_step(assignment, trained) == "succeeded"
