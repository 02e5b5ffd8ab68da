"""Fixed orders: what users did before there was an allocator (ease.ml, section 1.9)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from easeml_core.allocator.board import Board, TaskView
from easeml_core.allocator.gp import Posterior
from easeml_core.allocator.types import Array

# Recovered from the authors' published result files; where those leave a choice, by date of publication.
MOST_CITED = (
    "AlexNet",
    "VGG-16",
    "VGG-19",
    "GoogLeNet",
    "ResNet-50",
    "ResNet-18",
    "BN-AlexNet",
    "NIN",
    "SqueezeNet",
)
MOST_RECENT = (
    "SqueezeNet",
    "BN-AlexNet",
    "ResNet-50",
    "ResNet-18",
    "VGG-16",
    "VGG-19",
    "GoogLeNet",
    "NIN",
    "AlexNet",
)


@dataclass(frozen=True)
class FixedOrder:
    """The first of `order` that is left; arms that are not in it come last, by name. Believes nothing."""

    name: str
    order: tuple[str, ...]

    def scores(self, view: TaskView, board: Board) -> Array:
        """Minus the place in the order."""
        place = {arm: number for number, arm in enumerate(self.order)}
        return -np.array([float(place.get(name, len(place))) for name in view.names])

    def belief(self, view: TaskView) -> Posterior:
        """The prior as it was given."""
        return view.prior

    def why(self, view: TaskView, arm: int, score: float) -> str:
        """The place in the order."""
        return f"{view.names[arm]} is the next of the fixed order {self.name}"
