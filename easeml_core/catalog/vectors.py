"""Models of flat vectors, for classification and for regression.

Expected qualities of classifiers are mean accuracies over 121 data sets (Fernández-Delgado et al., JMLR 15,
2014); gradient boosting, which ran on few of them, is put beside random forests (Olson et al. 2018). The
regressors' order is that of Fernández-Delgado et al. 2019 (Neural Networks 111); their level, in the unit
of the quality of a mean squared error, is that of an r2 of about 0.6.

Constants of the costs of trees and kernels were fitted to times of scikit-learn on 178 to 5,000 examples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from easeml_core.catalog.facts import ADAMW_BAND, ModelFacts, Size
from easeml_core.catalog.space import Choice, Space

CLASSIFICATION, REGRESSION = "vector-classification", "vector-regression"
HIDDEN = 64  # units of each of the perceptron's two hidden layers
TREES = 200  # of a random forest
ROUNDS = 100  # of boosting; one tree per class or value in each
LEAVES = 31

_STUDY = "mean accuracy {} over 121 data sets (Fernández-Delgado et al. 2014)"


def _forest_fit(size: Size) -> float:
    levels = math.log2(size.n_train + 1)
    return TREES * (5e6 + 10 * math.sqrt(size.values) * size.n_train * levels**2)


def _boosting_fit(size: Size) -> float:
    return ROUNDS * size.outputs * (2e6 + 60.0 * size.n_train * size.values)


def _kernel_fit(size: Size) -> float:
    return 15.0 * size.n_train**2 * size.values * math.sqrt(size.outputs) + 1e6


def _neighbours_fit(size: Size) -> float:
    return 2.0 * (size.n_train / 4) * size.n_train * size.values + 1e6


def _logistic_fit(size: Size) -> float:
    return 200.0 * size.n_train * size.values * size.outputs + 1e6


def _ridge_fit(size: Size) -> float:
    return 1.0 * size.n_train * size.values**2 + size.values**3 + 1e6


def _perceptron_weights(size: Size) -> float:
    return 1.0 * HIDDEN * (size.values + HIDDEN + size.outputs + 6) + size.outputs


def _linear_weights(size: Size) -> float:
    return (size.values + 1.0) * size.outputs


def _examples(size: Size) -> float:
    return 1.0 * size.n_train * size.values


def _model(
    name: str,
    family: Any,
    year: int,
    citations: int,
    depth: int,
    expected: Mapping[str, float],
    reason: str,
    description: str,
    *,
    search: Space,
    forward: Callable[[Size], float],
    weights: Callable[[Size], float],
    fit: Callable[[Size], float],
) -> ModelFacts:
    return ModelFacts(
        name=name,
        framework="sklearn",
        family=family,
        year=year,
        citations=citations,
        depth=depth,
        expected=expected,
        reason=reason,
        description=description,
        forward=forward,
        weights=weights,
        search=search,
        fit=fit,
    )


VECTOR_MODELS = (
    _model(
        "LogisticRegression", "linear", 1958, 7_000, 1, {CLASSIFICATION: 0.78}, _STUDY.format(0.779),
        "a linear border between classes",
        search=Space(C=Choice(0.1, 1.0, 10.0)),
        forward=lambda size: 2.0 * size.values * size.outputs, weights=_linear_weights, fit=_logistic_fit,
    ),
    _model(
        "RidgeRegression", "linear", 1970, 18_000, 1, {REGRESSION: 0.68},
        "below trees and kernels (Fernández-Delgado et al. 2019)", "a plane through the data, held back",
        search=Space(alpha=Choice(0.1, 1.0, 10.0)),
        forward=lambda size: 2.0 * size.values * size.outputs, weights=_linear_weights, fit=_ridge_fit,
    ),
    _model(
        "RandomForest", "trees", 2001, 150_000, 12, {CLASSIFICATION: 0.82, REGRESSION: 0.73},
        _STUDY.format(0.823), "many decision trees on random parts of the data, averaged",
        search=Space(min_samples_leaf=Choice(1, 3)),
        forward=lambda size: 20.0 * TREES * math.log2(size.n_train + 1),
        weights=lambda size: 2.0 * TREES * size.n_train, fit=_forest_fit,
    ),
    _model(
        "GradientBoosting", "trees", 2001, 30_000, 6, {CLASSIFICATION: 0.82, REGRESSION: 0.74},
        "beside random forests (Olson et al. 2018)", "small trees, each mending the errors of those before",
        search=Space(learning_rate=Choice(0.05, 0.15)),
        forward=lambda size: 20.0 * ROUNDS * size.outputs * math.log2(LEAVES),
        weights=lambda size: 2.0 * ROUNDS * size.outputs * LEAVES, fit=_boosting_fit,
    ),
    _model(
        "SVM", "kernel", 1995, 75_000, 2, {CLASSIFICATION: 0.81, REGRESSION: 0.71}, _STUDY.format(0.814),
        "the widest border between classes, bent by a Gaussian kernel",
        search=Space(C=Choice(1.0, 10.0)),
        forward=lambda size: size.n_train * (size.values + size.outputs), weights=_examples, fit=_kernel_fit,
    ),
    _model(
        "KNN", "neighbours", 1967, 20_000, 1, {CLASSIFICATION: 0.79, REGRESSION: 0.68}, _STUDY.format(0.79),
        "asks the nearest known examples",
        search=Space(n_neighbors=Choice(1, 3, 9)),
        forward=lambda size: 2.0 * size.n_train * size.values, weights=_examples, fit=_neighbours_fit,
    ),
    ModelFacts(
        name="MLP",
        framework="torch",
        family="dense",
        year=1986,
        citations=40_000,
        depth=3,
        expected={CLASSIFICATION: 0.80, REGRESSION: 0.70},
        reason=_STUDY.format(0.803),
        description="a small neural network with two hidden layers",
        search=ADAMW_BAND,
        forward=lambda size: 2 * _perceptron_weights(size),
        weights=_perceptron_weights,
        epochs=60,
        patience=15,
        batch_size=32,
    ),
)  # fmt: skip
