"""The few operations that a bucket needs of a place to keep files.

Errors are the same for every store: FileNotFoundError for a key that is not there, `TemporaryError`
when the place is away for now, `OperatorError` when it is configured wrongly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from easeml_core.bucket.entries import Entry

CHUNK = 1 << 20  # bytes of a file that are in memory at once


@dataclass
class Contents:
    """All that lies under a prefix: files, empty folders, links, which are never followed, and `leftovers`,
    files and folders that nobody meant to upload, of which nothing else is listed."""

    entries: list[Entry] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)


class Store(Protocol):
    """Where the bucket's objects lie. Keys are relative to the bucket's root."""

    def contents(self, prefix: str = "") -> Contents:
        """Everything under `prefix`; nothing where it does not exist."""
        ...

    def read(self, key: str, limit: int) -> bytes:
        """Content of `key`, at most `limit` bytes of it."""
        ...

    def chunks(self, key: str) -> Iterator[bytes]:
        """Content of `key`, piece by piece; never all of it is in memory."""
        ...

    def write(self, key: str, content: bytes) -> None:
        """Put `content` at `key`; a reader sees the old object or the new one, never a part."""
        ...

    def put(self, key: str, path: Path) -> None:
        """Like `write`, of a local file of any size, which is never in memory as a whole."""
        ...

    def delete(self, key: str) -> None:
        """Remove `key`; nothing happens where it is not there."""
        ...

    def fetch(self, pairs: Sequence[tuple[Entry, Path]]) -> None:
        """Copy each entry to its local path, whose folder exists; never more bytes than were listed."""
        ...


def open_store(url: str, options: dict[str, object] | None = None) -> Store:
    """The store of a bucket URL: a local path or `file://` URL, or any URL that fsspec knows."""
    protocol, has_protocol, rest = url.partition("://")
    if not has_protocol or protocol in ("file", "local"):
        from easeml_core.bucket.local import LocalStore

        return LocalStore(Path(rest if has_protocol else url))
    from easeml_core.bucket.remote import RemoteStore

    return RemoteStore(url, options or {})
