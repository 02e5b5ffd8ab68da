"""An immutable data version on disk, and how to open it.

```
version.json       a `VersionFacts`; its presence means that the folder is complete
inputs.npy         images (N, H, W, C) uint8 or float32, vectors (N, D) float32
values.npy         anything longer instead, one example after the other: steps of series and nodes of trees
                   (total, D) float32, bytes (total, 1) uint8
offsets.npy        (N + 1,) int64; example i is values[offsets[i]:offsets[i + 1]]
children.npy       trees: (total nodes, R) int64, position of each child within its tree, -1 for none; the
                   root comes first and every child after its parent
targets.npy        (N,) int64 class numbers, (N, K) float32 values, or images (N, D, E, F) to recover
target_values.npy  series or bytes to answer with: as values.npy, and target_offsets.npy as offsets.npy;
target_offsets.npy both are missing where bytes are to be recovered as they are
train.npy val.npy  int64 positions of the kept examples of each split
manifest.parquet   per example: id, content hash, label, split, kept
```
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from easeml_core.data.forms import Kind, TaskKind
from easeml_core.errors import OperatorError

FACTS = "version.json"
MANIFEST = "manifest.parquet"
# Part of every digest: raise it when the same upload would be staged in another way.
FORMAT = 3


class VersionFacts(BaseModel):
    """What is known of a data version (`version.json`), JSON-ready. Raw units: see `easeml_core.data`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    digest: str = Field(description="SHA-256 over content, labels, split, what is kept, shape and classes")
    kind: Kind = Field(description="of the inputs")
    task_kind: TaskKind
    shape: tuple[int, ...] = Field(description="(H, W, C), or (D,): of a series per step, of a tree per node")
    dtype: str = Field(description="of the stored inputs: uint8 or float32")
    n: int = Field(description="examples, those switched off included")
    n_train: int
    n_val: int
    n_switched_off: int = 0
    classes: tuple[str, ...] | None = Field(None, description="names in order of class number")
    class_counts: tuple[int, ...] | None = Field(None, description="kept examples per class")
    outputs: int = Field(description="K of the program's Tensor[K]; numbers per recovered image or step")
    target_shape: tuple[int, ...] | None = Field(
        None, description="of an image to recover (D, E, F), of a step to answer with (D,)"
    )
    target_low: float | None = Field(None, description="lowest number of what is to be recovered")
    target_high: float | None = None
    target_max_length: int | None = Field(None, description="of an answer, in steps or bytes")
    program: str | None = Field(
        None, description="in canonical text, where readers need the names of its tensors and links"
    )
    low: float
    high: float
    white: float | None = Field(None, description="of images: the number that is white, where that is known")
    dynamic_range: float = Field(description="largest magnitude over the 1st percentile of those not zero")
    max_length: int | None = Field(None, description="in steps, nodes or bytes")
    mean_length: float = 1.0
    sizes: dict[str, int] = Field(
        default_factory=dict, description="images by height × width as they came, the most frequent ones"
    )
    near_duplicates: list[tuple[str, str]] = Field(
        default_factory=list, description="validation and training examples that are nearly the same"
    )
    reference: dict[str, float] = Field(
        default_factory=dict, description="validation error of the constant predictor, per error objective"
    )
    converted: dict[str, Any] = Field(default_factory=dict, description="what was changed on reading")
    quarantined: list[dict[str, str]] = Field(
        default_factory=list, description="file and reason, the first ones"
    )
    n_quarantined: int = 0
    dropped: list[str] = Field(default_factory=list)
    warnings: list[str] = Field(default_factory=list)
    validation_fraction: float
    validation_seed: int
    parent: str | None = Field(None, description="digest of the version it grew out of")


class Version:
    """An opened data version: `facts`, and arrays mapped from disk on first use."""

    def __init__(self, folder: Path, facts: VersionFacts) -> None:
        self.folder = folder
        self.facts = facts

    def _load(self, name: str) -> npt.NDArray[Any]:
        array: npt.NDArray[Any] = np.load(self.folder / name, mmap_mode="r", allow_pickle=False)
        return array

    @cached_property
    def inputs(self) -> npt.NDArray[Any]:
        """(N, H, W, C) uint8 or float32, or (N, D) float32. Only images and vectors have it."""
        return self._load("inputs.npy")

    @cached_property
    def values(self) -> npt.NDArray[Any]:
        """(total, D): steps of all series or nodes of all trees, float32, or bytes (total, 1) uint8."""
        return self._load("values.npy")

    @cached_property
    def offsets(self) -> npt.NDArray[np.int64]:
        """(N + 1,): example i is `values[offsets[i]:offsets[i + 1]]`."""
        return self._load("offsets.npy")

    @cached_property
    def children(self) -> npt.NDArray[np.int64]:
        """(total nodes, R) of trees: where in its tree each child of a node is, -1 for none.

        Rows go with those of `values`. The first node of a tree is its root, and a child comes after its
        parent, so that going through a tree backwards meets every child before its parent.
        """
        return self._load("children.npy")

    @cached_property
    def targets(self) -> npt.NDArray[Any]:
        """(N,) int64 class numbers, (N, K) float32 values to predict, or images to recover (N, D, E, F) of
        the inputs' dtype. Series and bytes to answer with are in `target_values`."""
        return self._load("targets.npy")

    @cached_property
    def target_values(self) -> npt.NDArray[Any]:
        """(total, D): steps of all series to answer with, float32, or bytes (total, 1) uint8.

        The inputs themselves where those are to be recovered as they are.
        """
        return self._load("target_values.npy") if self._has_targets else self.values

    @cached_property
    def target_offsets(self) -> npt.NDArray[np.int64]:
        """(N + 1,): the answer of example i is `target_values[target_offsets[i]:target_offsets[i + 1]]`."""
        return self._load("target_offsets.npy") if self._has_targets else self.offsets

    @property
    def _has_targets(self) -> bool:
        return (self.folder / "target_values.npy").exists()

    @cached_property
    def train(self) -> npt.NDArray[np.int64]:
        """Positions of the examples to train on."""
        return self._load("train.npy")

    @cached_property
    def val(self) -> npt.NDArray[np.int64]:
        """Positions of the examples to validate on."""
        return self._load("val.npy")

    @cached_property
    def manifest(self) -> dict[str, list[Any]]:
        """Columns id, content, label, split, kept; one entry per example."""
        import pyarrow.parquet as pq

        columns: dict[str, list[Any]] = pq.read_table(self.folder / MANIFEST).to_pydict()
        return columns

    @property
    def ids(self) -> list[str]:
        """Ids of the examples, in order."""
        return self.manifest["id"]


def open_version(folder: Path | str) -> Version:
    """Open a staged data version. Raises `OperatorError` where there is no complete one or its facts are
    broken; `intact` looks at the arrays."""
    path = Path(folder) / FACTS
    try:
        return Version(Path(folder), VersionFacts.model_validate_json(path.read_bytes()))
    except FileNotFoundError as error:
        raise OperatorError(f"there is no data version in {folder}") from error
    except ValidationError as error:
        raise OperatorError(f"the data version in {folder} is broken: {path.name} cannot be read") from error
