"""Sends example tasks through the real service: uploads, watches, predicts held-back examples, scores.

All as their tenants would do it, through the bucket. What is done already is not done again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from easeml_core.bucket import Bucket
from easeml_core.cli import upload, waiting
from easeml_core.cli.operator import read_ledger
from easeml_core.cli.options import settings_for
from easeml_core.cli.output import say
from easeml_core.errors import TemporaryError
from easeml_core.ledger import reports
from easeml_core.naming import TaskName
from easeml_core.settings import Settings
from easeml_core.stack import api
from easeml_core.stack.description import StackInfo
from examples.layout import Example, Layout
from examples.scoring import HeldBackScore, score
from examples.watch import Snapshot, watcher

Note = Callable[[str], None]

LOOK_SECONDS = 0.5
PREDICT_SECONDS = 300.0
OVER = frozenset({"done", "failed", "cancelled", "rejected"})


@dataclass
class Shown:
    """One example: where it lies, and what came of it."""

    example: Example
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
        promoted = champion is not None and champion["successor"] is None
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


def run(
    examples: Iterable[Example], timeout: float, *, quiet: bool, every: bool = False
) -> tuple[list[Shown], StackInfo, Settings]:
    """Start the service, train the examples, predict what was held back; the service stays up.

    `every`: every candidate is tried, whatever the specs say of candidates and budgets.
    Raises `TemporaryError` where training takes more than `timeout` seconds.
    """
    settings = prepare()
    note: Note = (lambda _: None) if quiet else say
    note(f"Starting the service under {settings.home} …")
    info = api.up(settings, each_once(lambda step: note(f"  {step}")))
    bucket = Bucket.of(settings)
    out = settings.home / "examples"
    tasks = [submit(bucket, example, out, note, every=every) for example in examples]
    if not any(task.news for task in tasks):
        note("Nothing new was uploaded: what was trained before is not trained again.")
    watch(bucket, tasks, timeout, quiet=quiet)
    predict(bucket, tasks, note)
    return tasks, info, settings


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
    """Settings of the examples: a device per core, two at most, unless the operator named devices.

    They go into `<home>/easeml.toml`, so that `easeml devices` and a later `easeml up` know them too.
    """
    settings = settings_for()
    file = settings.home / "easeml.toml"
    if "EASEML_DEVICES" not in os.environ and not file.exists():
        settings.home.mkdir(parents=True, exist_ok=True)
        names = ", ".join(f'"cpu{number}"' for number in range(min(2, os.cpu_count() or 1)))
        file.write_text(f"# Written by the example tasks.\ndevices = [{names}]\n", encoding="utf-8")
        settings = settings_for()
    return settings


def submit(bucket: Bucket, example: Example, out: Path, note: Note, *, every: bool) -> Shown:
    """Lay out an example and upload it, without its limits or as it is, as with `easeml submit`."""
    layout = example.lay_out_once(out)
    folder = layout.without_limits(out) if every else layout.folder
    pushed = upload.submit(bucket, layout.name, folder, replace=True)
    sent = f"{len(pushed.sent)} files sent" if pushed.changed else "nothing new"
    note(f"  {layout.name!s:<18} {sent} ({example.about})")
    return Shown(example, layout, pushed.changed)


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
                    "and easeml logs scheduler, and run this again to see the rest."
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
        _, content = waiting.for_predictions(bucket, task.name, request, PREDICT_SECONDS)
        assert task.status is not None
        task.held_back = score(content, task.layout, task.status["data"]["facts"])
