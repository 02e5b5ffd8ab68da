"""The operator's commands on a real ledger in which one decision was taken."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from easeml_core.cli import upload
from easeml_core.naming import TaskName
from easeml_core.service import Service
from easeml_core.service.decide import decide
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
    assert "Chosen over" in text
    assert decision["candidate"] in easeml("decisions").stdout


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["explain", "999"], 1),
        (["explain", "trial-999"], 1),
        (["explain", "x"], 2),
        (["explain", "²"], 2),
        (["decisions", "--task", "lab/nothing"], 1),
        (["decisions", "--task", "nothing"], 2),
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
