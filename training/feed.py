"""Batches of examples as tensors on the device, so that computing does not wait for them.

On the CPU a batch is gathered from the memory map when its turn comes: the cores have nothing else to do
meanwhile. For a GPU, data that fit easily are put into its memory once and gathered there; else a thread
gathers the next batches into pinned memory while the GPU computes.
"""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from training.examples import Examples, Indices

AHEAD = 2  # batches gathered in advance
RESIDENT_SHARE = 0.25  # of the GPU's free memory that the data may take

Batch = tuple[Tensor, Tensor]


class Feed:
    """Gathers inputs (float32, raw units) and targets by index. `resident`, whether all data go to the
    device, is told by their size where it is None."""

    def __init__(self, examples: Examples, device: torch.device, *, resident: bool | None = None) -> None:
        self.examples, self.device = examples, device
        self._all: Batch | None = None
        facts, version = examples.facts, examples.version
        if facts.kind in ("image", "vector") and facts.task_kind in ("classification", "regression"):
            inputs, targets = np.asarray(version.inputs), np.asarray(version.targets)
            if self._fits(inputs.nbytes) if resident is None else resident:
                self._all = _tensor(inputs).to(device), _tensor(targets).to(device)

    def batches(self, plan: Iterable[Indices]) -> Iterator[Batch]:
        """The batch of each array of indices, in order."""
        if self._all is not None:
            inputs, targets = self._all
            for indices in plan:
                where = torch.from_numpy(indices).to(self.device)
                yield inputs[where].float(), targets[where]
        elif self.device.type == "cuda":
            yield from self.gather_ahead(plan)
        else:
            yield from map(self._gather, plan)

    def _gather(self, indices: Indices) -> Batch:
        inputs, targets = self.examples.inputs(indices), self.examples.targets(indices)
        return torch.from_numpy(inputs), torch.from_numpy(targets)

    def _gather_pinned(self, indices: Indices) -> Batch:
        x, y = self._gather(indices)
        return (x.pin_memory(), y.pin_memory()) if self.device.type == "cuda" else (x, y)

    def gather_ahead(self, plan: Iterable[Indices]) -> Iterator[Batch]:
        """The same batches, gathered by a thread of their own."""
        pool = ThreadPoolExecutor(1, thread_name_prefix="feed")
        waiting: deque[Future[Batch]] = deque()
        try:
            for indices in plan:
                waiting.append(pool.submit(self._gather_pinned, indices))
                if len(waiting) > AHEAD:
                    yield self._moved(waiting.popleft())
            while waiting:
                yield self._moved(waiting.popleft())
        finally:
            pool.shutdown(cancel_futures=True)

    def _moved(self, gathered: Future[Batch]) -> Batch:
        x, y = gathered.result()
        return x.to(self.device, non_blocking=True), y.to(self.device, non_blocking=True)

    def _fits(self, size: int) -> bool:
        """Whether `size` bytes are a small part of the device's memory; a memory map takes none."""
        if self.device.type != "cuda":
            return True
        free, _ = torch.cuda.mem_get_info(self.device)
        return bool(size <= RESIDENT_SHARE * free)


def _tensor(array: npt.NDArray[Any]) -> Tensor:
    """A tensor over the same memory, a read-only map mostly; nothing is written to it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)
