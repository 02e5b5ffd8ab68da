"""Shows what goes on while tasks are trained: a live table in a terminal, a line per change elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from easeml_core.cli.operator import devices_table, seconds, used
from easeml_core.cli.output import console, say, table

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One look: per task its status (see `status.json`) or None before the service has one, and devices."""

    elapsed: float
    tasks: dict[str, dict[str, Any] | None]
    devices: list[dict[str, Any]]


class Watcher(Protocol):
    """Is shown one snapshot after the other."""

    def show(self, snapshot: Snapshot) -> None:
        """Show what `snapshot` says."""
        ...


@contextmanager
def watcher(quiet: bool) -> Iterator[Watcher]:
    """A live table where standard error is a terminal, else lines; nothing at all when `quiet`."""
    screen = console(stderr=True)
    if quiet:
        yield Nobody()
    elif screen.is_terminal:
        from rich.live import Live

        with Live(console=screen, refresh_per_second=4) as live:
            yield LiveTable(live)
    else:
        yield Lines()


class Nobody:
    """Shows nothing."""

    def show(self, snapshot: Snapshot) -> None:
        """See `Watcher`."""


@dataclass
class LiveTable:
    """A table that is drawn anew with each snapshot."""

    live: Any

    def show(self, snapshot: Snapshot) -> None:
        """See `Watcher`."""
        from rich.console import Group

        self.live.update(Group(tasks_table(snapshot), devices_table(snapshot.devices)))


@dataclass
class Lines:
    """One line per thing that has changed since the snapshot before."""

    seen: dict[str, str] = field(default_factory=dict)

    def show(self, snapshot: Snapshot) -> None:
        """See `Watcher`."""
        for name, status in snapshot.tasks.items():
            self._say(snapshot, name, task_line(status))
        for device in snapshot.devices:
            doing = "free"
            if device.get("task"):
                doing = f"trains {device['candidate']} for {device['task']}: {device['reason']}"
            self._say(snapshot, device["device"], doing)

    def _say(self, snapshot: Snapshot, who: str, text: str) -> None:
        if self.seen.get(who) != text:
            self.seen[who] = text
            say(f"{snapshot.elapsed:6.0f} s  {who:<18} {text}")


def task_line(status: dict[str, Any] | None) -> str:
    """A task's state in a few words.

    >>> task_line(None)
    'uploaded, not yet looked at'
    """
    if status is None:
        return "uploaded, not yet looked at"
    if status["problems"]:
        return f"rejected, {len(status['problems'])} problems"
    best = best_quality(status)
    quality = "none succeeded yet" if best is None else f"best quality {best:.4f}"
    return f"{status['state']}, {used(status['budget'])} trials, {quality}"


def tasks_table(snapshot: Snapshot) -> RenderableType:
    """All tasks with state, trials, best quality, the best candidate and the device time used."""
    rows = []
    for name, status in snapshot.tasks.items():
        if status is None:
            rows.append((name, "uploaded", None, None, None, None))
            continue
        champion = status["champion"] or {}
        rows.append(
            (
                name,
                "rejected" if status["problems"] else status["state"],
                used(status["budget"]),
                best_quality(status),
                champion.get("candidate"),
                seconds(status["budget"]["charged_seconds"]),
            )
        )
    title = f"ease.ml after {time.strftime('%M:%S', time.gmtime(snapshot.elapsed))}"
    return table(("task", "state", "trials", "best quality", "champion", "device time"), rows, title=title)


def best_quality(status: dict[str, Any]) -> float | None:
    """Best validation quality on the current data; None before any trial has succeeded."""
    return status["leaderboard"][0]["quality"] if status["leaderboard"] else None
