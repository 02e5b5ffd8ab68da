"""What the entry points name: facts only, so that every process of ease.ml can load them in no time."""

from __future__ import annotations

import math

from easeml_core.catalog import Candidate, Choice, ModelFacts, Size, Space
from easeml_core.language import CLASSIFICATION, Template

TREES = 100

MATRIX = Template(
    id="matrix-classification",
    input="{[Tensor[A, B]], []}",
    output="{[Tensor[D]], []}",
    workload="classification of matrices",
    models=("ExtraTrees",),
    objectives=CLASSIFICATION,
    reads_like="vector-classification",  # a matrix comes as a row of A × B numbers
)


def _forward(size: Size) -> float:
    return 20.0 * TREES * math.log2(size.n_train + 1)


def _weights(size: Size) -> float:
    return float(TREES * size.n_train * size.outputs)


def _fit(size: Size) -> float:
    levels = math.log2(size.n_train + 1)
    return TREES * (4e6 + 5 * math.sqrt(size.values) * size.n_train * levels * size.outputs**0.1)


EXTRA_TREES = Candidate(
    ModelFacts(
        name="ExtraTrees",
        framework="sklearn",
        family="trees",
        year=2006,
        citations=9_000,
        depth=14,
        expected={"vector-classification": 0.80, "vector-regression": 0.46, "matrix-classification": 0.75},
        reason="a little below random forests (Fernández-Delgado et al. 2014)",
        description="trees whose splits are drawn at random: quick to fit, and smooth",
        forward=_forward,
        weights=_weights,
        fit=_fit,
        search=Space(min_samples_leaf=Choice(1, 3)),
    ),
    build="easeml_extra_trees.models:extra_trees",
)
