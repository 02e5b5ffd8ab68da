"""How much memory a trainer uses, may use, and how running out of it looks."""

from __future__ import annotations

import resource
from pathlib import Path

import torch


def peak_memory_bytes() -> int:
    """Largest resident set of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def limit_memory(limit: int | None) -> None:
    """Let this process take at most `limit` bytes more than it has mapped now.

    The libraries alone map several gigabytes that they never touch, so a limit on the whole address space
    would say nothing about the training.
    """
    if limit is None:
        return
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    wanted = mapped + limit
    resource.setrlimit(resource.RLIMIT_AS, (wanted if hard < 0 else min(wanted, hard), hard))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory, of the host or of the GPU, ran out."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and any(
        sign in text for sign in ("can't allocate memory", "not enough memory", "out of memory")
    )
