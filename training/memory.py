"""How much memory a trainer uses, may use, and how running out of it looks."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

# What torch's allocators, C++, oneDNN (no scratch space) and threads (no room for a stack) say.
_SIGNS = (
    "can't allocate memory", "not enough memory", "out of memory", "bad_alloc",
    "could not create a primitive", "Resource temporarily unavailable",
)  # fmt: skip


def peak_memory_bytes() -> int:
    """Largest resident set of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@contextmanager
def limited_memory(limit: int | None) -> Iterator[None]:
    """Let this process take at most `limit` bytes more than it has now, within the block.

    What counts is what the kernel counts as data: memory that is this process's own and can be written to.
    The address space says nothing about use: the libraries map gigabytes that they never touch, and CUDA
    reserves some hundred. Outside the block there is none, for telling how it ended takes memory too.
    """
    if limit is None:
        yield
        return
    before, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = _data_bytes() + limit
    resource.setrlimit(resource.RLIMIT_DATA, (wanted if hard < 0 else min(wanted, hard), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (before, hard))


def _data_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory, of the host or of the GPU, ran out."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and any(sign in text for sign in _SIGNS)
