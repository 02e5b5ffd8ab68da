"""The error of answering the same to every example: what an error of a model is measured against.

N examples, of which `train` and `val` are positions; K values to predict, D numbers per step of an answer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from easeml_core.data.staging import OFFSETS, TARGET_OFFSETS, TARGET_VALUES, TARGETS, VALUES

Positions = npt.NDArray[np.int64]
_CHUNK = 256  # images that are in memory at a time
_MEDIAN_FROM = 10_000_000  # numbers that a median is taken over


def of_values(targets: npt.NDArray[Any], train: Positions, val: Positions) -> dict[str, float]:
    """Validation error of always answering the training mean (mse) or median (mae) of `targets` (N, K)."""
    fit, held = targets[train].astype(np.float64), targets[val].astype(np.float64)
    mse = float(np.mean((held - fit.mean(axis=0)) ** 2))
    mae = float(np.mean(np.abs(held - np.median(fit, axis=0))))
    return _positive(mse, mae)


def of_images(folder: Path, train: Positions, val: Positions, low: float, high: float) -> dict[str, float]:
    """As `of_values`, of images to recover scaled to [0, 1]; mean and median are images too."""
    targets = np.load(folder / TARGETS, mmap_mode="r", allow_pickle=False)
    span = max(high - low, 1e-30)

    def scaled(positions: Positions) -> npt.NDArray[np.float64]:
        return (np.asarray(targets[positions], dtype=np.float64) - low) / span

    mean = sum(scaled(part).sum(axis=0) for part in _parts(train)) / len(train)
    fits = max(1, _MEDIAN_FROM // max(1, mean.size))
    median = np.median(scaled(train[:: -(-len(train) // fits)]), axis=0)
    mse = sum(float(((scaled(part) - mean) ** 2).sum()) for part in _parts(val))
    mae = sum(float(np.abs(scaled(part) - median).sum()) for part in _parts(val))
    return _positive(mse / (len(val) * mean.size), mae / (len(val) * mean.size))


def of_steps(folder: Path, train: Positions, val: Positions, scale: float = 1.0) -> dict[str, float]:
    """As `of_values`, over all steps of the answers (over all bytes, with `scale` 255), numbers of a step
    apart. Where there are no answers the inputs are what is to be recovered."""
    own = (folder / TARGET_VALUES).exists()
    values = np.load(folder / (TARGET_VALUES if own else VALUES), mmap_mode="r", allow_pickle=False)
    offsets = np.load(folder / (TARGET_OFFSETS if own else OFFSETS), allow_pickle=False)
    fit = _steps(values, offsets, train)
    mean = fit.mean(axis=0, dtype=np.float64) / scale
    median = np.median(fit[:: -(-fit.size // _MEDIAN_FROM)], axis=0) / scale
    held = _steps(values, offsets, val).astype(np.float64) / scale
    return _positive(float(np.mean((held - mean) ** 2)), float(np.mean(np.abs(held - median))))


def _parts(positions: Positions) -> list[Positions]:
    return [positions[i : i + _CHUNK] for i in range(0, len(positions), _CHUNK)]


def _steps(values: npt.NDArray[Any], offsets: npt.NDArray[Any], positions: Positions) -> npt.NDArray[Any]:
    return np.concatenate([values[offsets[i] : offsets[i + 1]] for i in positions])


def _positive(mse: float, mae: float) -> dict[str, float]:
    """1 stands for an error of 0, which nothing could be compared with."""
    return {"mse": mse or 1.0, "mae": mae or 1.0}
