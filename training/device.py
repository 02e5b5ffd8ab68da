"""Where a trainer computes, and what makes its computation repeatable."""

from __future__ import annotations

import random
import re

import numpy as np
import threadpoolctl
import torch

from easeml_core.errors import OperatorError


def resolve(name: str) -> torch.device:
    """The torch device of an ease.ml device: `gpuN` is CUDA device N, any other name is the CPU.

    Raises OperatorError where `gpuN` does not exist.
    """
    match = re.fullmatch(r"gpu(\d+)", name)
    if match is None:
        return torch.device("cpu")
    index = int(match[1])
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
