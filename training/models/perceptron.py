"""The multi-layer perceptron over flat vectors."""

from __future__ import annotations

from torch import nn


def mlp(features: int, hidden: int, outputs: int) -> nn.Module:
    """Two hidden layers of `hidden` units with batch normalisation: `(N, D)` → `(N, K)`."""
    return nn.Sequential(
        nn.Linear(features, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Dropout(0.1),
        nn.Linear(hidden, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Dropout(0.1),
        nn.Linear(hidden, outputs),
    )  # fmt: skip
