"""What an operator reads of the ledger: devices, tenants, decisions, and why each was taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from easeml_core.cli.options import JsonOption, settings_for, task_name
from easeml_core.cli.output import Code, emit, fail, printable, say, seconds, table

if TYPE_CHECKING:
    from rich.console import RenderableType
    from sqlalchemy.orm import Session

    from easeml_core.settings import Settings

app = typer.Typer()
PANEL = "Operator: devices and decisions"
# A person waits here: better an answer soon than the service's patience with a restarting server.
PATIENCE_SECONDS = 3.0
LimitOption = Annotated[int, typer.Option("--limit", "-n", min=1, help="How many, at most.")]


def read_ledger(question: Callable[[Session, Settings], Any]) -> Any:
    """What `question` answers within one transaction on the ledger of this installation."""
    from easeml_core.ledger import Ledger

    settings = settings_for()
    with Ledger(settings.resolved_database_url(), PATIENCE_SECONDS).transaction() as session:
        return question(session, settings)


@app.command(rich_help_panel=PANEL, epilog="Example: easeml devices --json")
def devices(as_json: JsonOption = False) -> None:
    """What each device runs now, since when, and why."""
    from easeml_core.ledger import reports

    found = read_ledger(lambda session, settings: reports.devices(session, settings.devices))
    _warn_of_policy(settings_for().policy)
    emit(found, as_json, devices_table)


def _warn_of_policy(name: str) -> None:
    """Tell of a policy that nobody knows: round robin decides in its place, and nothing stops."""
    from easeml_core.allocator import make_policy
    from easeml_core.errors import OperatorError

    try:
        make_policy(name)
    except OperatorError as problem:
        say(f"easeml: warning: setting policy: {problem}; until then round_robin decides")


@app.command(rich_help_panel=PANEL, epilog="Example: easeml tenants")
def tenants(as_json: JsonOption = False) -> None:
    """Every tenant with its tasks: state, trials, best quality, device time."""
    from easeml_core.ledger import reports

    emit(read_ledger(lambda session, _: reports.tenants(session)), as_json, tenants_table)


@app.command(rich_help_panel=PANEL, epilog="Example: easeml decisions --task vision/digits -n 10")
def decisions(
    task: Annotated[str, typer.Option("--task", metavar="TASK", help="Only those of one task.")] = "",
    limit: LimitOption = 20,
    as_json: JsonOption = False,
) -> None:
    """The latest decisions, newest first: what, why, chosen over what, what was expected and what came."""
    from easeml_core.cli.explain import decisions_list
    from easeml_core.ledger import reports

    found, calibration = read_ledger(
        lambda session, _: (
            reports.decisions(session, task=(only := _task(session, task)), limit=limit),
            reports.calibration(session, only),
        )
    )
    emit(found, as_json, lambda found: decisions_list(found, calibration))


@app.command(rich_help_panel=PANEL, epilog="Example: easeml calibration --task vision/digits")
def calibration(
    task: Annotated[str, typer.Option("--task", metavar="TASK", help="Only decisions for one task.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Were the predictions right? By policy and template, and over time: how many qualities came inside the
    intervals that were to hold 50 and 90 % of them, and how far predicted times were off."""
    from easeml_core.cli.calibration import calibration_view
    from easeml_core.ledger import reports

    found = read_ledger(lambda session, _: reports.calibration(session, _task(session, task)))
    emit(found, as_json, calibration_view)


@app.command(rich_help_panel=PANEL, epilog="Example: easeml explain 17, or easeml explain trial-000042")
def explain(
    decision: Annotated[
        str, typer.Argument(metavar="DECISION", help="A decision's number, or a trial: trial-000042.")
    ],
    as_json: JsonOption = False,
) -> None:
    """One decision in full: why this task and this candidate, what was seen and believed, what it was chosen
    over, what was expected and what came."""
    from sqlalchemy import select

    from easeml_core.cli.explain import explanation, sentences
    from easeml_core.ledger import reports
    from easeml_core.ledger.models import DecisionRecord

    digits = decision.removeprefix("trial-")
    if not (digits.isascii() and digits.isdigit()):
        raise typer.BadParameter(f"a decision is a number or trial-<number>; got {decision!r}")

    def ask(session: Session, _: Settings) -> Any:
        number: int | None = int(digits)
        if decision.startswith("trial-"):
            of_trial = select(DecisionRecord.id).where(DecisionRecord.trial_id == number)
            number = session.scalars(of_trial.order_by(DecisionRecord.id).limit(1)).one_or_none()
        return None if number is None else reports.explain(session, number)

    found = read_ledger(ask)
    if found is None:
        fail(Code.PROBLEM, f"there is no decision {decision}: see easeml decisions", as_json)
    emit(found | {"words": sentences(found)}, as_json, explanation)


def _task(session: Session, name: str) -> Any:
    """The task called `name`, None without a name. Raises TenantError where there is none."""
    from easeml_core.errors import Problem, TenantError
    from easeml_core.ledger.tasks import find_task

    if not name:
        return None
    found = find_task(session, task_name(name, ""))
    if found is None:
        raise TenantError([Problem(name, "there is no such task in the ledger")])
    return found


def devices_table(devices: list[dict[str, Any]]) -> RenderableType:
    """One line per device, and below it why each busy one does what it does."""
    from rich.console import Group

    rows = (
        (
            device["device"],
            device["state"],
            device.get("task"),
            device.get("candidate"),
            seconds(device.get("elapsed_seconds")),
            seconds(device.get("predicted_seconds")),
        )
        for device in devices
    )
    reasons = [
        f"{device['device']}: {printable(device['reason'])}" for device in devices if device.get("reason")
    ]
    return Group(table(("device", "state", "task", "candidate", "for", "expected"), rows), *reasons)


def tenants_table(tenants: list[dict[str, Any]]) -> RenderableType | str:
    """One line per task, under its tenant."""
    rows = [
        (
            task["task"],
            task["state"],
            used(task["budget"]),
            task["best_quality"],
            seconds(task["budget"]["charged_seconds"]),
            task["state_reason"],
        )
        for tenant in tenants
        for task in tenant["tasks"]
    ]
    if not rows:
        return "no tenant has uploaded a task yet"
    return table(("task", "state", "trials", "best quality", "device time", "reason"), rows)


def used(budget: dict[str, Any]) -> str:
    """Trials used, of how many."""
    return (
        f"{budget['used_trials']}"
        if budget["trials"] is None
        else f"{budget['used_trials']}/{budget['trials']}"
    )
