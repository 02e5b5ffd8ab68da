"""The processes that train one network together, each on a device of its own: data-parallel training.

Every process takes its share of each batch, and the gradients are added up before each step, so that a step
is the same as that of one process with the whole batch; only batch normalisation sees the smaller share.
A group of one does nothing of the kind.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist
from torch import Tensor, nn

from training.examples import Indices

_SMALLEST_SHARE = 2  # examples; batch normalisation cannot train on one


@dataclass(frozen=True, slots=True)
class Group:
    """This process's place among `size` ones; `rank` 0 leads: it logs, checkpoints and packages."""

    rank: int = 0
    size: int = 1
    pids: tuple[int, ...] = ()  # of all, by rank

    @property
    def leads(self) -> bool:
        """Whether this process is the one that writes."""
        return self.rank == 0

    def share(self, indices: Indices) -> Indices:
        """This process's part of a batch; those of a small batch go to the first processes."""
        if self.size == 1:
            return indices
        parts = max(min(self.size, len(indices) // _SMALLEST_SHARE), 1)
        if self.rank >= parts:
            return indices[:0]
        return np.array_split(indices, parts)[self.rank]

    def add_gradients(self, parameters: list[nn.Parameter]) -> None:
        """Replace every gradient by its sum over the processes."""
        if self.size == 1:
            return
        trained = [p for p in parameters if p.requires_grad]
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in trained]
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        dist.all_reduce(flat)
        for parameter, part in zip(trained, flat.split([p.numel() for p in trained]), strict=True):
            parameter.grad = part.view_as(parameter)

    def average_statistics(self, network: nn.Module) -> None:
        """Replace what batch normalisation has seen by the mean over the processes."""
        if self.size == 1:
            return
        for name, buffer in network.named_buffers():
            if name.endswith(("running_mean", "running_var")):
                dist.all_reduce(buffer)
                buffer /= self.size

    def add(self, value: Tensor) -> Tensor:
        """The sum of a tensor over the processes."""
        if self.size > 1:
            dist.all_reduce(value)
        return value

    def gather(self, part: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The parts of all processes, one after the other."""
        if self.size == 1:
            return part
        parts: list[Any] = [None] * self.size
        dist.all_gather_object(parts, part)
        return np.concatenate([each for each in parts if len(each)])

    def end_others(self) -> None:
        """End the processes that still wait for this one, which has its result."""
        for pid in self.pids[self.rank + 1 :]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def wait(self) -> None:
        """Wait until every process is here."""
        if self.size > 1:
            dist.barrier()
