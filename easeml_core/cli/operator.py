"""What an operator reads of the ledger: devices, tenants, decisions, and why each was taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from easeml_core.cli.options import JsonOption, settings_for, task_name
from easeml_core.cli.output import Code, emit, fail, printable, table

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
    emit(found, as_json, devices_table)


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
    """The latest decisions of the allocator, newest first, with what came of each."""
    from easeml_core.errors import Problem, TenantError
    from easeml_core.ledger import reports
    from easeml_core.ledger.tasks import find_task

    name = task_name(task, "") if task else None

    def ask(session: Session, _: Settings) -> Any:
        found = find_task(session, name) if name else None
        if name and found is None:
            raise TenantError([Problem(str(name), "there is no such task in the ledger")])
        return reports.decisions(session, task=found, limit=limit)

    emit(read_ledger(ask), as_json, decisions_table)


@app.command(rich_help_panel=PANEL, epilog="Example: easeml explain 17, or easeml explain trial-000042")
def explain(
    decision: Annotated[
        str, typer.Argument(metavar="DECISION", help="A decision's number, or a trial: trial-000042.")
    ],
    as_json: JsonOption = False,
) -> None:
    """One decision in full: its reason, what it was chosen over, and what became of the trial."""
    from sqlalchemy import select

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
    emit(found, as_json, explanation)


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


def decisions_table(decisions: list[dict[str, Any]]) -> RenderableType | str:
    """One line per decision; `explain` tells the rest."""
    if not decisions:
        return "nothing has been decided yet"
    rows = (
        (
            decision["decision"],
            decision["made_at"][11:19],
            decision["device"],
            decision["task"],
            decision["candidate"],
            decision["expected_quality"],
            decision["quality"] if decision["quality"] is not None else decision["outcome"],
        )
        for decision in decisions
    )
    return table(("no.", "at (UTC)", "device", "task", "candidate", "expected", "got"), rows)


def explanation(decision: dict[str, Any]) -> RenderableType:
    """A decision in words, its runners-up, and the attempts of its trial."""
    from rich.console import Group

    got = decision["outcome"] if decision["quality"] is None else f"quality {decision['quality']:.4f}"
    head = (
        f"Decision {decision['decision']}, {decision['made_at']}: {decision['candidate']} for "
        f"{decision['task']} on {decision['device']}\n"
        f"Why: {decision['reason']}\n"
        f"Policy: {decision['policy']}"
        + (f" (after {', '.join(decision['fallbacks'])} failed)" if decision["fallbacks"] else "")
        + f"\nExpected: quality {decision['expected_quality']:.4f} ± {decision['deviation']:.4f} in "
        f"{seconds(decision['predicted_seconds'])}\nGot: {got} in {seconds(decision['cost_seconds'])} "
        f"({decision['trial']})"
    )
    others = table(
        ("task", "candidate", "score", "expected", "±", "cost"),
        (
            (
                r["task"],
                r["arm"],
                r["score"],
                r["expected_quality"],
                r["deviation"],
                seconds(r["predicted_cost"]),
            )
            for r in decision["runners_up"]
        ),
        title="Chosen over",
    )
    attempts = table(
        ("attempt", "device", "state", "time", "reason"),
        (
            (a["attempt"], a["device"], a["state"], seconds(a["seconds"]), a["reason"])
            for a in decision["attempts"]
        ),
        title="Attempts",
    )
    return Group(head, *([others] if decision["runners_up"] else []), attempts)


def seconds(value: float | None) -> str | None:
    """A duration as people read it.

    >>> seconds(3.21), seconds(75.0), seconds(7300.0)
    ('3.2 s', '1 min 15 s', '2 h 01 min')
    """
    if value is None:
        return None
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def used(budget: dict[str, Any]) -> str:
    """Trials used, of how many."""
    return (
        f"{budget['used_trials']}"
        if budget["trials"] is None
        else f"{budget['used_trials']}/{budget['trials']}"
    )
