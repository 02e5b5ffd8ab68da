from __future__ import annotations

import json
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from easeml_core.cli import stack
from easeml_core.cli.main import app
from easeml_core.stack import api
from easeml_core.stack.description import ProgramStatus, StackInfo, StackStatus
from easeml_core.stack.layout import Layout


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EASEML_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == code, result.output
    return result.stdout


@pytest.mark.parametrize("command", ["up", "down", "ps", "logs"])
def test_help_shows_an_example(command: str) -> None:
    assert f"easeml {command}" in run(command, "--help")


def test_ps_of_nothing_says_what_to_do_and_is_a_problem() -> None:
    assert "easeml up" in run("ps", code=1)
    shown = json.loads(run("ps", "--json", code=1))
    assert shown["running"] is False
    assert shown["programs"] == []


def test_down_of_nothing_is_done_already_and_makes_nothing(home: Path) -> None:
    assert json.loads(run("down", "--json"))["running"] is False
    assert not home.exists()


def test_logs_shows_the_last_lines_and_names_what_there_is(home: Path) -> None:
    layout = Layout.of(home)
    layout.create()
    layout.log("mlflow").write_text("one\ntwo\nthree\n")
    assert run("logs", "mlflow", "-n", "2") == "two\nthree\n"
    assert json.loads(run("logs", "mlflow", "-n", "1", "--json"))["lines"] == ["three"]
    assert "mlflow" in json.loads(run("logs", "nothing", "--json", code=4))["error"]


def test_the_password_is_shown_by_up_only(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = StackInfo(home, "postgresql://u:db-secret@/e", "http://m", "http://a", "admin", "pass-word", {})
    program = ProgramStatus("mlflow", "RUNNING", psutil.Process().pid, 3.0, 5_000_000, True, "log")
    status = StackStatus(home, True, "http://m", "http://a", "admin", (program,))
    monkeypatch.setattr(api, "up", lambda *_: info)
    monkeypatch.setattr(api, "status", lambda _: status)
    monkeypatch.setattr(api, "describe", lambda _: info)
    assert "pass-word" in run("up")
    assert json.loads(run("up", "--json"))["airflow_password"] == "pass-word"
    for arguments in (("ps",), ("ps", "--json")):
        text = run(*arguments)
        assert "pass-word" not in text
        assert "db-secret" not in text
        assert "pass-word" in run(*arguments, "--secrets")


def test_the_commands_are_registered() -> None:
    assert {command.callback.__name__ for command in stack.app.registered_commands if command.callback} == {
        "up",
        "down",
        "ps",
        "logs",
    }
