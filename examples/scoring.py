"""Scores predictions on held-back examples, beside what a simple answer would reach."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from easeml_core import objectives
from examples.layout import Layout

Arrays = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class HeldBackScore:
    """How good predictions are on examples that nobody trained on.

    `metric` is accuracy, r2 for a regression, mse for series, psnr for images and bytes. `baseline` is what
    the most frequent class, the mean, or the answers of the script would reach.
    `missing` counts examples without a prediction: each counts as wrong, or has the baseline's answer.
    """

    metric: str
    score: float
    baseline: float
    examples: int
    missing: int

    @property
    def beats_baseline(self) -> bool:
        """Whether the champion is better than the baseline."""
        better = self.score > self.baseline
        return better if objectives.OBJECTIVES[self.metric].higher_is_better else self.score < self.baseline

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return asdict(self) | {"beats_baseline": self.beats_baseline}


def score(predictions: bytes, layout: Layout, facts: Mapping[str, Any]) -> HeldBackScore:
    """Compare a predictions file with what the example's script held back. `facts` are the data version's.

    Raises ValueError for a file without any prediction for these examples.
    """
    if layout.labels.is_file():
        return score_labels(predictions, layout.read_labels(), facts)
    with (
        np.load(io.BytesIO(predictions), allow_pickle=False) as given,
        np.load(layout.answers, allow_pickle=False) as truth,
    ):
        return score_arrays(dict(given), dict(truth), facts)


def score_arrays(given: Arrays, truth: Arrays, facts: Mapping[str, Any]) -> HeldBackScore:
    """Compare images, series or bytes: `given` as in the service's `.npz`, `truth` as scripts write it.

    A series that ends too early goes on as it ended. Raises ValueError as `score` does.
    """
    ids = [str(name) for name in truth["id"]]
    rows = {str(name): row for row, name in enumerate(given["id"])}
    if not rows.keys() & set(ids):
        raise ValueError("none of the predictions is about the held-back examples")
    metric, full = ("mse", 1.0) if facts["kind"] == "series" else ("psnr", 255.0)
    answered = truth["baseline"].astype(np.float64)
    for position, name in enumerate(ids):
        if name not in rows:
            continue
        row = rows[name]
        if "offsets" not in given:
            answered[position] = given["prediction"][row]
            continue
        start, end = given["offsets"][row : row + 2]
        steps = np.minimum(np.arange(answered.shape[1]), end - start - 1)
        answered[position] = given["prediction"][start + steps]
    target, baseline = truth["target"] / full, truth["baseline"] / full
    return HeldBackScore(
        metric,
        objectives.score(metric, target, answered / full, 0),
        objectives.score(metric, target, baseline, 0),
        len(ids),
        len(set(ids) - rows.keys()),
    )


def score_labels(predictions: bytes, labels: Mapping[str, str], facts: Mapping[str, Any]) -> HeldBackScore:
    """Compare a table of predictions with the labels, by example id. Raises ValueError as `score` does."""
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
