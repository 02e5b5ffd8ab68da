"""Rows of varying length that lie in one array, one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Ragged:
    """Row i is `values[offsets[i]:offsets[i + 1]]`; `values` (total, D), `offsets` (N + 1,) int64."""

    values: npt.NDArray[Any]
    offsets: npt.NDArray[np.int64]

    @classmethod
    def of(cls, values: npt.NDArray[Any], offsets: npt.NDArray[Any]) -> Ragged:
        """Take arrays that a tenant wrote. Raises ValueError with what is wrong with the offsets."""
        total = len(values)
        if offsets.ndim != 1 or offsets.dtype.kind not in "iu" or len(offsets) < 2:
            raise ValueError(
                f"must be whole numbers, one more than examples; got {offsets.dtype} {offsets.shape}"
            )
        if offsets[0] != 0 or offsets[-1] != total:
            raise ValueError(f"must begin with 0 and end with {total}; got {offsets[0]} and {offsets[-1]}")
        if (offsets[1:] < offsets[:-1]).any():
            raise ValueError("must not fall")
        return cls(values[:, None] if values.ndim == 1 else values, offsets.astype(np.int64))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> npt.NDArray[Any]:
        return self.values[self.offsets[row] : self.offsets[row + 1]]
