"""Gives back memory that an idle process holds only because it once read a library's file."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path

_MADV_DONTNEED = 4
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) \S+ \S+ \S+ (\d+)")


def release_file_pages() -> int:
    """Unmap the untouched pages of mapped files from this process; gives the bytes released.

    After importing torch, 0.4 GB of its 1 GB resident are such pages. They stay in the page cache and come
    back with the next access, so forked children pay only for those they use. A mapping of which any page
    was written to (it counts as `Anonymous`) is left alone: its content is nowhere else.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    released = 0
    for block in re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text()):
        mapping = _MAPPING.match(block)
        if mapping is None or mapping[3] == "0":
            continue
        sizes = dict(re.findall(r"(?m)^(Rss|Anonymous|Shared_Dirty|Private_Dirty):\s+(\d+) kB", block))
        if any(sizes.get(name, "1") != "0" for name in ("Anonymous", "Shared_Dirty", "Private_Dirty")):
            continue
        start, end = int(mapping[1], 16), int(mapping[2], 16)
        if libc.madvise(start, end - start, _MADV_DONTNEED) == 0:
            released += int(sizes["Rss"]) * 1024
    return released
