"""How far the numbers of a data version reach."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_SAMPLE = 1_000_000


class Spread:
    """Lowest and highest value, and how far the magnitudes lie apart, from a bounded sample."""

    def __init__(self) -> None:
        self.low, self.high = float("inf"), float("-inf")
        self._sample: list[npt.NDArray[np.float32]] = []
        self._kept = 0
        self._stride = 1
        self._seen = 0

    def add(self, value: npt.NDArray[Any]) -> None:
        """Take the numbers of one example into account."""
        self.low = min(self.low, float(value.min()))
        self.high = max(self.high, float(value.max()))
        self._seen += 1
        if self._seen % self._stride:
            return
        flat = value.reshape(-1)
        part = np.abs(flat[:: max(1, flat.size // 4096)].astype(np.float32))
        self._sample.append(part)
        self._kept += part.size
        if self._kept > _SAMPLE:
            # Keep every second example from now on, and of those kept so far.
            self._sample = self._sample[::2]
            self._kept = sum(p.size for p in self._sample)
            self._stride *= 2

    def dynamic_range(self) -> float:
        """Largest magnitude over the 1st percentile of those that are not zero; at least 1."""
        if not self._sample:
            return 1.0
        sample = np.concatenate(self._sample)
        positive = sample[sample > 0]
        if not positive.size:
            return 1.0
        largest = max(abs(self.low), abs(self.high))
        return max(1.0, largest / float(np.percentile(positive, 1)))
