from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import sqlalchemy as sa

from easeml_core import catalog
from easeml_core.ledger.models import Candidate, Task, Trial
from easeml_core.service import Service, decide, maintain, settle
from easeml_core.service.intake import run_intake
from easeml_core.service.offers import offer_new

ALL = catalog.all_candidates("image-classification", ())


@pytest.fixture
def new_models(monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalogue of a later release: a network for images and a model for vectors more."""
    later = {
        name: dataclasses.replace(catalog.MODELS[old], name=name)
        for name, old in (("NIN-2", "NIN"), ("MLP-2", "MLP"))
    }
    gained = {**catalog.MODELS, **later}
    for place in ("catalog", "catalog.candidates", "service.orders"):
        monkeypatch.setattr(f"easeml_core.{place}.MODELS", gained)


def task_of(service: Service) -> tuple[str, str, set[str]]:
    with service.ledger.transaction() as session:
        task = session.scalars(sa.select(Task)).one()
        names = session.scalars(sa.select(Candidate.name).where(Candidate.offered))
        return task.state, task.state_reason, set(names)


def try_everything(service: Service, make_result: Any, quality: float = 0.5) -> None:
    while (a := decide.decide(service, "cpu0", 0.0)) is not None:
        settle.settle(service, a.trial_id, a.attempt, make_result(a.trial_id, a.attempt, quality))


def test_a_done_task_opens_for_a_model_that_the_catalogue_has_gained(
    service: Service, add_task: Any, make_result: Any, request: pytest.FixtureRequest
) -> None:
    add_task(candidates=ALL)
    try_everything(service, make_result)
    assert task_of(service)[0] == "done"
    assert maintain.sweep(service).extended_tasks == []
    request.getfixturevalue("new_models")
    assert maintain.sweep(service).extended_tasks == ["clinic/tumours"]
    state, _, offered = task_of(service)
    assert (state, offered) == ("open", {*ALL, "NIN-2"})
    a = decide.decide(service, "cpu0", 0.0)
    assert a is not None
    with service.ledger.transaction() as session:
        assert session.get_one(Trial, a.trial_id).candidate.name == "NIN-2"
    assert maintain.sweep(service).extended_tasks == [], "offered once"


@pytest.mark.usefixtures("new_models")
@pytest.mark.parametrize(
    ("spec", "facts", "new"),
    [
        ("candidates: {exclude: ['nin*']}", {}, set()),
        ("candidates: {include: [NIN-2, AlexNet]}", {}, {"NIN-2"}),
        ("candidates: {accept_new: false}", {}, set()),
        ("", {"dynamic_range": 1e5}, {"NIN-2", *(f"NIN-2+f{k}" for k in (0.2, 0.4, 0.6, 0.8))}),
    ],
)
def test_what_the_spec_wants_counts(
    service: Service, add_task: Any, spec: str, facts: dict[str, Any], new: set[str]
) -> None:
    known = catalog.all_candidates("image-classification") if facts else ALL
    before = [name for name in known if not name.startswith("NIN-2")]
    task_id = add_task(candidates=before, spec=spec, **facts)
    assert set(offer_new(service, task_id)) == new


@pytest.mark.parametrize(
    ("spec", "quality", "reason"),
    [
        (f"budget: {{trials: {len(ALL)}}}", 0.5, "budget"),
        ("stop_when: {accuracy: 0.9}", 0.95, "goal reached"),
    ],
)
def test_what_ended_for_another_reason_stays_done(
    service: Service,
    add_task: Any,
    make_result: Any,
    request: pytest.FixtureRequest,
    spec: str,
    quality: float,
    reason: str,
) -> None:
    add_task(candidates=ALL, spec=spec)
    try_everything(service, make_result, quality)
    request.getfixturevalue("new_models")
    maintain.sweep(service)
    state, why, offered = task_of(service)
    assert (state, "NIN-2" in offered) == ("done", True)
    assert reason in why


@pytest.mark.parametrize("accept_new", ["true", "false"])
def test_a_feed_brings_new_models_only_to_who_wants_them(
    service: Service, request: pytest.FixtureRequest, accept_new: str
) -> None:
    rows = "a,b,label\n" + "".join(f"{i},{i * i},{'yn'[i % 2]}\n" for i in range(40))
    text = "program: '{input: {[Tensor[2]], []}, output: {[Tensor[2]], []}}'\n"
    service.bucket.write("lab/rows/data/rows.csv", rows)
    service.bucket.write("lab/rows/task.yaml", f"{text}candidates: {{accept_new: {accept_new}}}\n")
    assert run_intake(service).accepted == ["lab/rows"]
    request.getfixturevalue("new_models")
    service.bucket.write("lab/rows/data/more.csv", rows.replace("\n1,", "\n100,"))
    assert run_intake(service).accepted == ["lab/rows"]
    assert ("MLP-2" in task_of(service)[2]) is (accept_new == "true")
