"""What the demonstration shows without a terminal: one line per change, none without."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from examples.watch import Lines, Snapshot, task_line, tasks_table


def status(**changes: Any) -> dict[str, Any]:
    return {
        "state": "open",
        "problems": [],
        "budget": {"used_trials": 1, "trials": 4, "charged_seconds": 3.0},
        "leaderboard": [{"quality": 0.91}],
        "champion": {"candidate": "KNN"},
    } | changes


BUSY = {"device": "cpu0", "state": "running", "task": "lab/rows", "candidate": "MLP", "reason": "cheapest"}


def test_lines_tell_each_change_once(capsys: pytest.CaptureFixture[str]) -> None:
    lines = Lines()
    lines.show(Snapshot(1.0, {"lab/rows": None}, [{"device": "cpu0", "state": "free"}]))
    lines.show(Snapshot(2.0, {"lab/rows": status()}, [BUSY]))
    lines.show(Snapshot(3.0, {"lab/rows": status()}, [BUSY | {"elapsed_seconds": 1.0}]))
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 4
    assert said[2].endswith("open, 1/4 trials, best quality 0.9100")
    assert said[3].endswith("trains MLP for lab/rows: cheapest")


def test_task_line_names_rejection_first() -> None:
    assert task_line(status(problems=[{"file": "task.yaml", "message": "x"}])) == "rejected, 1 problems"
    assert "none succeeded yet" in task_line(status(leaderboard=[], champion=None))


def test_table_shows_tasks_in_every_state() -> None:
    console = Console(width=120, file=io.StringIO())
    bad = status(problems=[{}], leaderboard=[], champion=None)
    with console.capture() as captured:
        console.print(tasks_table(Snapshot(75.0, {"a/new": None, "a/going": status(), "a/bad": bad}, [])))
    text = captured.get()
    assert "after 01:15" in text
    for word in ("uploaded", "0.9100", "KNN", "1/4", "rejected"):
        assert word in text
