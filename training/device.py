"""Where a trainer computes, and what makes its computation repeatable."""

from __future__ import annotations

import random

import numpy as np
import threadpoolctl
import torch

from easeml_core.errors import OperatorError
from easeml_core.naming import cuda_index


def resolve(name: str, rank: int = 0) -> torch.device:
    """The torch device of process `rank` on an ease.ml device (`naming.cuda_index`): CUDA or the CPU.

    Raises OperatorError where there is no such CUDA device.
    """
    first = cuda_index(name)
    if first is None:
        return torch.device("cpu")
    index = first + rank
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if index >= count:
        raise OperatorError(f"device {name} is not there: CUDA sees {count} GPUs on this host")
    return torch.device("cuda", index)


def use_threads(count: int) -> None:
    """Use `count` CPU threads, in torch and in the native libraries of numpy and scikit-learn."""
    torch.set_num_threads(count)
    threadpoolctl.threadpool_limits(count)


def seed_torch(seed: int, device: torch.device) -> None:
    """Seed the generators that a network on `device` draws from.

    `torch.manual_seed` also notes down the seed for the CUDA that was never touched, with a stack trace, each
    time: an epoch of a small network takes no longer.
    """
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.default_generators[device.index].manual_seed(seed)


def seed_everything(seed: int) -> None:
    """Seed every generator; a forked trainer would otherwise repeat its parent's random numbers."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # scikit-learn falls back to it
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True, warn_only=True)
