"""The scikit-learn families over flat vectors, classification and regression.

Each builder gives an unfitted pipeline, with scaling where the method needs it; the trial's setting is
applied with `set_params`, so that a search may name any parameter of the estimator. Regressors are fitted
to targets `(N, K)` and predict `(N, K)`, also where K is 1.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from easeml_core.catalog import MODELS
from easeml_core.errors import OperatorError

CLASSIFIERS: dict[str, tuple[Callable[[int, int], BaseEstimator], bool]] = {
    # name: (estimator from (seed, threads), whether it needs scaled features)
    "LogisticRegression": (lambda seed, threads: LogisticRegression(max_iter=1000), True),
    "RandomForest": (
        lambda seed, threads: RandomForestClassifier(200, random_state=seed, n_jobs=threads), False
    ),
    "GradientBoosting": (lambda seed, threads: HistGradientBoostingClassifier(random_state=seed), False),
    "SVM": (lambda seed, threads: SVC(), True),
    "KNN": (lambda seed, threads: KNeighborsClassifier(n_jobs=threads), True),
}  # fmt: skip

REGRESSORS: dict[str, tuple[Callable[[int, int], BaseEstimator], bool]] = {
    "RidgeRegression": (lambda seed, threads: Ridge(), True),
    "RandomForest": (
        lambda seed, threads: RandomForestRegressor(200, random_state=seed, n_jobs=threads), False
    ),
    "GradientBoosting": (lambda seed, threads: HistGradientBoostingRegressor(random_state=seed), False),
    "SVM": (lambda seed, threads: SVR(), True),
    "KNN": (lambda seed, threads: KNeighborsRegressor(n_jobs=threads), True),
}  # fmt: skip


def build(
    name: str,
    setting: dict[str, Any],
    *,
    is_classification: bool,
    smallest_class: int,
    seed: int,
    threads: int,
) -> Pipeline:
    """An unfitted pipeline of the family `name` with the parameters of `setting`.

    `smallest_class` is the number of training examples of the rarest class: probabilities of an SVM are
    calibrated by cross-validation within it. Raises OperatorError on an unknown family or parameter.
    """
    families = CLASSIFIERS if is_classification else REGRESSORS
    if name in MODELS.plugged:
        make, scaled = partial(MODELS.plugged[name].builder(), is_classification), False
    elif name in families:
        make, scaled = families[name]
    else:
        raise OperatorError(f"no {'classifier' if is_classification else 'regressor'} named {name}")
    estimator = make(seed, threads)
    try:
        estimator.set_params(**setting)
    except ValueError as error:
        raise OperatorError(f"{name}: {error}") from error
    if isinstance(estimator, SVC):
        folds = max(2, min(5, smallest_class))
        estimator = CalibratedClassifierCV(estimator, ensemble=False, cv=folds)
    elif isinstance(estimator, SVR):  # its tolerance epsilon is in the targets' own units
        scaled_targets = TransformedTargetRegressor(estimator, transformer=StandardScaler())
        estimator = MultiOutputRegressor(scaled_targets)
    elif isinstance(estimator, HistGradientBoostingRegressor | RandomForestRegressor | Ridge):
        estimator = MultiOutputRegressor(estimator)
    return make_pipeline(StandardScaler(), estimator) if scaled else make_pipeline(estimator)
