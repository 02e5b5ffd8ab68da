"""Classifiers of trees. `mean_length` is in nodes; trees are taken to be `LEVELS` high, with two children."""

from __future__ import annotations

from collections.abc import Callable

from easeml_core.catalog.facts import ModelFacts, Size
from easeml_core.catalog.series import HIDDEN, SEARCH
from easeml_core.catalog.space import Choice, Space

TEMPLATE = "tree-classification"
LEVELS, CHILDREN = 8, 2
BUCKETS = 8192  # of hashed subtrees


def _weights(places: int) -> Callable[[Size], float]:
    def weights(size: Size) -> float:
        node = 4 * HIDDEN * (size.values + 1.0)
        return node + HIDDEN**2 * (3.0 * places + places**2) + (2.0 * HIDDEN + 1) * size.outputs

    return weights


def _forward(places: int) -> Callable[[Size], float]:
    """The forget gates are computed for each child, whether or not it has weights of its own."""
    forgets = places**2 if places > 1 else CHILDREN

    def forward(size: Size) -> float:
        node = 8.0 * HIDDEN * size.values + 2.0 * LEVELS * HIDDEN**2 * (3 * places + forgets)
        return node * size.mean_length + 4.0 * HIDDEN * size.outputs

    return forward


def _kernel_forward(size: Size) -> float:
    return 2.0 * BUCKETS * size.outputs + 100.0 * size.mean_length * (size.values + 10)


def _kernel_fit(size: Size) -> float:
    """Features once, and six linear machines per class on some three numbers per node."""
    machines = 6 * size.outputs * 1000.0 * 3 * size.mean_length
    return size.n_train * (_kernel_forward(size) + machines) + 1e6


TREE_MODELS = (
    ModelFacts(
        name="Tree-LSTM",
        framework="torch",
        family="recurrent",
        year=2015,
        citations=4_000,
        depth=3,
        expected={TEMPLATE: 0.70},
        reason="order of Tai et al. 2015, tables 2 and 3; level assumed",
        description="an LSTM from the leaves to the root; children are summed",
        forward=_forward(1),
        weights=_weights(1),
        search=SEARCH,
        epochs=30,
        batch_size=32,
        patience=10,
    ),
    ModelFacts(
        name="Tree-LSTM-binary",
        framework="torch",
        family="recurrent",
        year=2015,
        citations=4_000,
        depth=3,
        expected={TEMPLATE: 0.71},
        reason="order of Tai et al. 2015, tables 2 and 3; level assumed",
        description="the same, with weights of its own for each child",
        forward=_forward(CHILDREN),
        weights=_weights(CHILDREN),
        search=SEARCH,
        epochs=30,
        batch_size=32,
        patience=10,
    ),
    ModelFacts(
        name="tree-kernel-SVM",
        framework="torch",
        family="kernel",
        year=2011,
        citations=3_000,
        depth=2,
        expected={TEMPLATE: 0.69},
        reason="beside Tree-LSTMs where small parts of a tree tell (Shervashidze 2011); level assumed",
        description="a support-vector machine on how often each small subtree occurs",
        forward=_kernel_forward,
        weights=lambda size: (BUCKETS + 1.0) * size.outputs,
        search=Space(C=Choice(1.0, 10.0)),
        fit=_kernel_fit,
    ),
)
