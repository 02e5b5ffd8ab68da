"""Linear heads of networks with fixed features, fitted in one go: no gradient descent.

A head is fitted to standardised features, and the standardising is put into its weights. N examples, F
features, K classes or values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import cross_val_predict
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from torch import nn

from training.models.network import Network, Regressor

Floats = npt.NDArray[np.floating]
_ITERATIONS = 300
_NEVER = -1e4  # a logit


def fit_head(
    model: str,
    network: Network,
    features: Any,
    targets: npt.NDArray[Any],
    setting: dict[str, Any],
    seed: int,
    weights: Floats | None,
) -> None:
    """Fit the head of a network of `FIXED_FEATURES`; `features` `(N, F)` are an array or a sparse matrix, and
    `weights` `(N,)` what each example counts."""
    head = network.body.head
    if isinstance(network, Regressor):
        standard = (targets - network.target_mean.numpy()) / network.target_deviation.numpy()
        fit_ridge(head, features, standard, setting, seed)
    elif model == "tree-kernel-SVM":
        fit_svm(head, features, targets, setting, seed, weights)
    else:
        fit_logistic(head, features, targets, setting, seed, weights)


def fit_logistic(
    head: nn.Linear,
    features: Floats,
    classes: npt.NDArray[np.int64],
    setting: dict[str, Any],
    seed: int,
    weights: Floats | None,
) -> None:
    """Logits of a logistic regression with `C` of the setting."""
    scaler = StandardScaler().fit(features)
    model = LogisticRegression(C=setting["C"], max_iter=_ITERATIONS, random_state=seed)
    model.fit(scaler.transform(features), classes, weights)
    slopes, biases = _of_every_class(model.coef_, model.intercept_)
    _set(head, slopes / scaler.scale_, biases - (slopes / scaler.scale_) @ scaler.mean_)


def fit_ridge(head: nn.Linear, features: Floats, targets: Floats, setting: dict[str, Any], seed: int) -> None:
    """Values `(N, K)` of a ridge regression whose penalty is the inverse of `C`."""
    scaler = StandardScaler().fit(features)
    model = Ridge(alpha=1.0 / setting["C"], random_state=seed).fit(scaler.transform(features), targets)
    weights = np.atleast_2d(model.coef_) / scaler.scale_
    _set(head, weights, np.atleast_1d(model.intercept_) - weights @ scaler.mean_)


def fit_svm(
    head: nn.Linear,
    features: Any,
    classes: npt.NDArray[np.int64],
    setting: dict[str, Any],
    seed: int,
    weights: Floats | None,
) -> None:
    """Logits of a support-vector machine with `C`, one class against the rest.

    Its margins become logits by a logistic regression on margins of held-out examples (Platt 1999; of several
    classes, Guo 2017, section 4.2, matrix scaling). Of a class with one example there are none to hold out.
    """
    model = LinearSVC(C=setting["C"], loss="hinge", max_iter=20_000, random_state=seed)
    folds = min(5, int(np.bincount(classes).min()))
    margins = (
        cross_val_predict(
            model, features, classes, cv=folds, method="decision_function", params={"sample_weight": weights}
        )
        if folds > 1
        else model.fit(features, classes, weights).decision_function(features)
    ).reshape(len(classes), -1)
    model.fit(features, classes, weights)
    scaling = LogisticRegression(C=1.0, max_iter=_ITERATIONS).fit(margins, classes, weights)
    slopes, offsets = _of_every_class(scaling.coef_, scaling.intercept_)
    _set(head, slopes @ model.coef_, slopes @ model.intercept_ + offsets)


def _of_every_class(coefficients: Floats, intercepts: Floats) -> tuple[Floats, Floats]:
    """Of two classes scikit-learn keeps the second one's weights only; the first one's logit is 0."""
    if len(coefficients) > 1:
        return coefficients, intercepts
    return np.vstack([0 * coefficients, coefficients]), np.append(0 * intercepts, intercepts)


def _set(head: nn.Linear, weights: Floats, biases: Floats) -> None:
    """Outputs beyond those fitted belong to no class of the data: their probability is 0."""
    fitted = len(biases)
    with torch.no_grad():
        head.weight.zero_()
        head.bias.fill_(_NEVER)
        head.weight[:fitted] = torch.from_numpy(np.asarray(weights))
        head.bias[:fitted] = torch.from_numpy(np.asarray(biases))
