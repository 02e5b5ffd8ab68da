"""Where a trainer computes, and what makes its computation repeatable."""

from __future__ import annotations

import random

import numpy as np
import threadpoolctl
import torch

from easeml_core.errors import OperatorError
from easeml_core.naming import cuda_index


def resolve(name: str) -> torch.device:
    """The torch device of an ease.ml device: `gpuN` or `gpuN_host` is CUDA device N, else the CPU.

    Raises OperatorError where there is no such CUDA device.
    """
    index = cuda_index(name)
    if index is None:
        return torch.device("cpu")
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if index >= count:
        raise OperatorError(f"device {name} is not there: CUDA sees {count} GPUs on this host")
    return torch.device("cuda", index)


def use_threads(count: int) -> None:
    """Use `count` CPU threads, in torch and in the native libraries of numpy and scikit-learn."""
    torch.set_num_threads(count)
    threadpoolctl.threadpool_limits(count)


def seed_everything(seed: int) -> None:
    """Seed every generator; a forked trainer would otherwise repeat its parent's random numbers."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # scikit-learn falls back to it
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True, warn_only=True)
