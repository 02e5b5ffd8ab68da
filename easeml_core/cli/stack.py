"""The local stack from the command line: up, down, ps, logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from easeml_core.cli.options import JsonOption, settings_for
from easeml_core.cli.output import Code, console, emit, print_json, printable, table

app = typer.Typer()
PANEL = "Service"


@app.command(rich_help_panel=PANEL, epilog="Example: easeml up && easeml ps")
def up(
    as_json: JsonOption = False,
    timeout: Annotated[
        float, typer.Option("--timeout", min=1, metavar="SECONDS", help="How long to wait at most.")
    ] = 180.0,
) -> None:
    """Start PostgreSQL, MLflow, Airflow and the trainer, and wait until all work; prints URLs and sign-in."""
    from easeml_core.stack import api

    with _steps(as_json) as progress:
        info = api.up(settings_for(), progress, timeout)
    emit(info.as_dict(secrets=True), as_json, _sign_in)


@app.command(rich_help_panel=PANEL, epilog="Example: easeml down")
def down(as_json: JsonOption = False) -> None:
    """Stop everything that `easeml up` started; what was stored stays."""
    from easeml_core.stack import api

    settings = settings_for()
    with _steps(as_json) as progress:
        api.down(settings, progress)
    emit({"home": str(settings.home), "running": False}, as_json, lambda _: "the stack is down")


@app.command(rich_help_panel=PANEL, epilog="Example: easeml ps --json | jq .pss_bytes")
def ps(
    as_json: JsonOption = False,
    secrets: Annotated[
        bool, typer.Option("--secrets", help="Show the password and the database's URL too.")
    ] = False,
) -> None:
    """Show the programs of the stack; ends with 1 unless all of them work."""
    from easeml_core.stack import api

    settings = settings_for()
    status = api.status(settings)
    shown = status.as_dict()
    if secrets:
        shown |= api.describe(settings).as_dict(secrets=True)
    emit(shown, as_json, _programs)
    if not status.healthy:
        raise typer.Exit(Code.PROBLEM)


@app.command(rich_help_panel=PANEL, epilog="Example: easeml logs scheduler --follow")
def logs(
    program: Annotated[
        str, typer.Argument(metavar="PROGRAM", help="A program as `easeml ps` names it, or supervisord.")
    ],
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many of the last lines.")] = 50,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on as new lines come, until Ctrl-C.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show a program's log."""
    from easeml_core.stack import api

    found = api.logs(settings_for(), program, lines=lines, follow=follow and not as_json)
    if as_json:
        print_json({"program": program, "lines": list(found)})
        return
    for line in found:
        print(printable(line), flush=follow)


@contextmanager
def _steps(as_json: bool) -> Iterator[Callable[[str], None]]:
    """Shows the step that is going on, on standard error; nothing with `--json`."""
    if as_json:
        yield lambda _: None
        return
    with console(stderr=True).status("looking around") as status:
        yield lambda text: status.update(text)


def _sign_in(info: dict[str, Any]) -> str:
    return "\n".join(
        (
            f"Airflow   {info['airflow_url']}",
            f"sign in   {info['airflow_user']} / {info['airflow_password']}",
            f"MLflow    {info['mlflow_url']}",
            f"home      {info['home']}",
        )
    )


def _programs(status: dict[str, Any]) -> Any:
    from rich.console import Group

    if not status["running"]:
        return f"no stack runs under {status['home']}: run `easeml up`"
    rows = [
        (
            program["name"],
            program["state"].lower(),
            program["healthy"],
            program["pid"] or None,
            f"{program['uptime_seconds']:.0f} s" if program["uptime_seconds"] else None,
            f"{program['pss_bytes'] / 1e6:.0f} MB",
        )
        for program in status["programs"]
    ]
    rows.append(("all", "", status["healthy"], None, None, f"{status['pss_bytes'] / 1e6:.0f} MB"))
    parts: list[Any] = [
        table(("program", "state", "works", "pid", "up", "memory"), rows),
        f"Airflow   {status['airflow_url']}\nMLflow    {status['mlflow_url']}",
    ]
    if "airflow_password" in status:
        parts += [
            f"sign in   {status['airflow_user']} / {status['airflow_password']}",
            f"database  {status['database_url']}",
        ]
    return Group(*parts)
