"""`easeml simulate`: what a policy, or more devices, would do on a table of known results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from easeml_core.cli.options import JsonOption, settings_for
from easeml_core.cli.output import Code, console, emit, fail, say, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from easeml_core.replay import Table
    from easeml_core.replay.metrics import Curves

app = typer.Typer()
PANEL = "Operator: devices and decisions"
DEFAULT = "default"


@app.command(
    rich_help_panel=PANEL,
    epilog="Example: easeml simulate results.csv --policy default --policy hybrid --devices 4",
)
def simulate(
    results: Annotated[
        Path | None,
        typer.Argument(
            metavar="[TABLE.csv]",
            help="Tidy CSV task,model,accuracy,cost_seconds; without it, what this service has recorded.",
        ),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(
            "--policy", "-p", help="A policy's name; may be repeated. `default` is the service's best."
        ),
    ] = None,
    devices: Annotated[int, typer.Option("--devices", "-d", min=1, help="How many devices.")] = 1,
    repeats: Annotated[
        int, typer.Option("--repeats", "-r", min=1, help="Random splits into tasks served and history.")
    ] = 10,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Draws the costs that the table lacks.")] = 0,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Write the loss curves to this PNG or SVG.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Replay policies over known results: how fast each gets every task close to its best.

    In each repeat 10 tasks (half of a small table) are served, the others are history. Loss is the best
    quality in the table less the best found so far; cost is a share of what one device needs for everything.
    """
    names = list(dict.fromkeys(policy or [DEFAULT, "hybrid"]))
    found = recorded_table() if results is None else table_from(results, seed, as_json)
    measured = simulated(found, names, devices=devices, repeats=repeats, quiet=as_json)
    if plot is not None:
        from easeml_core.replay.plots import save_curves

        save_curves(measured, plot, title=f"{len(found.tasks)} tasks × {len(found.models)} models")
        say(f"curves written to {plot}")
    from easeml_core.replay.protocol import report

    emit(report(measured), as_json, figures)


def simulated(
    results: Table, policies: list[str], *, devices: int = 1, repeats: int = 10, quiet: bool = True
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
    with Progress(console=console(stderr=True), transient=True, disable=quiet) as bar:
        job = bar.add_task(f"replaying {len(names)} policies", total=repeats)
        return measure(
            results, names, repeats, devices=devices, progress=lambda done: bar.update(job, completed=done)
        )


def table_from(path: Path, seed: int, as_json: bool) -> Table:
    """The table in a file; ends the command where it cannot be used."""
    from easeml_core.replay import read_table

    try:
        found = read_table(path, seed)
    except (ValueError, UnicodeDecodeError) as problem:
        fail(Code.PROBLEM, f"{path} is not a table of results: {problem}", as_json)
    if len(found.tasks) < 2:
        fail(Code.PROBLEM, f"{path} has {len(found.tasks)} task(s); a replay needs at least 2", as_json)
    return found


def recorded_table() -> Table:
    """What this service has recorded, of the template with most tasks: best quality and mean seconds of each
    candidate on each data version."""
    from easeml_core.cli.operator import read_ledger
    from easeml_core.errors import OperatorError
    from easeml_core.replay.recorded import table_of

    found: Table | None = read_ledger(lambda session, _: table_of(session))
    if found is None:
        raise OperatorError(
            f"the ledger under {settings_for().home} holds fewer than 2 tasks with results: give a TABLE.csv"
        )
    return found


def figures(report: dict[str, dict[str, Any]]) -> RenderableType:
    """One line per policy, best first."""
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
    return table(columns, rows, title=title)


def percent(share: float | None) -> str | None:
    """Of the total cost: `2.76` percent."""
    return None if share is None else f"{100 * share:.2f}"
