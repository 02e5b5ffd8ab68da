"""A few numbers that stand for an example, whatever its kind: to compare examples, not to train on.

N examples chosen, D features each.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from easeml_core.catalog.normalise import HIGH_DYNAMIC_RANGE
from easeml_core.data.version import Version, VersionFacts

_SIDE = 16  # larger images are averaged down to this many pixels a side
_STEPS = 32  # at which a series is looked at
_COLUMNS = 4096  # features at most; of more, so many at equal distances
_CHUNK = 64 << 20  # bytes in memory at once


def features(version: Version, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """(N, D) for the examples at `positions`.

    Pixels of an image made small (on the scale of `orders`), the numbers of a vector, a series at equally
    spaced steps and its length, the means and deviations over the nodes of a tree, how often each byte is in
    an object.
    """
    read = max(1, _CHUNK // (bytes_of_one(version) + 1))
    chunks = [positions[start : start + read] for start in range(0, len(positions), read)]
    parts = [_read(version, chunk) for chunk in chunks]
    return np.concatenate(parts) if parts else np.zeros((0, 1), dtype=np.float32)


def orders(values: npt.ArrayLike, facts: VersionFacts) -> npt.NDArray[np.float32]:
    """`values` of an image as they are, or, where those of the data version span many orders of magnitude, on
    a scale on which each order counts the same: the sign stays, and so does zero."""
    given = np.asarray(values, dtype=np.float32)
    if facts.dynamic_range < HIGH_DYNAMIC_RANGE:
        return given
    smallest = max(abs(facts.low), abs(facts.high)) / facts.dynamic_range
    return np.arcsinh(np.divide(given, smallest, dtype=np.float64)).astype(np.float32)


def bytes_of_one(version: Version) -> int:
    """Bytes of an example as float32, on average."""
    facts = version.facts
    return int(4 * np.prod(facts.shape, dtype=np.float64) * max(1.0, facts.mean_length))


def _read(version: Version, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    if version.facts.kind == "image":
        found = _shrunk(orders(version.inputs[positions], version.facts))
    elif version.facts.kind == "vector":
        found = np.asarray(version.inputs[positions], dtype=np.float32)
    else:
        found = np.stack([_summary(version, i) for i in positions.tolist()])
    step = -(-found.shape[1] // _COLUMNS)
    return found[:, ::step]


def _summary(version: Version, position: int) -> npt.NDArray[np.float32]:
    start, end = version.offsets[position : position + 2].tolist()
    values = np.asarray(version.values[start:end])
    if version.facts.kind == "series":
        return _sampled(values)
    return _counted(values) if version.facts.kind == "bytes" else _moments(values)


def _shrunk(images: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """(N, H, W, C) with blocks of pixels averaged, flattened."""
    for axis in (1, 2):
        size = images.shape[axis]
        if size > _SIDE:
            starts = np.linspace(0, size, _SIDE, endpoint=False).astype(np.int64)
            widths = np.diff([*starts, size]).astype(np.float32)
            shape = [1, 1, 1, 1]
            shape[axis] = _SIDE
            sums = np.add.reduceat(images, starts, axis=axis)
            images = (sums / widths.reshape(shape)).astype(np.float32)
    return np.ascontiguousarray(images.reshape(len(images), -1), dtype=np.float32)


def _sampled(steps: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    steps = steps[:, :: -(-steps.shape[1] // (_COLUMNS // _STEPS))]
    at = np.linspace(0, len(steps) - 1, _STEPS)
    columns = [np.interp(at, np.arange(len(steps)), steps[:, d]) for d in range(steps.shape[1])]
    return np.concatenate([*columns, [len(steps)]]).astype(np.float32)


def _counted(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    counts = np.bincount(values.reshape(-1).astype(np.int64), minlength=256)
    return counts.astype(np.float32) / np.float32(len(values))


def _moments(nodes: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    return np.concatenate([nodes.mean(axis=0), nodes.std(axis=0), [len(nodes)]]).astype(np.float32)
