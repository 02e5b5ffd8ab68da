"""The catalogue as a whole: which candidates a task has, what they cost, what is believed of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Protocol

from easeml_core.catalog.facts import CPU, Machine, ModelFacts, Size
from easeml_core.catalog.general import GENERAL_MODELS
from easeml_core.catalog.images import IMAGE_MODELS
from easeml_core.catalog.modern_images import MODERN_IMAGE_MODELS
from easeml_core.catalog.normalise import HIGH_DYNAMIC_RANGE, K_VALUES, peak
from easeml_core.catalog.plugged import Models, like
from easeml_core.catalog.pretrained import PRETRAINED_MODELS, is_offered
from easeml_core.catalog.recovery import RECOVERY_MODELS
from easeml_core.catalog.series import SERIES_MODELS
from easeml_core.catalog.translation import TRANSLATION_MODELS
from easeml_core.catalog.trees import TREE_MODELS
from easeml_core.catalog.vectors import VECTOR_MODELS
from easeml_core.naming import CandidateName

MODELS = Models(
    (
        *IMAGE_MODELS,
        *MODERN_IMAGE_MODELS,
        *PRETRAINED_MODELS,
        *RECOVERY_MODELS,
        *VECTOR_MODELS,
        *SERIES_MODELS,
        *TRANSLATION_MODELS,
        *TREE_MODELS,
        *GENERAL_MODELS,
    )
)

# Expected gain of a normaliser: it is only offered where linear scaling loses part of the signal.
NORMALISER_GAIN = 0.03

_FAMILIES = ("convolutional", "recurrent", "dense", "linear", "trees", "kernel", "neighbours", "attention")
# The size at which models are compared; any would do, as long as it is the same for all of a template.
_TYPICAL = {
    "image-classification": Size((32, 32, 3), 10, 1000),
    "image-recovery": Size((32, 32, 3), 3072, 1000),
    "series-classification": Size((6,), 10, 1000, 100),
    "series-regression": Size((6,), 1, 1000, 100),
    "series-translation": Size((6,), 6, 1000, 100),
    "tree-classification": Size((20,), 10, 1000, 50),
    "general-classification": Size((1,), 10, 1000, 1000),
    "general-autoencoder": Size((1,), 1, 1000, 1000),
    "vector-classification": Size((20,), 10, 1000),
    "vector-regression": Size((20,), 1, 1000),
}


class Wishes(Protocol):
    """The part of a spec that says which candidates are wanted (`easeml_core.spec.Spec` has it)."""

    @property
    def template(self) -> str:
        """Id of the template row."""
        ...

    @property
    def include(self) -> tuple[str, ...]:
        """Patterns of candidates to try."""
        ...

    @property
    def exclude(self) -> tuple[str, ...]:
        """Patterns of candidates to leave out."""
        ...


def models_for(template: str) -> tuple[ModelFacts, ...]:
    """The models that can be trained for a template row; none for a row without trainable models."""
    models = (model for model in MODELS.values() if template in model.templates)
    return tuple(model for model in models if is_offered(model.name))


def normalisers_for(template: str, facts: Mapping[str, Any] | None) -> tuple[float, ...]:
    """The k of the normalisers that are tried: all where the input is image-shaped with a dynamic range of
    `HIGH_DYNAMIC_RANGE` or more, else none; none too while there are no facts yet."""
    high = facts is not None and (facts.get("dynamic_range") or 0.0) >= HIGH_DYNAMIC_RANGE
    return K_VALUES if high and template.startswith("image-") else ()


def all_candidates(template: str, normalisers: Sequence[float] = K_VALUES) -> tuple[str, ...]:
    """Every candidate of a template row: models × (identity + `normalisers`)."""
    if not template.startswith("image-"):
        normalisers = ()
    return tuple(
        str(CandidateName(model.name, k)) for k in (None, *normalisers) for model in models_for(template)
    )


def candidates_for(spec: Wishes, facts: Mapping[str, Any] | None = None) -> tuple[str, ...]:
    """The candidates of a task, as `CandidateName` texts: included, not excluded, in catalogue order.

    `facts` are those of the data version, of which `dynamic_range` decides about normalisers.
    """
    names = all_candidates(spec.template, normalisers_for(spec.template, facts))
    return tuple(
        name
        for name in names
        if any(matches(name, pattern) for pattern in spec.include)
        and not any(matches(name, pattern) for pattern in spec.exclude)
    )


def matches(candidate: str, pattern: str) -> bool:
    """Whether a pattern (`*`, `?`, `[…]`; capitals do not matter) means this candidate.

    A pattern without `+` is about the model, whatever is put before it: `VGG*` means `VGG-16+f0.2` too.
    """
    name = candidate if "+" in pattern else CandidateName.parse(candidate).model
    return fnmatchcase(name.lower(), pattern.lower())


def work(
    name: str,
    *,
    shape: Sequence[int],
    outputs: int,
    n_train: int,
    mean_length: float | None = 1,
    machine: Machine = CPU,
) -> float:
    """Total FLOPs of a whole trial of a candidate: what the cost model starts from (`ModelFacts.work`).

    Raises KeyError on a name that the catalogue does not have.
    """
    size = Size(tuple(shape), outputs, max(1, n_train), max(1.0, float(mean_length or 1)))
    return _facts(name).work(size, machine)


def strength(name: str, template: str) -> float:
    """The quality in [0, 1] expected of a candidate before any trial of any task (`ModelFacts.reason`)."""
    gain = NORMALISER_GAIN if CandidateName.parse(name).normaliser is not None else 0.0
    return min(1.0, _facts(name).expected[template] + gain)


@cache
def features(name: str) -> tuple[float, ...]:
    """What makes candidates alike, each in [0, 1]; one length for all, for the catalogue-only prior.

    Family (one of eight is 1), depth, logarithm of the number of weights, year, logarithm of citations,
    then the normaliser: whether there is one, and where on a logarithmic scale its peak is.
    """
    model, k = _facts(name), CandidateName.parse(name).normaliser
    weights = model.weights(_TYPICAL[like(min(model.templates))])
    return (
        *(1.0 if model.family == family else 0.0 for family in _FAMILIES),
        _scaled(math.log2(model.depth), 0, 5),
        _scaled(math.log10(weights), 1, 8),
        _scaled(model.year, 1955, 2025),
        _scaled(math.log10(model.citations), 3, 6),
        0.0 if k is None else 1.0,
        0.0 if k is None else _scaled(-math.log2(peak(k)), 0, 5),
    )


def _facts(name: str) -> ModelFacts:
    return MODELS[CandidateName.parse(name).model]


def _scaled(value: float, low: float, high: float) -> float:
    return min(1.0, max(0.0, (value - low) / (high - low)))
