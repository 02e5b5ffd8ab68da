"""The operator's commands on a real ledger in which one decision was taken."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from easeml_core.cli import upload
from easeml_core.naming import TaskName
from easeml_core.service import Service, settle
from easeml_core.service.decide import decide
from easeml_core.workorder import Outcome
from tests.cli.conftest import data_of

Easeml = Callable[..., Result]


@pytest.fixture
def busy(service: Service, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Service:
    """A service with one task, whose first trial `cpu0` has leased."""
    from easeml_core.service.intake import run_intake

    monkeypatch.setenv("EASEML_HOME", str(service.settings.home))
    monkeypatch.setenv("EASEML_DATABASE_URL", service.settings.resolved_database_url())
    monkeypatch.setenv("EASEML_DEVICES", "cpu0,cpu1")
    upload.submit(service.bucket, TaskName("lab", "rows"), folder)
    run_intake(service)
    assert decide(service, "cpu0", 0.0) is not None
    return service


def test_devices(easeml: Easeml, busy: Service) -> None:
    first, second = data_of(easeml("devices", "--json"))
    assert (first["device"], first["task"]) == ("cpu0", "lab/rows")
    assert first["reason"]
    assert second == {"device": "cpu1", "state": "free"}
    assert "lab/rows" in easeml("devices").stdout


def test_tenants(easeml: Easeml, busy: Service) -> None:
    (tenant,) = data_of(easeml("tenants", "--json"))
    assert tenant["tenant"] == "lab"
    assert tenant["tasks"][0]["budget"]["used_trials"] == 1
    assert "1/3" in easeml("tenants").stdout


def test_decisions_and_explain_by_number_and_by_trial(easeml: Easeml, busy: Service) -> None:
    (decision,) = data_of(easeml("decisions", "--task", "lab/rows", "--json"))
    number, trial = decision["decision"], decision["trial"]
    by_number = data_of(easeml("explain", number, "--json"))
    assert by_number == data_of(easeml("explain", trial, "--json"))
    assert by_number["attempts"][0]["device"] == "cpu0"
    text = easeml("explain", trial).stdout
    assert f"Why: {decision['reason']}" in text
    assert "\n".join(by_number["words"]) in text
    for word in ("Seen: 1 open task, ", "Believed: learned from", "Expected: quality", "nothing yet", "over"):
        assert word in text
    assert decision["reason"] in easeml("decisions").stdout


def test_decisions_say_what_was_expected_and_what_came(
    easeml: Easeml, busy: Service, make_result: Any
) -> None:
    assert "nothing yet, the trial is leased" in easeml("decisions").stdout
    assert data_of(easeml("calibration", "--json"))["all"]["decisions"] == 0
    assert "no decision's trial has ended" in easeml("calibration").stdout
    settle.settle(busy, 1, 1, make_result(1, 1, 0.6, cost_seconds=4.0))
    assert decide(busy, "cpu0", 0.0) is not None
    settle.settle(busy, 2, 1, make_result(2, 1, None, outcome=Outcome.DIVERGED, reason="loss is NaN"))
    text = easeml("decisions").stdout
    assert "quality 0.600, " in text
    assert "the trial diverged after 1.5 s" in text
    assert "of 2 decisions whose trials ended, 1 with a quality" in text
    found = data_of(easeml("calibration", "--task", "lab/rows", "--json"))
    [group] = found["groups"]
    assert (group["policy"], group["template"]) == ("easeml", "vector-classification")
    assert (group["decisions"], group["failed"], group["periods"]) == (2, 1, [])
    assert found["all"]["quality_error"] == group["quality_error"] > 0
    assert "easeml" in easeml("calibration").stdout


def test_a_policy_that_nobody_knows_is_warned_of(
    easeml: Easeml, busy: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "warning" not in easeml("devices").stderr
    monkeypatch.setenv("EASEML_POLICY", "hybird")
    result = easeml("devices", "--json")
    assert "no policy is called 'hybird'" in result.stderr
    assert data_of(result)[0]["device"] == "cpu0"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["explain", "999"], 1),
        (["explain", "trial-999"], 1),
        (["explain", "x"], 2),
        (["explain", "²"], 2),
        (["decisions", "--task", "lab/nothing"], 1),
        (["decisions", "--task", "nothing"], 2),
        (["calibration", "--task", "lab/nothing"], 1),
        (["decisions", "--limit", "0"], 2),
    ],
)
def test_what_is_not_there(easeml: Easeml, busy: Service, arguments: list[str], code: int) -> None:
    assert easeml(*arguments).exit_code == code


def test_empty_ledger(easeml: Easeml, service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EASEML_HOME", str(service.settings.home))
    monkeypatch.setenv("EASEML_DATABASE_URL", service.settings.resolved_database_url())
    assert "no tenant" in easeml("tenants").stdout
    assert "nothing has been decided" in easeml("decisions").stdout
    assert data_of(easeml("devices", "--json")) == [{"device": "cpu0", "state": "free"}]


def test_ledger_that_is_away_ends_with_3(
    easeml: Easeml, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EASEML_HOME", str(service.settings.home))
    monkeypatch.setenv("EASEML_DATABASE_URL", "postgresql+psycopg2://nobody@127.0.0.1:9/easeml")
    assert easeml("devices").exit_code == 3
