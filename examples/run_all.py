"""Every row of the template table: all example tasks through the real service, each beside its baseline.

Does what the demonstration does, with all examples; ends with 1 where a champion is not better than the
baseline on held-back data. `--table` writes what each candidate reached in validation, and what it cost, as
the table that `easeml simulate` reads; `--every` has all of them trained, whatever the tasks' budgets.

    python -m examples.run_all         # or: make examples
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from easeml_core.cli.options import JsonOption
from easeml_core.cli.output import Code, cell, emit, reported, table
from easeml_core.replay.table import COLUMNS
from examples import loop
from examples.catalogue import EXAMPLES
from examples.layout import write_csv
from examples.loop import Shown


def main(
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="TASK", help="Run this one; may be given again.")
    ] = None,
    every: Annotated[
        bool,
        typer.Option("--every", help="Train every candidate of every task, without limits: half an hour."),
    ] = False,
    to: Annotated[
        Path | None, typer.Option("--table", metavar="FILE", help="Write tasks × models to this CSV file.")
    ] = None,
    timeout: Annotated[
        float, typer.Option("--timeout", min=1, metavar="SECONDS", help="Give up training after so long.")
    ] = 3600.0,
    as_json: JsonOption = False,
) -> None:
    """Train all example tasks, predict what was held back, compare with the baselines."""
    started = time.monotonic()
    chosen = [example for example in EXAMPLES if not only or str(example.name) in only]
    if only and len(chosen) < len(set(only)):
        raise typer.BadParameter(f"--only takes {', '.join(str(example.name) for example in EXAMPLES)}")
    with reported(as_json):
        tasks, _, _ = loop.run(chosen, timeout, quiet=as_json, every=every)
        if to is not None:
            to.parent.mkdir(parents=True, exist_ok=True)
            write_csv(to, COLUMNS, cells(tasks))
    answer = {
        "tasks": [summary(task) for task in tasks],
        "seconds": round(time.monotonic() - started, 1),
    }
    emit(answer, as_json, lambda _: closing(tasks))
    if not all(task.held_back and task.held_back.beats_baseline for task in tasks):
        raise typer.Exit(Code.PROBLEM)


def cells(tasks: Sequence[Shown]) -> list[tuple[str, str, float | None, float | None]]:
    """Task, model, quality in validation and cost in seconds of each candidate that was tried.

    The last two are None, an empty cell, where its trial failed; candidates come in the catalogue's order.
    """
    found = []
    for task in tasks:
        status = task.status or {}
        trials = {trial["candidate"]: trial for trial in status.get("leaderboard", [])}
        for candidate in status.get("candidates", []):
            name = candidate["candidate"]
            if trial := trials.get(name):
                reached = round(trial["quality"], 5), round(trial["cost_seconds"], 2)
            elif candidate["state"] == "untried":
                continue
            else:
                reached = None, None
            found.append((str(task.name), name, *reached))
    return found


def summary(task: Shown) -> dict[str, Any]:
    """What came of one example, JSON-ready; `seconds` is the compute time of all its trials."""
    status = task.status or {}
    return task.as_dict() | {
        "row": status.get("template"),
        "baseline": task.example.baseline,
        "seconds": status.get("budget", {}).get("charged_seconds"),
    }


def closing(tasks: Sequence[Shown]) -> Any:
    """The table of tasks, champions, scores and baselines; narrow enough for a terminal of 80 columns."""
    rows = []
    for task in tasks:
        found, held = summary(task), task.held_back
        champion = (found["champion"] or {}).get("candidate") or f"none: {found['state_reason']}"
        scores = (f"{held.metric} {cell(held.score)}", held.baseline) if held else (None, None)
        rows.append((task.name, champion, *scores, "yes" if held and held.beats_baseline else "no"))
    columns = ("task", "champion", "held back", "baseline", "better")
    return table(columns, rows, title="Champions on examples that they have never seen, beside baselines")


if __name__ == "__main__":
    typer.run(main)
