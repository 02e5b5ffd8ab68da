"""Finds validation examples that are nearly the same as one to train on: saved again, resized, rounded.

Identical examples are always on one side of the split. A near copy on the other side makes results look
better than they are, so it is named; nothing is moved for it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from easeml_core.data.features import bytes_of_one, features
from easeml_core.data.version import Version

MOST = 100  # pairs that are named
_TRAIN, _VAL = 20_000, 5_000  # examples that are compared at most; of more, a part drawn by chance
_BYTES = 2 << 30  # read at most
_DIMENSIONS = 64
_CHANCE = 1e-4
_CLOSEST = 0.1
_USUAL = 0.9  # quantile of the distances to go by: copies are hardly ever so many
_CHUNK = 512

Pair = tuple[str, str]


def near_duplicates(version: Version) -> list[Pair]:
    """Ids (validation, training) of pairs that lie suspiciously close, closest first, at most `MOST`.

    A pair is suspicious where its distance is below r times the usual distance (the 9th decile) from a
    validation example to its nearest training example, with r = min(0.1, 10^(-4/D)). Of points spread at
    random in D dimensions about a share r^D has so near a neighbour: at most some in 10,000.
    """
    random = np.random.default_rng(0)
    share = min(1.0, _BYTES / (bytes_of_one(version) * (_TRAIN + _VAL)))
    train = _some(version.train, max(1, int(share * _TRAIN)), random)
    val = _some(version.val, max(1, int(share * _VAL)), random)
    fit, held = features(version, train), features(version, val)
    middle, spread = fit.mean(axis=0, dtype=np.float64), fit.std(axis=0, dtype=np.float64)
    varies = spread > 0
    dimensions = int(varies.sum())
    if not dimensions:
        return []
    # Pixels share one unit, so that a border that hardly varies must not weigh as much as the middle.
    scale = spread[varies] if version.facts.kind == "vector" else spread[varies].mean()
    fit, held = (((part[:, varies] - middle[varies]) / scale).astype(np.float32) for part in (fit, held))
    if dimensions > _DIMENSIONS:
        projection = random.standard_normal((dimensions, _DIMENSIONS)).astype(np.float32)
        fit, held = fit @ projection, held @ projection
    nearest, distance = _nearest(held, fit)
    bound = min(_CLOSEST, _CHANCE ** (1 / dimensions)) * float(np.quantile(distance, _USUAL))
    found = [i for i in np.argsort(distance, kind="stable").tolist() if distance[i] < bound][:MOST]
    ids = version.ids if found else []
    return [(ids[int(val[i])], ids[int(train[nearest[i]])]) for i in found]


def _some(positions: npt.NDArray[np.int64], most: int, random: np.random.Generator) -> npt.NDArray[np.int64]:
    if len(positions) <= most:
        return np.asarray(positions)
    return np.sort(random.choice(positions, most, replace=False))


def _nearest(
    held: npt.NDArray[np.float32], fit: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """Of each row of `held` the position of the nearest row of `fit`, and its distance."""
    squares = (fit**2).sum(axis=1)
    parts = [held[start : start + _CHUNK] for start in range(0, len(held), _CHUNK)]
    nearest = np.concatenate([np.argmin(squares - 2 * (part @ fit.T), axis=1) for part in parts])
    # By differences: as a difference of squares, a small distance drowns in rounding.
    return nearest, np.sqrt(((held - fit[nearest]) ** 2).sum(axis=1))
