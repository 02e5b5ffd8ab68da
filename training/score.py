"""How good predictions are, in the objective's own unit and as a quality."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from easeml_core import objectives
from easeml_core.data import VersionFacts


class DivergedError(Exception):
    """Loss, predictions or score are not finite, or the loss grew beyond any use."""


@dataclass(frozen=True, slots=True)
class Scored:
    """A score in the objective's unit, and the same as a quality in [0, 1], higher is better."""

    score: float
    quality: float


def evaluate(
    objective: str,
    facts: VersionFacts,
    targets: npt.NDArray[np.generic],
    predictions: npt.NDArray[np.floating],
) -> Scored:
    """Score `predictions` against `targets`, both as `Examples.targets` gives them (of classes, predictions
    are probabilities `(N, K)`).

    What is recovered is scaled to [0, 1] by the version's `target_low` and `target_high` first. Of series and
    bytes, every step of the targets counts the same; where an answer ends too early, its last step stands for
    the missing ones. Raises DivergedError where predictions or score are not finite.
    """
    if facts.task_kind in ("recovery", "translation"):
        if facts.kind != "image":
            targets, predictions = _steps(targets, predictions)
        if facts.task_kind == "recovery":
            targets, predictions = _scaled(targets, facts), _scaled(predictions, facts)
    if not np.isfinite(predictions).all():
        raise DivergedError("predictions are not finite")
    score = objectives.score(objective, targets, predictions, facts.outputs)
    if not math.isfinite(score):
        raise DivergedError(f"{objective} is {score}")
    quality = objectives.quality(objective, score, facts.reference.get(objective, 1.0))
    if not math.isfinite(quality):
        raise DivergedError(f"quality of {objective} {score} is {quality}")
    return Scored(float(score), float(quality))


def _steps(
    targets: npt.NDArray[np.generic], answers: npt.NDArray[np.floating]
) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.floating]]:
    """Steps that the targets have: both `(N, T, D)`, padded with NaN → `(steps, D)`; bytes are also answered
    as `(N, T)`. An answer without any step counts as zeros.
    """
    answers = answers.reshape(*answers.shape[:2], -1)
    lengths = (~np.isnan(answers).any(-1)).sum(1)
    steps = np.minimum(np.arange(targets.shape[1]), np.maximum(lengths - 1, 0)[:, None])
    filled = np.take_along_axis(answers, steps[..., None], axis=1)
    filled[lengths == 0] = 0.0
    real = ~np.isnan(targets.astype(np.float64)).any(-1)
    return targets[real], filled[real]


def _scaled(values: npt.NDArray[np.generic], facts: VersionFacts) -> npt.NDArray[np.floating]:
    low, high = facts.target_low or 0.0, 1.0 if facts.target_high is None else facts.target_high
    return (values.astype(np.float64) - low) / max(high - low, 1e-30)
