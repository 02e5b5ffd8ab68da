"""The catalogue's models, built for the shapes of one data version."""

from __future__ import annotations

from typing import Any

from torch import nn

from easeml_core.errors import OperatorError
from easeml_core.naming import CandidateName
from training.examples import Examples
from training.models import images, series, vectors
from training.models.fit_images import SMALLEST, Enlarge
from training.models.network import Geometry, Network, ScaleImages, Standardise
from training.models.perceptron import mlp

__all__ = ["TRAINABLE", "Geometry", "Network", "build_network", "is_network"]

_HIDDEN = 64

# Template row → names of the models that can be trained for it.
TRAINABLE: dict[str, frozenset[str]] = {
    "image-classification": frozenset(images.BUILDERS),
    "series-classification": frozenset(series.BUILDERS),
    "vector-classification": frozenset(vectors.CLASSIFIERS) | {"MLP"},
    "vector-regression": frozenset(vectors.REGRESSORS) | {"MLP"},
}


def is_network(name: CandidateName) -> bool:
    """Whether a candidate is a torch network; else it is a scikit-learn pipeline."""
    return name.model == "MLP" or name.model in images.BUILDERS or name.model in series.BUILDERS


def build_network(name: CandidateName, examples: Examples, setting: dict[str, Any]) -> Network:
    """A fresh network with its preprocessing fitted to the training split.

    `setting` may hold `hidden`, the units of a recurrent or dense layer. Raises OperatorError where the
    model does not take this kind of data.
    """
    geometry = Geometry.of(examples)
    before: ScaleImages | Standardise
    body: nn.Module
    hidden = int(setting.get("hidden", _HIDDEN))
    if geometry.kind == "image" and name.model in images.BUILDERS:
        height, width, channels = geometry.shape
        side = max(min(height, width), SMALLEST)
        before = ScaleImages(examples.facts.low, examples.facts.high, name.normaliser)
        body = nn.Sequential(
            Enlarge(height, width),
            images.BUILDERS[name.model](channels, side, geometry.outputs),
            nn.Flatten(),
        )
    elif geometry.kind == "series" and name.model in series.BUILDERS:
        before = Standardise(geometry.shape[0])
        body = series.BUILDERS[name.model](geometry.shape[0], hidden, geometry.outputs)
    elif geometry.kind == "vector" and name.model == "MLP":
        before = Standardise(geometry.shape[0])
        body = mlp(geometry.shape[0], hidden, geometry.outputs)
    else:
        raise OperatorError(f"{name.model} does not take {geometry.kind} data")
    network = Network(before, body, geometry)
    network.fit_statistics(examples)
    return network
