"""The demonstration: the whole service on this machine, with the example tasks of three tenants.

Starts the service, uploads the tasks as their tenants would, watches until each has used its small budget,
predicts held-back examples with each champion, and says how good that is. What is done already is not done
again, so a second run is short. The service stays up: `easeml down` stops it.

    python -m examples.demo            # or: make demo
"""

from __future__ import annotations

import time
from typing import Annotated, Any

import typer

from easeml_core.cli.options import JsonOption
from easeml_core.cli.output import Code, cell, emit, problems_text, reported, table
from examples import loop
from examples.catalogue import DEMONSTRATED
from examples.loop import Shown


def main(
    timeout: Annotated[
        float, typer.Option("--timeout", min=1, metavar="SECONDS", help="Give up training after so long.")
    ] = 900.0,
    as_json: JsonOption = False,
) -> None:
    """Start the service, train the example tasks, predict held-back examples, say how good that is."""
    started = time.monotonic()
    with reported(as_json):
        tasks, info, settings = loop.run(DEMONSTRATED, timeout, quiet=as_json)
    answer = {
        "tasks": [task.as_dict() for task in tasks],
        "repeated": not any(task.news for task in tasks),
        "seconds": round(time.monotonic() - started, 1),
        "airflow_url": info.airflow_url,
        "mlflow_url": info.mlflow_url,
        "airflow_user": info.airflow_user,
        "airflow_password": info.airflow_password,
        "home": str(settings.home),
    }
    emit(answer, as_json, lambda _: closing(tasks, answer))
    if any(task.held_back is None for task in tasks):
        raise typer.Exit(Code.PROBLEM)


def closing(tasks: list[Shown], answer: dict[str, Any]) -> Any:
    """What the demonstration says at its end."""
    from rich.console import Group

    rows = []
    for task in tasks:
        champion, held = (task.status or {}).get("champion") or {}, task.held_back
        rows.append(
            (
                task.name,
                champion.get("candidate", "no champion"),
                champion.get("quality"),
                f"{held.metric} {cell(held.score)}" if held else None,
                held.baseline if held else None,
            )
        )
    # Short titles: in a terminal of 80 columns no name is broken.
    columns = ("task", "champion", "quality", "held back", "baseline")
    text = (
        f"Airflow   {answer['airflow_url']}   "
        f"sign in as {answer['airflow_user']} / {answer['airflow_password']}\n"
        f"MLflow    {answer['mlflow_url']}\n"
        f"Took {answer['seconds']:.0f} s. The service stays up: easeml ps, easeml tenants, easeml decisions; "
        "stop it with make down."
    )
    failed = [
        f"{task.name} has no champion: {(task.status or {}).get('state_reason', '')}\n"
        + problems_text((task.status or {}).get("problems", []))
        for task in tasks
        if task.held_back is None
    ]
    title = (
        "Champions on examples that they have never seen\n"
        "(quality: in validation; baseline: the most frequent class, or the mean)"
    )
    return Group(table(columns, rows, title=title), *failed, text)


if __name__ == "__main__":
    typer.run(main)
