"""The catalogue's models, built for the shapes of one data version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from easeml_core.catalog import MODELS
from easeml_core.catalog.pretrained import FILES
from easeml_core.errors import OperatorError
from easeml_core.naming import CandidateName
from training.examples import Examples
from training.models import general, images, recovery, seq2seq, series, trees, vectors
from training.models.fit_images import SMALLEST, Enlarge
from training.models.network import Classifier, Geometry, Network, Regressor
from training.models.perceptron import mlp
from training.models.preprocess import ScaleImages, Standardise, Unchanged
from training.models.pretrained import pretrained
from training.models.rocket import Rocket
from training.models.tree_kernel import SubtreeKernel

__all__ = [
    "FIXED_FEATURES",
    "TRAINABLE",
    "Geometry",
    "Network",
    "assemble",
    "build_network",
    "is_network",
    "learns_in_steps",
]

_HIDDEN = 64

# Networks whose features are not trained: their head is fitted in one go.
FIXED_FEATURES = frozenset({"ROCKET", "tree-kernel-SVM"})

_SERIES = frozenset(series.BUILDERS) | {"ROCKET"}

# Template row → names of the models that can be trained for it.
TRAINABLE: dict[str, frozenset[str]] = {
    "image-classification": frozenset(images.BUILDERS) | frozenset(FILES),
    "image-recovery": frozenset(recovery.BUILDERS),
    "series-classification": _SERIES,
    "series-regression": _SERIES,
    "series-translation": frozenset(seq2seq.BUILDERS),
    "tree-classification": frozenset(trees.BUILDERS) | {"tree-kernel-SVM"},
    "vector-classification": frozenset(vectors.CLASSIFIERS) | {"MLP"},
    "vector-regression": frozenset(vectors.REGRESSORS) | {"MLP"},
    "general-classification": frozenset({"bit-level-RNN"}),
    "general-autoencoder": frozenset({"bit-level-auto-encoder"}),
}
for _name, _own in MODELS.plugged.items():
    for _row in _own.facts.templates:
        TRAINABLE[_row] = TRAINABLE.get(_row, frozenset()) | {_name}
_PIPELINES = (frozenset(vectors.CLASSIFIERS) | frozenset(vectors.REGRESSORS)) - {"MLP"}
_PIPELINES |= {name for name, own in MODELS.plugged.items() if own.facts.framework == "sklearn"}


def is_network(name: CandidateName) -> bool:
    """Whether a candidate is a torch network; else it is a scikit-learn pipeline."""
    return name.model not in _PIPELINES


def learns_in_steps(name: CandidateName) -> bool:
    """Whether a candidate is trained by gradient descent; else it is fitted in one go."""
    return is_network(name) and name.model not in FIXED_FEATURES


def build_network(name: CandidateName, examples: Examples, setting: dict[str, Any]) -> Network:
    """A fresh network with its preprocessing fitted to the training split.

    `setting` may hold `hidden`, the units of a recurrent or dense layer. Raises OperatorError where the
    model does not take this kind of data.
    """
    geometry = Geometry.of(examples)
    network = assemble(name, geometry, examples.facts.task_kind, int(setting.get("hidden", _HIDDEN)))
    if network is None:
        raise OperatorError(f"{name.model} does not take {geometry.kind} data for {examples.facts.task_kind}")
    network.fit_statistics(examples)
    return network


def assemble(name: CandidateName, geometry: Geometry, task_kind: str, hidden: int) -> Network | None:
    """The network of these shapes, its statistics not set yet; None where the model does not fit."""
    model, kind = name.model, geometry.kind
    if kind == "image" and task_kind == "recovery" and model in recovery.BUILDERS:
        return recovery.BUILDERS[model](geometry, ScaleImages(geometry.low, geometry.high, name.normaliser))
    if kind == "series" and task_kind == "translation" and model in seq2seq.BUILDERS:
        return seq2seq.BUILDERS[model](geometry, hidden)
    if kind == "bytes" and task_kind == "recovery" and model == "bit-level-auto-encoder":
        return general.bit_auto_encoder(geometry)
    if task_kind not in ("classification", "regression"):
        return None
    end = Classifier if task_kind == "classification" else Regressor
    own = MODELS.plugged[model].builder()(geometry, hidden) if model in MODELS.plugged else None
    if (
        kind == "image"
        and end is Classifier
        and (own is not None or model in TRAINABLE["image-classification"])
    ):
        before = ScaleImages(geometry.low, geometry.high, name.normaliser)
        return Classifier(before, _image_body(model, geometry) if own is None else own, geometry)
    body = _row_body(model, geometry, hidden) if own is None else own
    if kind == "bytes":
        return None if body is None else Classifier(Unchanged(), body, geometry)
    return None if body is None else end(Standardise(geometry.shape[0]), body, geometry)


def _image_body(model: str, geometry: Geometry) -> nn.Module:
    height, width, channels = geometry.shape
    if model in FILES:
        return pretrained(model, height, width, channels, geometry.outputs)
    body = images.BUILDERS[model](channels, max(min(height, width), SMALLEST), geometry.outputs)
    return nn.Sequential(Enlarge(height, width), body, nn.Flatten())


def _row_body(model: str, geometry: Geometry, hidden: int) -> nn.Module | None:
    """Of vectors, series, trees and bytes."""
    size, outputs = geometry.shape[0], geometry.outputs
    bodies: dict[tuple[str, str], Callable[[], nn.Module]] = {
        ("vector", "MLP"): lambda: mlp(size, hidden, outputs),
        ("series", "ROCKET"): lambda: Rocket(size, geometry.max_length, outputs),
        ("tree", "tree-kernel-SVM"): lambda: SubtreeKernel(size, geometry.children, outputs),
        ("bytes", "bit-level-RNN"): lambda: general.bit_rnn(geometry, hidden),
    }
    if (geometry.kind, model) in bodies:
        return bodies[geometry.kind, model]()
    if geometry.kind == "series" and model in series.BUILDERS:
        return series.BUILDERS[model](size, hidden, outputs)
    if geometry.kind == "tree" and model in trees.BUILDERS:
        return trees.BUILDERS[model](size, geometry.children, hidden, outputs, geometry.levels)
    return None
