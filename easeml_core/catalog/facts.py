"""What the catalogue knows of one model: facts only, no weights and no code that trains."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from easeml_core.catalog.halving import epochs_trained, least_epochs
from easeml_core.catalog.space import Choice, Space

PAPER_GRID = Space(learning_rate=Choice(0.1, 0.01, 0.001, 0.0001))
# Where networks learn with AdamW and one cycle: no worse on average than the grid, and sooner
# (benchmarks/rates.py).
ADAMW_BAND = Space(learning_rate=Choice(0.003, 0.001))


@dataclass(frozen=True, slots=True)
class Size:
    """The sizes that a model's cost depends on.

    `shape`: (H, W, C) of an image, (D,) of a vector or of one step of a series. `outputs`: the K of
    `Tensor[K]`. `n_train`: training examples. `mean_length`: steps per series, 1 for anything else.
    """

    shape: tuple[int, ...]
    outputs: int
    n_train: int = 1
    mean_length: float = 1.0

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Size:
        """From the facts of a data version (or any mapping with `shape` and `outputs`)."""
        return cls(
            tuple(facts["shape"]),
            int(facts["outputs"]),
            max(1, int(facts.get("n_train") or 1)),
            max(1.0, float(facts.get("mean_length") or 1.0)),
        )

    @property
    def values(self) -> int:
        """Numbers per example (per step, for a series)."""
        return math.prod(self.shape)


# Of networks whose layers were not counted: the middle of those that were.
_OPERATIONS_PER_NUMBER = 150.0
_CALLS_PER_LAYER = 3.0


@dataclass(frozen=True, slots=True)
class Machine:
    """What training costs beside the operations, in operations that could be done meanwhile.

    `number`: reading and writing a number that a layer gives, forwards and backwards; `weight`: reading a
    weight, and writing it and the optimiser's state, once a step; `call`: starting a layer, once a step.
    """

    number: float
    weight: float
    call: float


# Fitted to steps of 13 image networks at two sizes on one core of a server with AVX-512, within 1.1 (median).
CPU = Machine(number=360.0, weight=1100.0, call=1.4e7)
# From the data sheet of a GPU with 1e14 operations and 3e12 bytes a second, and 40 µs a layer; not measured.
GPU = Machine(number=700.0, weight=900.0, call=4e9)


@dataclass(frozen=True, slots=True)
class NetworkCosts:
    """What training a network costs on examples of some shape, however many there are, in operations.

    A whole trial trains `settings` settings of at most `epochs` epochs, in steps of `batch_size` examples.
    """

    example: float
    step: float
    settings: int
    epochs: int
    batch_size: int

    def work(self, n_train: int) -> float:
        """Operations of a whole trial on so many examples: all epochs of all settings."""
        least = least_epochs(n_train, self.batch_size)
        epoch = n_train * self.example + math.ceil(n_train / self.batch_size) * self.step
        return epochs_trained(self.settings, self.epochs, least) * epoch


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """One candidate model.

    `year` of publication and `citations` (order of magnitude, Google Scholar, 2024) are what the fixed
    orders MOSTRECENT and MOSTCITED go by. `expected` is the quality in [0, 1] believed before any trial, by
    template; `reason` says where it comes from. `search` is the space of hyper-parameters, of which a trial
    tries `max_settings` at most: the paper's grid of learning rates where nothing narrower is known. `epochs`
    is how long the setting that comes out best trains (1 for models that are fitted in one go; the others
    train as long as `halving.rungs` says); training stops early after `patience` epochs without a better
    score. `depth` counts layers with weights (for trees: levels).

    `activations` is how many numbers the layers give for one example and `calls` how many layers run one
    after another for a batch, where they are known; both cost time that the operations do not show.
    `forward` is floating-point operations (FLOPs) per example for one prediction, `fit` those of a whole
    fit with one setting where that is not three times forward × examples × epochs; `weights` is the
    number of trained values. Work that is no dense algebra (sorting, histograms) counts as the FLOPs that
    dense algebra would do in the same time.
    """

    name: str
    framework: Literal["torch", "sklearn"]
    family: Literal[
        "convolutional", "recurrent", "dense", "linear", "trees", "kernel", "neighbours", "attention"
    ]
    year: int
    citations: int
    depth: int
    expected: Mapping[str, float]
    reason: str
    description: str
    forward: Callable[[Size], float]
    weights: Callable[[Size], float]
    search: Space = PAPER_GRID
    max_settings: int = 9
    epochs: int = 1
    batch_size: int = 64
    patience: int = 4
    fit: Callable[[Size], float] | None = None
    activations: Callable[[Size], float] | None = None
    calls: Callable[[Size], float] | None = None

    @property
    def templates(self) -> frozenset[str]:
        """Ids of the template rows that the model can be trained for."""
        return frozenset(self.expected)

    def flops(self, facts: Mapping[str, Any]) -> float:
        """Floating-point operations of one prediction; `facts` as for `Size.of`."""
        return self.forward(Size.of(facts))

    def parameters(self, shape: tuple[int, ...], outputs: int, n_train: int = 1) -> float:
        """Trained values for inputs of `shape`; `n_train` matters to models that keep examples."""
        return self.weights(Size(shape, outputs, n_train))

    @property
    def settings_tried(self) -> int:
        """How many settings of its space a trial tries."""
        return int(min(self.search.size, self.max_settings))

    def work(self, size: Size, machine: Machine = CPU) -> float:
        """Floating-point operations of a whole trial: all epochs of all settings.

        A training step costs about three forward passes: one forward, two backward (Kaplan et al. 2020,
        Scaling laws, section 2.1). What it costs besides counts as the operations that `machine` could do
        meanwhile.
        """
        if self.fit is None:
            return self.network_costs(size, machine).work(size.n_train)
        least = least_epochs(size.n_train, self.batch_size)
        return epochs_trained(self.settings_tried, self.epochs, least) * self.fit(size)

    def network_costs(self, size: Size, machine: Machine = CPU) -> NetworkCosts:
        """What `work` is made of where no `fit` is stated; the same whatever `n_train` is."""
        forward = self.forward(size)
        numbers = self.activations(size) if self.activations else forward / _OPERATIONS_PER_NUMBER
        if self.calls:
            calls = self.calls(size)
        else:
            calls = size.mean_length if self.family == "recurrent" else _CALLS_PER_LAYER * self.depth
        return NetworkCosts(
            example=3 * forward + machine.number * numbers,
            step=machine.weight * self.weights(size) + machine.call * calls,
            settings=self.settings_tried,
            epochs=self.epochs,
            batch_size=self.batch_size,
        )
