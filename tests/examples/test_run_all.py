"""The table of what every candidate reached, as `easeml simulate` reads it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from easeml_core.replay.table import COLUMNS, read_table
from examples.catalogue import EXAMPLES
from examples.layout import Layout, write_csv
from examples.loop import Shown
from examples.run_all import cells


def shown(number: int, states: dict[str, str], leaderboard: list[dict[str, Any]]) -> Shown:
    example = EXAMPLES[number]
    candidates = [{"candidate": name, "state": state} for name, state in states.items()]
    status = {"candidates": candidates, "leaderboard": leaderboard}
    return Shown(example, Layout.under(Path("out"), example.name), True, status)


def test_a_failed_trial_leaves_an_empty_cell_and_an_untried_candidate_none(tmp_path: Path) -> None:
    tasks = [
        shown(
            0,
            {"KNN": "succeeded", "SVM": "failed", "MLP": "succeeded", "RandomForest": "untried"},
            [
                {"candidate": "MLP", "quality": 0.987654321, "cost_seconds": 2.719},
                {"candidate": "KNN", "quality": 0.0, "cost_seconds": 1.0},
            ],
        ),
        shown(1, {"SVM": "succeeded"}, [{"candidate": "SVM", "quality": 0.5, "cost_seconds": 4.0}]),
        Shown(EXAMPLES[2], Layout.under(Path("out"), EXAMPLES[2].name), True),
    ]
    write_csv(tmp_path / "own.csv", COLUMNS, cells(tasks))
    assert (tmp_path / "own.csv").read_text().splitlines()[1:] == [
        "clinic/tumours,KNN,0.0,1.0",
        "clinic/tumours,SVM,,",
        "clinic/tumours,MLP,0.98765,2.72",
        "clinic/diabetes,SVM,0.5,4.0",
    ]
    table = read_table(tmp_path / "own.csv")
    assert table.models == ("KNN", "MLP", "SVM")
    assert math.isnan(table.quality[0, 2])
    assert table.quality[1, 2] == pytest.approx(0.5)
