"""`easeml simulate`: what a policy, or more devices, would do on a table of known results."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from easeml_core.cli.options import JsonOption, settings_for
from easeml_core.cli.output import Code, console, emit, fail, say, table

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType

    from easeml_core.allocator.types import Prior
    from easeml_core.replay import Table
    from easeml_core.replay.metrics import Curves

app = typer.Typer()
PANEL = "Operator: devices and decisions"
DEFAULT = "default"
OURS = (DEFAULT, "easeml")


class Start(StrEnum):
    """What policies believe before they have seen anything of a task."""

    RBF = "rbf"
    LINEAR = "linear"
    MATERN = "matern"
    SERVICE = "service"


@app.command(
    rich_help_panel=PANEL,
    epilog="Example: easeml simulate results.csv --policy default --policy hybrid --devices 4",
)
def simulate(
    results: Annotated[
        Path | None,
        typer.Argument(
            metavar="[TABLE.csv]",
            exists=True,
            dir_okay=False,
            help="Tidy CSV task,model,accuracy,cost_seconds; without it, what this service has recorded.",
        ),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy", "-p", help="A policy's name; may be repeated. `default` is the one that decides best."
        ),
    ] = None,
    devices: Annotated[
        int | None,
        typer.Option(
            "--devices",
            "-d",
            min=1,
            help="How many devices. Default: 1; without a table, as many as this service has.",
            show_default=False,
        ),
    ] = None,
    repeats: Annotated[
        int, typer.Option("--repeats", "-r", min=1, help="Random splits into tasks served and history.")
    ] = 10,
    start: Annotated[
        Start | None,
        typer.Option(
            "--prior",
            help="What policies start from: a kernel over the candidates' results on past tasks, or as the "
            "service does, from its catalogue and past tasks. Default: rbf; without a table, service.",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Draws the costs that the table lacks.")] = 0,
    relative: Annotated[
        bool,
        typer.Option(
            "--relative-costs",
            help="Divide each task's costs by their mean, as the paper does: for costs that compare only "
            "within a task, for their unit is not known or machines differed.",
        ),
    ] = False,
    template: Annotated[
        str,
        typer.Option(
            "--template",
            help="Without a table: whose tasks. Default: the template that has most.",
            show_default=False,
        ),
    ] = "",
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Write the loss curves to this PNG or SVG.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Replay policies over known results: how fast each gets every task close to its best.

    In each repeat 10 tasks (half of a small table) are served, the others are history. Loss is the best
    quality in the table less the best found so far; cost is a share of what one device needs for everything.
    """
    if plot is not None and plot.suffix not in (".png", ".svg"):
        raise typer.BadParameter(f"--plot writes .png or .svg; got {plot.name}")
    if results is not None and template:
        raise typer.BadParameter("--template picks among this service's own tasks: it goes without a table")
    other = "hybrid"
    if results is None:
        settings = settings_for()
        template, found = recorded_table(template)
        devices = devices or len(settings.devices)
        start = start or Start.SERVICE
        # Where ours decides already, what it is compared with stays the paper's.
        other = settings.policy if settings.policy not in OURS else other
    else:
        found = table_from(results, seed, as_json)
    if relative:
        found = found.with_relative_costs()
    names = list(dict.fromkeys(policy or [DEFAULT, other]))
    believe = prior_from(start or Start.RBF, template)
    measured = simulated(found, names, devices=devices or 1, repeats=repeats, quiet=as_json, believe=believe)
    if plot is not None:
        from easeml_core.replay.plots import save_curves

        save_curves(measured, plot, title=f"{len(found.tasks)} tasks × {len(found.models)} models")
        say(f"curves written to {plot}")
    from easeml_core.replay.protocol import report

    emit(report(measured), as_json, figures)


def prior_from(start: Start, template: str) -> Callable[[Table], Prior]:
    """What makes the prior of a history; `template` is that of its tasks, empty where nobody knows."""
    if start is not Start.SERVICE:
        from easeml_core.replay.protocol import prior_of

        return partial(prior_of, kernel=start.value)

    def as_the_service(history: Table) -> Prior:
        from easeml_core.replay.simulate import past_tasks
        from easeml_core.service import forecast

        return forecast.prior_of(template, history.models, past_tasks(history))

    return as_the_service


