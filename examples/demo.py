"""The demonstration: the whole service on this machine, with the example tasks of three tenants.

Starts the service, uploads the tasks as their tenants would, watches until each has used its small budget,
predicts held-back examples with each champion, and says how good that is. What is done already is not done
again, so a second run is short. The service stays up: `easeml down` stops it.

    python -m examples.demo            # or: make demo
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from easeml_core.bucket import Bucket
from easeml_core.cli import upload, waiting
from easeml_core.cli.operator import read_ledger
from easeml_core.cli.options import JsonOption, settings_for
from easeml_core.cli.output import Code, cell, emit, problems_text, reported, say, table
from easeml_core.errors import TemporaryError
from easeml_core.ledger import reports
from easeml_core.naming import TaskName
from easeml_core.settings import Settings
from easeml_core.stack import api
from examples.catalogue import EXAMPLES
from examples.layout import Layout
from examples.scoring import HeldBackScore, score
from examples.watch import Snapshot, watcher

Note = Callable[[str], None]

LOOK_SECONDS = 0.5
OVER = frozenset({"done", "failed", "cancelled", "rejected"})


@dataclass
class Shown:
    """One task of the demonstration: where it lies, and what came of it."""

    layout: Layout
    news: bool
    status: dict[str, Any] | None = None
    held_back: HeldBackScore | None = None

    @property
    def name(self) -> TaskName:
        """The task."""
        return self.layout.name

    @property
    def over(self) -> bool:
        """Whether nothing more will be tried, and the best model is the champion."""
        if self.status is None:
            return False
        if self.status["problems"]:
            return True
        champion = self.status["champion"]
        promoted = champion is not None and champion["on_current_data"] and champion["successor"] is None
        return self.status["state"] in OVER and (promoted or not self.status["leaderboard"])

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        status = self.status or {}
        return {
            "task": str(self.name),
            "news": self.news,
            "state": status.get("state", "unknown"),
            "state_reason": status.get("state_reason", ""),
            "problems": status.get("problems", []),
            "champion": status.get("champion"),
            "trials": status.get("budget", {}).get("used_trials", 0),
            "held_back": self.held_back.as_dict() if self.held_back else None,
        }


def main(
    timeout: Annotated[
        float, typer.Option("--timeout", min=1, metavar="SECONDS", help="Give up training after so long.")
    ] = 900.0,
    as_json: JsonOption = False,
) -> None:
    """Start the service, train the example tasks, predict held-back examples, say how good that is."""
    started = time.monotonic()
    with reported(as_json):
        settings = prepare()
        note: Note = (lambda _: None) if as_json else say
        note(f"Starting the service under {settings.home} …")
        info = api.up(settings, each_once(lambda step: note(f"  {step}")))
        bucket = Bucket.of(settings)
        tasks = submit_all(bucket, settings.home / "examples", note)
        if not any(task.news for task in tasks):
            note("Nothing new was uploaded: what was trained before is not trained again.")
        watch(bucket, tasks, timeout, quiet=as_json)
        predict(bucket, tasks, note)
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


def each_once(tell: Note) -> Note:
    """Like `tell`, but not the same text twice in a row."""
    last = ""

    def once(text: str) -> None:
        nonlocal last
        if text != last:
            last = text
            tell(text)

    return once


def prepare() -> Settings:
    """Settings of the demonstration: a device per core, two at most, unless the operator named devices.

    They go into `<home>/easeml.toml`, so that `easeml devices` and a later `easeml up` know them too.
    """
    settings = settings_for()
    file = settings.home / "easeml.toml"
    if "EASEML_DEVICES" not in os.environ and not file.exists():
        settings.home.mkdir(parents=True, exist_ok=True)
        names = ", ".join(f'"cpu{number}"' for number in range(min(2, os.cpu_count() or 1)))
        file.write_text(f"# Written by the demonstration.\ndevices = [{names}]\n", encoding="utf-8")
        settings = settings_for()
    return settings


def submit_all(bucket: Bucket, out: Path, note: Note) -> list[Shown]:
    """Lay out the example tasks and upload them, each as its tenant would with `easeml submit`."""
    tasks = []
    for example in EXAMPLES:
        layout = example.lay_out_once(out)
        pushed = upload.submit(bucket, layout.name, layout.folder, replace=True)
        sent = f"{len(pushed.sent)} files sent" if pushed.changed else "nothing new"
        note(f"  {layout.name!s:<18} {sent} ({example.about})")
        tasks.append(Shown(layout, pushed.changed))
    return tasks


def watch(bucket: Bucket, tasks: list[Shown], timeout: float, *, quiet: bool) -> None:
    """Show what goes on until every task is over; raises `TemporaryError` after `timeout` seconds."""
    started = time.monotonic()
    with watcher(quiet) as shown:
        while True:
            for task in tasks:
                task.status = current_status(bucket, task.name)
            # Only now: settings read before `up` do not know where the ledger is.
            devices = read_ledger(lambda session, settings: reports.devices(session, settings.devices))
            elapsed = time.monotonic() - started
            shown.show(Snapshot(elapsed, {str(task.name): task.status for task in tasks}, devices))
            if all(task.over for task in tasks):
                return
            if elapsed > timeout:
                late = ", ".join(str(task.name) for task in tasks if not task.over)
                raise TemporaryError(
                    f"not over after {timeout:.0f} s: {late}. The service goes on; look with easeml tenants "
                    "and easeml logs scheduler, and run the demonstration again to see the rest."
                )
            time.sleep(LOOK_SECONDS)


def current_status(bucket: Bucket, name: TaskName) -> dict[str, Any] | None:
    """The task's status where it is about what the bucket holds now, else None."""
    status, listing = waiting.read_status(bucket, name), bucket.listing(name.prefix)
    about_this = status is not None and listing is not None and status["upload"] == listing.fingerprint
    return status if about_this else None


def predict(bucket: Bucket, tasks: list[Shown], note: Note) -> None:
    """Have each champion predict its held-back examples, as `easeml infer` would, and score them."""
    note("Predicting the held-back examples …")
    able = [task for task in tasks if task.status and task.status["champion"]]
    for task, request in [
        (task, waiting.send_inputs(bucket, task.name, [task.layout.inputs])) for task in able
    ]:
        _, content = waiting.for_predictions(bucket, task.name, request, 120.0)
        assert task.status is not None
        task.held_back = score(content, task.layout.read_labels(), task.status["data"]["facts"])


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
