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
    """Score `predictions` `(N, K)` against `targets` (`(N,)` classes or `(N, K)` values).

    Raises DivergedError where predictions or score are not finite.
    """
    if not np.isfinite(predictions).all():
        raise DivergedError("predictions are not finite")
    score = objectives.score(objective, targets, predictions, facts.outputs)
    if not math.isfinite(score):
        raise DivergedError(f"{objective} is {score}")
    quality = objectives.quality(objective, score, facts.reference.get(objective, 1.0))
    if not math.isfinite(quality):
        raise DivergedError(f"quality of {objective} {score} is {quality}")
    return Scored(float(score), float(quality))
