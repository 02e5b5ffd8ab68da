"""Small files that must be whole and private: written aside, renamed, readable by the owner only."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def write_private(path: Path, value: Any) -> None:
    """Write `value` as JSON, mode 0600; a reader sees the old file or the new one, never half of one."""
    aside = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(value, file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


def read_json(path: Path, default: Any = None) -> Any:
    """The JSON in `path`, or `default` when there is no such file."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return default


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on `path`; waits for whoever holds it. The kernel frees it if we die."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
