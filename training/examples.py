"""The examples of a data version as the arrays a model sees: float32, raw units, by index.

Shapes: images `(N, H, W, C)`; vectors `(N, D)`; series `(N, T, D)`, trees `(N, T, A + R)` (features of a
node, then where its children are) and bytes `(N, T, 1)`, with T the longest of the batch and NaN after the
end of the shorter ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from easeml_core.data import Version, VersionFacts

Floats = npt.NDArray[np.float32]
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Examples:
    """Inputs and targets of an opened data version; arrays stay memory-mapped."""

    version: Version

    @property
    def facts(self) -> VersionFacts:
        """What `version.json` says."""
        return self.version.facts

    @property
    def is_classification(self) -> bool:
        """Whether targets are classes."""
        return self.facts.task_kind == "classification"

    def inputs(self, indices: Indices) -> Floats:
        """The inputs at `indices`, copied out of the memory map."""
        version = self.version
        if self.facts.kind in ("image", "vector"):
            return np.asarray(version.inputs[indices], dtype=np.float32)
        children = version.children if self.facts.kind == "tree" else None
        return padded(version.values, version.offsets, indices, children)

    def targets(self, indices: Indices) -> npt.NDArray[np.generic]:
        """The targets at `indices`: int64 `(N,)` classes, float32 `(N, K)` values or `(N, D, E, F)` images,
        or float32 `(N, T, D)` steps or bytes to answer with, padded as inputs are."""
        if self.facts.task_kind in ("classification", "regression"):
            return np.asarray(self.version.targets[indices])
        if self.facts.kind == "image":
            return np.asarray(self.version.targets[indices], dtype=np.float32)
        return padded(self.version.target_values, self.version.target_offsets, indices)

    def sample(self, indices: Indices, count: int) -> Indices:
        """At most `count` of `indices`, evenly spread: the same ones every time."""
        if len(indices) <= count:
            return indices
        return indices[np.linspace(0, len(indices) - 1, count).astype(np.int64)]


def padded(
    values: npt.NDArray[Any],
    offsets: npt.NDArray[np.int64],
    indices: Indices,
    children: npt.NDArray[np.int64] | None = None,
) -> Floats:
    """Rows `values[offsets[i]:offsets[i + 1]]` for each of `indices`, as one array with NaN after each end.

    `children` are further columns.
    """
    starts, ends = offsets[indices], offsets[indices + 1]
    longest = max(int((ends - starts).max(initial=0)), 1)
    values = np.asarray(values)  # a slice of a memory map takes forty times as long as one of an array
    width = values.shape[1]
    if children is not None:
        children = np.asarray(children)
    columns = width + (0 if children is None else children.shape[1])
    batch = np.full((len(indices), longest, columns), np.nan, dtype=np.float32)
    for row, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        batch[row, : end - start, :width] = values[start:end]
        if children is not None:
            batch[row, : end - start, width:] = children[start:end]
    return batch


def batches(indices: Indices, size: int, generator: np.random.Generator | None = None) -> list[Indices]:
    """`indices` in batches, shuffled when a generator is given.

    A last batch of one example joins the batch before it: batch normalisation cannot train on one.
    """
    order = indices if generator is None else generator.permutation(indices)
    cut = [order[start : start + size] for start in range(0, len(order), size)]
    if generator is not None and len(cut) > 1 and len(cut[-1]) == 1:
        last = cut.pop()
        cut[-1] = np.concatenate([cut[-1], last])
    return cut
