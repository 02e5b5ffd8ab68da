"""Scores predictions on held-back examples, beside what a constant answer would reach."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class HeldBackScore:
    """How good predictions are on examples that nobody trained on.

    `metric` is accuracy, or r2 for a regression; `baseline` is that of always answering the most frequent
    class, or the mean. `missing` counts examples without a prediction: each counts as wrong.
    """

    metric: str
    score: float
    baseline: float
    examples: int
    missing: int

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self)


def score(predictions: bytes, labels: Mapping[str, str], facts: Mapping[str, Any]) -> HeldBackScore:
    """Compare a predictions file with the labels, by example id. `facts` are those of the data version.

    Raises ValueError for a file without any prediction for these examples.
    """
    answer = "value" if facts["task_kind"] == "regression" else "class"
    rows = csv.DictReader(io.StringIO(predictions.decode()))
    answers = {row["id"]: row[answer] for row in rows if row["id"] in labels}
    if not answers:
        raise ValueError("none of the predictions is about the held-back examples")
    missing = len(labels) - len(answers)
    if facts["task_kind"] == "regression":
        truth = np.array([float(label) for label in labels.values()])
        # An example without an answer gets the mean, which explains nothing.
        answered = np.array([float(answers.get(name, truth.mean())) for name in labels])
        r2 = 1 - float(((truth - answered) ** 2).sum() / ((truth - truth.mean()) ** 2).sum())
        return HeldBackScore("r2", r2, 0.0, len(labels), missing)
    right = sum(answers.get(name) == label for name, label in labels.items())
    frequent = facts["classes"][int(np.argmax(facts["class_counts"]))]
    constant = sum(label == frequent for label in labels.values())
    return HeldBackScore("accuracy", right / len(labels), constant / len(labels), len(labels), missing)
