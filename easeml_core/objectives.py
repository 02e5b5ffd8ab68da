"""What a task is measured by, and how a score in its own unit becomes a quality in [0, 1].

Every quality is higher-is-better and monotone in the score, so that the allocator may compare and average
tasks. N is the number of validation examples, K the number of classes or of values to predict.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Kind = Literal["classification", "regression", "recovery"]
Array = npt.NDArray[Any]

TINY = 1e-15  # probabilities are kept this far from 0 in a logarithm
BEST_PSNR = 100.0  # dB; a perfect recovery would be infinite
GOOD_PSNR = 30.0  # dB; halves the range: a recovery this good has quality 0.5


@dataclass(frozen=True, slots=True)
class Objective:
    """A score by its name: which way is better, which kinds of task it can measure, its possible range."""

    name: str
    higher_is_better: bool
    kinds: frozenset[Kind]
    lowest: float = 0.0
    highest: float = 1.0


def _objective(name: str, higher: bool, *kinds: Kind, lowest: float = 0.0, highest: float = 1.0) -> Objective:
    return Objective(name, higher, frozenset(kinds), lowest, highest)


OBJECTIVES: dict[str, Objective] = {
    objective.name: objective
    for objective in (
        _objective("accuracy", True, "classification"),
        _objective("balanced_accuracy", True, "classification"),
        _objective("f1_macro", True, "classification"),
        _objective("roc_auc", True, "classification"),
        _objective("log_loss", False, "classification", highest=math.inf),
        _objective("mse", False, "regression", "recovery", highest=math.inf),
        _objective("mae", False, "regression", "recovery", highest=math.inf),
        _objective("r2", True, "regression", lowest=-math.inf),
        _objective("psnr", True, "recovery", lowest=-math.inf, highest=BEST_PSNR),
    )
}


def score(name: str, targets: Array, predictions: Array, n_classes: int) -> float:
    """The score of `predictions` in the objective's own unit; NaN where it is not defined.

    Classification: `targets` (N,) class numbers, `predictions` (N, K) probabilities. Regression and
    recovery: both (N, ...) numbers; recovery is of values in [0, 1]. NaN comes back for no examples, for
    predictions that are not finite, for a `roc_auc` of one class and an `r2` of one example: the caller
    decides what that means. Raises KeyError on an unknown name, ValueError on shapes that do not agree.
    """
    objective = OBJECTIVES[name]
    targets, predictions = np.asarray(targets), np.asarray(predictions)
    if "classification" in objective.kinds:
        if predictions.shape != (len(targets), n_classes):
            raise ValueError(
                f"predictions must have shape {(len(targets), n_classes)}; got {predictions.shape}"
            )
    else:
        predictions, targets = _rows(predictions), _rows(targets)
        if predictions.shape != targets.shape:
            raise ValueError(f"predictions must have shape {targets.shape}; got {predictions.shape}")
    if not len(targets) or not np.isfinite(predictions).all() or not np.isfinite(targets).all():
        return math.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what sklearn warns of comes back as NaN or is meant
        return float(_SCORES[name](targets, predictions))


def quality(name: str, score: float, reference: float = 1.0) -> float:
    """The quality in [0, 1] of a score; NaN for NaN.

    `reference` is the error of the best constant prediction on the validation split, for `mse` and `mae`
    (a model that is no better than it has quality 0.5); one that is not positive counts as 1. `log_loss`
    gives exp(-loss), the geometric mean of the probabilities given to the right class; `r2` gives
    1 / (2 - r2), which equals the formula for `mse`; `psnr` gives psnr / (psnr + 30 dB).
    """
    objective = OBJECTIVES[name]
    if math.isnan(score):
        return math.nan
    score = min(max(score, objective.lowest), objective.highest)
    if name == "log_loss":
        return math.exp(-score)
    if name in ("mse", "mae"):
        return 1.0 / (1.0 + score / (reference if reference > 0 and math.isfinite(reference) else 1.0))
    if name == "r2":
        return 1.0 / (2.0 - score)
    if name == "psnr":
        return max(score, 0.0) / (max(score, 0.0) + GOOD_PSNR)
    return score


def _rows(values: Array) -> Array:
    """One row per example: (N, ...) → (N, everything else)."""
    return values.reshape(len(values), math.prod(values.shape[1:])).astype(np.float64)


def _accuracy(targets: Array, probabilities: Array) -> float:
    return float(np.mean(probabilities.argmax(axis=1) == targets))


def _balanced_accuracy(targets: Array, probabilities: Array) -> float:
    right = probabilities.argmax(axis=1) == targets
    return float(np.mean([right[targets == label].mean() for label in np.unique(targets)]))


def _f1_macro(targets: Array, probabilities: Array) -> float:
    from sklearn.metrics import f1_score

    return float(f1_score(targets, probabilities.argmax(axis=1), average="macro", zero_division=0))


def _roc_auc(targets: Array, probabilities: Array) -> float:
    """Mean over the classes that occur, each against the rest: a class absent from the split says nothing."""
    from sklearn.metrics import roc_auc_score

    labels = np.unique(targets)
    if len(labels) < 2:
        return math.nan
    return float(np.mean([roc_auc_score(targets == label, probabilities[:, label]) for label in labels]))


def _log_loss(targets: Array, probabilities: Array) -> float:
    chosen = probabilities[np.arange(len(targets)), targets].astype(np.float64)
    return float(-np.mean(np.log(np.clip(chosen, TINY, 1.0))))


def _mse(targets: Array, predictions: Array) -> float:
    return float(np.mean((targets - predictions) ** 2))


def _mae(targets: Array, predictions: Array) -> float:
    return float(np.mean(np.abs(targets - predictions)))


def _r2(targets: Array, predictions: Array) -> float:
    from sklearn.metrics import r2_score

    return float(r2_score(targets, predictions)) if len(targets) > 1 else math.nan


def _psnr(targets: Array, predictions: Array) -> float:
    return float(-10.0 * np.log10(max(_mse(targets, predictions), 10 ** (-BEST_PSNR / 10))))


_SCORES: dict[str, Callable[[Array, Array], float]] = {
    "accuracy": _accuracy,
    "balanced_accuracy": _balanced_accuracy,
    "f1_macro": _f1_macro,
    "roc_auc": _roc_auc,
    "log_loss": _log_loss,
    "mse": _mse,
    "mae": _mae,
    "r2": _r2,
    "psnr": _psnr,
}
