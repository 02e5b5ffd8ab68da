"""The programs' logs: the last lines, and what comes after them."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

_POLL_SECONDS = 0.2


def tail(path: Path, lines: int) -> list[str]:
    """The last `lines` lines; none when there is no such file."""
    try:
        with path.open(errors="replace") as file:
            return [line.rstrip("\n") for line in deque(file, maxlen=lines)]
    except FileNotFoundError:
        return []


def follow(path: Path, lines: int) -> Iterator[str]:
    """The last `lines` lines, then each new one as it comes, for ever; survives the log's rotation."""
    while not path.exists():
        time.sleep(_POLL_SECONDS)
    file = path.open(errors="replace")
    try:
        yield from (line.rstrip("\n") for line in deque(file, maxlen=lines))
        part = ""
        while True:
            part += file.readline()
            if part.endswith("\n"):
                yield part.rstrip("\n")
                part = ""
            elif path.exists() and os.fstat(file.fileno()).st_ino != path.stat().st_ino:
                file.close()
                file = path.open(errors="replace")
            else:
                time.sleep(_POLL_SECONDS)
    finally:
        file.close()
