"""What a scan of the bucket sees: entries, grouped into listings.

A *key* is a path inside the bucket, a *prefix* the key of a folder. Sizes are bytes, times are seconds
since the epoch.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from operator import attrgetter

from easeml_core.errors import Problem

# A mount tool or editor may create an empty file first and fill it later; such a listing waits longer.
EMPTY_FILE_PATIENCE = 10


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """One object. `tag` changes whenever the content may have: an etag, or times and inode of a file."""

    key: str
    size: int
    tag: str
    modified: float = 0.0


class Kind(StrEnum):
    """What a listing is for."""

    TASK = "task"  # <tenant>/<task>: task.yaml, data/, refine.csv
    INFER = "infer"  # <tenant>/<task>/infer/<request>
    CONTROL = "control"  # <tenant>/<task>/control.json


@dataclass(frozen=True)
class Listing:
    """The files of one prefix that count as its upload, and what is wrong or unfinished about them.

    `folders` are empty folders (a class folder without files must be reported, not overlooked);
    `unfinished` are names that upload tools give to files still being written; `ignored` are files that
    mean nothing to the service and leftovers that nobody meant to upload; `unanswered` those of them that
    would be requests, had they another name; `problems` name links and unsafe names.
    """

    prefix: str
    kind: Kind
    entries: tuple[Entry, ...]
    folders: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()
    unanswered: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    marked: bool = field(default=False, compare=False)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over (key, size, tag) of every file and the names of all that the tenant is told of."""
        return fingerprint(self.entries, (*self.folders, *self.unfinished, *self.unanswered))

    @cached_property
    def data_fingerprint(self) -> str:
        """The same over what a data version is made of: everything but the spec."""
        spec = f"{self.prefix}/task.yaml"
        return fingerprint([e for e in self.entries if e.key != spec], self.folders)

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return sum(entry.size for entry in self.entries)

    def names(self) -> list[str]:
        """Keys of the files relative to the prefix (to the folder, for a control file)."""
        if self.kind is Kind.CONTROL:
            return [entry.key.rpartition("/")[2] for entry in self.entries]
        return [entry.key[len(self.prefix) + 1 :] for entry in self.entries]

    def settle_seconds(self, seconds: float) -> float:
        """How long this listing must stay unchanged to count as complete; 0 with a `_READY` marker.

        An empty or unfinished file makes the wait `EMPTY_FILE_PATIENCE` times longer; with an unfinished
        one all that may be done then is to say that it is waited for.
        """
        if self.marked:
            return 0.0
        patient = bool(self.unfinished) or any(entry.size == 0 for entry in self.entries)
        return seconds * EMPTY_FILE_PATIENCE if patient else seconds

    @property
    def waits_for(self) -> tuple[str, ...]:
        """Unfinished files that keep this listing from being complete."""
        return () if self.marked else self.unfinished


@dataclass(frozen=True, slots=True)
class Stray:
    """Files outside any task's folder, or in one whose name is not an id. `folder` is where to say so."""

    folder: str
    problem: Problem


@dataclass(frozen=True)
class Scan:
    """One look at the whole bucket."""

    listings: dict[str, Listing]
    strays: tuple[Stray, ...] = ()


def fingerprint(entries: tuple[Entry, ...] | list[Entry], names: tuple[str, ...] = ()) -> str:
    """SHA-256, hexadecimal, of what was listed."""
    digest = hashlib.sha256()
    for entry in sorted(entries, key=attrgetter("key")):
        digest.update(f"{entry.key}\0{entry.size}\0{entry.tag}\n".encode("utf-8", "surrogateescape"))
    for name in sorted(names):
        digest.update(f"{name}\0\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
