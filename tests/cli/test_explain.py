"""Decisions in words: every clause of `easeml explain` that a decision may call for."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from easeml_core.cli.explain import sentences

DECISION: dict[str, Any] = {
    "decision": 8,
    "made_at": "2026-11-30T14:18:59+00:00",
    "device": "cpu1",
    "task": "lab/wine",
    "candidate": "MLP",
    "policy": "hybrid",
    "fallbacks": [],
    "reason": "lab/wine came first; MLP is good.",
    "expected_quality": 0.8,
    "deviation": 0.1,
    "intervals": {"50": [0.7, 0.9], "90": [0.6, 0.95]},
    "predicted_seconds": 60.0,
    "trial": "trial-000008",
    "outcome": "succeeded",
    "quality": 0.85,
    "cost_seconds": 62.0,
    "seen": {
        "open_tasks": 1,
        "tasks_with_work": 1,
        "running_trials": 1,
        "tried": [{"candidate": "KNN", "ended": "succeeded", "quality": 0.7, "cost_seconds": 1.0}],
        "running": [{"candidate": "SVM", "device": "cpu0", "elapsed_seconds": 1.0}],
        "candidates": 4,
        "left": 2,
        "waited": 1,
        "weight": 2.0,
        "remaining_trials": 1,
        "remaining_seconds": None,
        "deadline_in_seconds": 90.0,
        "basis": {
            "learned_from": "the catalogue",
            "before_any_trial": {"quality": 0.75, "deviation": 0.2},
            "trials_of_the_task": 1,
        },
    },
}


def told(**changes: Any) -> str:
    decision = copy.deepcopy(DECISION)
    decision["seen"]["basis"] |= changes.pop("basis", {})
    return "\n".join(sentences(decision | changes))


def test_a_decision_in_full() -> None:
    assert told() == (
        "Decision 8, 2026-11-30T14:18:59+00:00: MLP for lab/wine on cpu1.\n"
        "Why: lab/wine came first; MLP is good.\n"
        "Seen: 1 open task, 1 with work left, 1 trial running. lab/wine (weight 2) had ended 1 of 4 "
        "candidates (KNN 0.700), ran SVM on cpu0, could start 2, had 1 trial and 1 min 30 s to its deadline "
        "left, and had waited 1 decision.\n"
        "Believed: learned from the catalogue; before any trial of the task 0.750 ± 0.200.\n"
        "Policy: hybrid.\n"
        "Expected: quality 0.800 ± 0.100 (every second time between 0.700 and 0.900, nine times in ten "
        "between 0.600 and 0.950), in 1 min 00 s.\n"
        "Came: quality 0.850, inside the 50 % interval, in 1 min 02 s, as predicted (trial-000008)."
    ).replace("T14:18:59+00:00", " 14:18:59 UTC")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"quality": 0.92}, "Came: quality 0.920, inside the 90 % interval"),
        ({"quality": 0.96}, "Came: quality 0.960, above both intervals"),
        ({"quality": 0.3}, "Came: quality 0.300, below both intervals"),
        ({"cost_seconds": 6.0}, "10.0 times as fast as predicted"),
        ({"cost_seconds": 180.0}, "3.0 times as long as predicted"),
        ({"quality": None, "outcome": "lost"}, "Came: the trial was lost after 1 min 02 s"),
        ({"quality": None, "outcome": "running"}, "Came: nothing yet, the trial is running"),
        (
            {"fallbacks": ["easeml: FallbackError: told to fail"]},
            "Policy: hybrid, in place of what failed: easeml: FallbackError: told to fail.",
        ),
        (
            {"basis": {"jitter": 1e-6}},
            "that was not quite consistent in itself, so 1e-06 of its variance was added",
        ),
        ({"seen": {}}, "Decision 8"),  # one of before this was kept
    ],
)
def test_what_may_be_different_is_said(changes: dict[str, Any], text: str) -> None:
    assert text in told(**changes)
    assert "jitter" in changes.get("basis", {}) or "not quite consistent" not in told(**changes)


def test_of_many_trials_the_latest_are_named() -> None:
    decision = copy.deepcopy(DECISION)
    one = decision["seen"]["tried"][0]
    failed = one | {"candidate": "SVM", "ended": "failed", "quality": None}
    decision["seen"]["tried"] = [one | {"candidate": f"m{i}"} for i in range(7)] + [failed]
    assert "m2 0.700, m3 0.700, m4 0.700, m5 0.700, m6 0.700, SVM failed and 2 before" in "\n".join(
        sentences(decision)
    )
