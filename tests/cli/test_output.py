"""Exit codes and forms: one table, kept by every command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from easeml_core.cli import output
from easeml_core.cli.main import app
from easeml_core.errors import FencedError, OperatorError, Problem, TemporaryError, TenantError
from tests.cli.conftest import SPEC, data_of, make_task

COMMANDS = {command.name or command.callback.__name__ for part in app.registered_groups
            for command in part.typer_instance.registered_commands}  # fmt: skip
PROBLEM = Problem(
    "task.yaml", "trials must be at least 1; got 0", line=3, field="budget.trials", fix="raise it"
)


def small_app(error: Exception) -> typer.Typer:
    made = typer.Typer(cls=output.Commands)

    @made.command()
    def act(as_json: bool = typer.Option(False, "--json")) -> None:
        raise error

    @made.command()
    def other() -> None:
        """So that the app is a group."""

    return made


def test_without_a_terminal_no_cell_is_folded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    row = [f"{'x' * 20}-{number}" for number in range(6)]
    output.emit(row, False, lambda row: output.table("abcdef", [row]))
    whole = capsys.readouterr().out
    assert all(cell in whole for cell in row)
    monkeypatch.setenv("COLUMNS", "60")
    output.emit(row, False, lambda row: output.table("abcdef", [row]))
    assert row[0] not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TenantError([PROBLEM, PROBLEM]), 1),
        (FencedError("late"), 1),
        (TemporaryError("the ledger is away"), 3),
        (ConnectionRefusedError("no route"), 3),
        (OperatorError("no stack has been started"), 4),
    ],
)
def test_each_error_has_its_code_in_both_forms(error: Exception, code: int) -> None:
    for arguments in (["act"], ["act", "--json"]):
        result = CliRunner().invoke(small_app(error), arguments)
        assert result.exit_code == code
        assert "Traceback" not in result.output
    answer = json.loads(result.stdout)
    assert set(answer) == {"error", "problems"}
    assert len(answer["problems"]) == (2 if isinstance(error, TenantError) else 0)


def test_problems_are_printed_with_file_line_field_and_fix() -> None:
    result = CliRunner().invoke(small_app(TenantError([PROBLEM])), ["act"])
    assert "task.yaml:3: budget.trials: trials must be at least 1; got 0 → raise it" in result.stderr
    assert result.stdout == ""


def test_a_bug_is_not_dressed_up() -> None:
    result = CliRunner().invoke(small_app(ZeroDivisionError("bug")), ["act"])
    assert isinstance(result.exception, ZeroDivisionError)


def test_all_commands_of_the_loop_are_there() -> None:
    wanted = (
        "up down ps logs init validate submit feed infer status leaderboard pause resume cancel "
        "devices tenants decisions explain"
    )
    assert set(wanted.split()) <= COMMANDS


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_has_an_example_and_json(easeml: Callable[..., Result], command: str) -> None:
    result = easeml(command, "--help")
    assert result.exit_code == 0
    assert f"Example: easeml {command}" in result.stdout
    assert "--json" in result.stdout


@pytest.mark.parametrize("arguments", [["nonsense"], ["submit"], ["status", "a/b", "--nonsense"]])
def test_wrong_calls_end_with_2(easeml: Callable[..., Result], arguments: list[str]) -> None:
    assert easeml(*arguments).exit_code == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense", "--json"],
        ["submit", "--json"],
        ["status", "a/b", "--nonsense", "--json"],
        ["status", "--json", "not-a-task"],
        ["validate", "/nowhere/at/all", "--json"],
        ["submit", "a/b", ".", "--timeout", "soon", "--json"],
    ],
)
def test_wrong_calls_are_json_too(easeml: Callable[..., Result], arguments: list[str]) -> None:
    result = easeml(*arguments)
    assert result.exit_code == 2
    answer = data_of(result)
    assert answer["error"]
    assert answer["problems"] == []


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_any_encoding_of_the_output_will_do(tmp_path: Path, encoding: str) -> None:
    folder = make_task(tmp_path / "t", spec=SPEC + "objektiv: \u6f22\n")
    results = [
        subprocess.run(
            [sys.executable, "-c", "from easeml_core.cli.main import app; app()", "validate", folder, *more],
            capture_output=True,
            env={**os.environ, "PYTHONIOENCODING": encoding},
            timeout=60,
        )
        for more in ([], ["--json"])
    ]
    assert [result.returncode for result in results] == [1, 1]
    assert b"Traceback" not in results[0].stderr
    assert b"there is no such field ? did you mean" in results[0].stdout
    assert json.loads(results[1].stdout)["problems"][0]["field"] == "objektiv"


def test_control_characters_do_not_reach_the_terminal() -> None:
    hostile = Problem("data/\x1b[2Jx.csv", "bad \x07 cell")
    text = output.problems_text([hostile])
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\\x1b[2Jx.csv" in text


def test_json_refuses_nan() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        output.print_json({"quality": float("nan")})


def test_help_needs_nothing_heavy() -> None:
    """The command line must answer at once: what is imported for `--help` is what decides."""
    code = (
        "import sys, easeml_core.cli.main; "
        "print([m for m in ('numpy','pandas','sqlalchemy','mlflow','torch','pydantic','fsspec','httpx') "
        "if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_no_stack_is_a_misconfiguration(easeml: Callable[..., Result], bucket: object) -> None:
    result = easeml("devices", "--json")
    assert result.exit_code == 4
    assert "easeml up" in data_of(result)["error"]


def test_malformed_settings_are_named(
    easeml: Callable[..., Result], bucket: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EASEML_DEVICES", "CPU 0")
    result = easeml("devices")
    assert result.exit_code == 4
    assert "devices" in result.stderr