def simulated(
    results: Table,
    policies: list[str],
    *,
    devices: int,
    repeats: int,
    quiet: bool,
    believe: Callable[[Table], Prior],
) -> dict[str, Curves]:
    """Curves by policy, and those of `clairvoyant`; a progress bar on standard error unless `quiet`.

    Raises `OperatorError` for an unknown policy before anything is replayed.
    """
    from rich.progress import Progress

    from easeml_core.allocator import make_policy
    from easeml_core.replay.protocol import CLAIRVOYANT, measure

    for name in policies:
        if name != CLAIRVOYANT:
            make_policy(name)
    names = list(dict.fromkeys([*policies, CLAIRVOYANT]))
    screen = console(stderr=True)
    with Progress(console=screen, transient=True, disable=quiet or not screen.is_terminal) as bar:
        job = bar.add_task(f"replaying {len(names)} policies, {repeats} times", total=repeats)
        return measure(
            results,
            names,
            repeats,
            devices=devices,
            believe=believe,
            progress=lambda done: bar.update(job, completed=done),
        )


def table_from(path: Path, seed: int, as_json: bool) -> Table:
    """The table in a file; ends the command, with all that is wrong, where it cannot be used."""
    from easeml_core.errors import Problem, TenantError
    from easeml_core.replay import read_table

    try:
        found = read_table(path, seed)
        few = [
            Problem(path.name, f"has {number} {what}; a replay needs at least 2", fix=why)
            for number, what, why in (
                (len(found.tasks), "task", "some are served, the others are history"),
                (len(found.models), "model", "there must be something to choose"),
            )
            if number < 2
        ]
        if few:
            raise TenantError(few)
    except TenantError as error:
        fail(Code.PROBLEM, f"{path} is not a table of results", as_json, error.problems)
    return found


def recorded_table(template: str) -> tuple[str, Table]:
    """What this service has recorded of a template, or of the one with most tasks, and that template: best
    quality and mean seconds of each candidate on each data version."""
    from easeml_core.cli.operator import read_ledger
    from easeml_core.errors import OperatorError
    from easeml_core.replay.recorded import tables_of

    tables: dict[str, Table] = read_ledger(lambda session, _: tables_of(session))
    usable = {name: table for name, table in tables.items() if len(table.tasks) > 1}
    if not usable:
        raise OperatorError(
            f"the ledger under {settings_for().home} holds fewer than 2 tasks with results: give a TABLE.csv"
        )
    name = template or max(usable, key=lambda name: len(usable[name].tasks))
    if name not in usable:
        raise OperatorError(f"fewer than 2 tasks of {name!r} have results; there are {', '.join(usable)}")
    say(f"replaying {len(usable[name].tasks)} tasks of {name} that this service has recorded")
    return name, usable[name]


def figures(report: dict[str, dict[str, Any]]) -> RenderableType:
    """One line per policy, best first; below, how well each predicted what it chose."""
    from rich.console import Group

    from easeml_core.replay.metrics import LOSSES

    limit = report["clairvoyant"]["area"]
    rows = [
        (
            name,
            f"{found['area']:.5f}",
            f"{found['area'] / limit:.2f}" if limit else None,
            f"{found['area_worst']:.4f}",
            *(percent(found["cost_to"][f"{loss:g}"]) for loss in LOSSES),
        )
        for name, found in sorted(report.items(), key=lambda item: item[1]["area"])
    ]
    columns = ("policy", "area", "÷ limit", "worst", *(f"to {100 * loss:g} %" for loss in LOSSES))
    title = (
        "Area under the average and the worst accuracy loss; percent of the total cost until the average "
        "loss is as low as that.\nThe limit is the clairvoyant, who knows all results. Lower is better."
    )
    judged = [
        (name, one["decisions"], *(f"{share:.0%}" for share in one["within"].values()), one["verdict"])
        for name, found in report.items()
        if (one := found["calibration"]) is not None
    ]
    parts = [table(columns, rows, title=title)]
    if judged:
        inside = "Share of qualities inside the intervals that were to hold 50 and 90 % of them"
        parts.append(table(("policy", "decisions", "in 50 %", "in 90 %", "verdict"), judged, title=inside))
    return Group(*parts)


def percent(share: float | None) -> str | None:
    """Of the total cost: `2.76` percent."""
    return None if share is None else f"{100 * share:.2f}"
