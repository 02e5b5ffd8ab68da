"""How much memory the stack takes."""

from __future__ import annotations

import psutil


def memory(pid: int, *, children: bool = True) -> int:
    """Proportional set size (bytes) of a process and, with `children`, all its descendants.

    Shared pages count once, split among those that share them, so the programs' figures add up.
    Processes that end meanwhile count 0.
    """
    total = 0
    try:
        root = psutil.Process(pid)
        processes = [root, *(root.children(recursive=True) if children else ())]
    except psutil.NoSuchProcess:
        return 0
    for process in processes:
        try:
            total += int(process.memory_full_info().pss)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return total
