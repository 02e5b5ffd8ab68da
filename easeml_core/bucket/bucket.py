"""`Bucket`: scan, fetch, read and write over any store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from easeml_core.bucket.entries import Kind, Listing, Scan
from easeml_core.bucket.layout import sort_contents
from easeml_core.bucket.store import open_store
from easeml_core.errors import Problem, TemporaryError, TenantError
from easeml_core.settings import Settings

# Specs, control and refine files are read into memory; nothing honest comes near this.
READ_LIMIT = 64 * 1024**2


class Bucket:
    """The place that tenants and the service share.

    What it does not do: lock, watch or cache. Each `scan` lists anew (50,000 local files in well under
    2 s); whoever acts on a listing fetches it first, and `fetch` refuses one that has changed since.
    """

    def __init__(self, url: str, options: dict[str, Any] | None = None) -> None:
        self.url = url
        self.store = open_store(url, options)

    @classmethod
    def of(cls, settings: Settings) -> Bucket:
        """The bucket that the settings name."""
        return cls(settings.bucket_url, settings.bucket_options)

    def scan(self) -> Scan:
        """List everything; raises `TemporaryError` when the bucket is away for now."""
        return sort_contents(self.store.contents())

    def listing(self, prefix: str) -> Listing | None:
        """List one prefix anew; None when nothing is there any more."""
        return sort_contents(self.store.contents(prefix)).listings.get(prefix)

    def fetch(self, listing: Listing, folder: Path, *, max_files: int, max_file: int, max_total: int) -> None:
        """Copy a listing's files to the new local `folder`, as they were listed.

        Sizes in bytes. Raises `TenantError` for links, unsafe names and uploads above a limit,
        `TemporaryError` when the upload changed meanwhile (it has not settled after all).
        """
        problems = [*listing.problems, *_limits(listing, max_files, max_file, max_total), *_clashes(listing)]
        if problems:
            raise TenantError(problems)
        pairs = [(entry, folder / name) for entry, name in zip(listing.entries, listing.names(), strict=True)]
        folder.mkdir(parents=True, exist_ok=True)
        for parent in {path.parent for _, path in pairs} | {folder / name for name in listing.folders}:
            parent.mkdir(parents=True, exist_ok=True)
        self.store.fetch(pairs)
        again = self.listing(listing.prefix)
        if again is None or again.fingerprint != listing.fingerprint:
            raise TemporaryError(f"{listing.prefix} changed while it was being read")

    def read(self, key: str, limit: int = READ_LIMIT) -> bytes:
        """Content of one object; FileNotFoundError where there is none, `TenantError` above `limit` bytes."""
        content = self.store.read(key, limit + 1)
        if len(content) > limit:
            raise TenantError([Problem(key, f"is larger than {limit} bytes")])
        return content

    def read_if_there(self, key: str, limit: int = READ_LIMIT) -> bytes | None:
        """Like `read`, but None where there is no such object."""
        try:
            return self.read(key, limit)
        except FileNotFoundError:
            return None

    def chunks(self, key: str) -> Iterator[bytes]:
        """Content of one object of any size, piece by piece; FileNotFoundError where there is none."""
        return self.store.chunks(key)

    def put(self, key: str, path: Path) -> None:
        """Write one object as a whole from a local file of any size, in little memory."""
        self.store.put(key, path)

    def write(self, key: str, content: bytes | str) -> None:
        """Write one object as a whole: a reader never sees a part of it."""
        self.store.write(key, content.encode() if isinstance(content, str) else content)

    def write_if_changed(self, key: str, content: bytes | str) -> bool:
        """Write unless the object already holds exactly this; returns whether it was written."""
        wanted = content.encode() if isinstance(content, str) else content
        try:
            if self.store.read(key, len(wanted) + 1) == wanted:
                return False
        except FileNotFoundError:
            pass
        self.store.write(key, wanted)
        return True

    def delete(self, key: str) -> None:
        """Remove one object, where it is there."""
        self.store.delete(key)


def _limits(listing: Listing, max_files: int, max_file: int, max_total: int) -> list[Problem]:
    problems = []
    if len(listing.entries) > max_files:
        text = f"{len(listing.entries):,} files are more than the {max_files:,} allowed"
        problems.append(Problem(".", text, fix="pack them into one zip or tar archive, or upload fewer"))
    if listing.size > max_total:
        text = f"{listing.size:,} bytes in all are more than the {max_total:,} allowed"
        problems.append(Problem(".", text, fix="upload less, or ask the operator to raise the limit"))
    for entry, name in zip(listing.entries, listing.names(), strict=True):
        if entry.size > max_file:
            text = f"{entry.size:,} bytes are more than the {max_file:,} allowed for one file"
            problems.append(Problem(name, text, fix="split it"))
    return problems


def _clashes(listing: Listing) -> list[Problem]:
    """Object stores allow `a` beside `a/b`; a file system does not."""
    if listing.kind is Kind.CONTROL:
        return []
    names = set(listing.names())
    folders = {"/".join(parts[:i]) for parts in (n.split("/") for n in names) for i in range(1, len(parts))}
    text = "is both a file and a folder"
    return [Problem(name, text, fix="rename one of them") for name in sorted(names & folders)]
