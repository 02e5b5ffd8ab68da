"""A bucket behind any fsspec file system; `s3://` is the one meant for production."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from easeml_core.bucket.entries import Entry
from easeml_core.bucket.leftovers import is_leftover
from easeml_core.bucket.store import CHUNK, Contents
from easeml_core.errors import OperatorError, TemporaryError

T = TypeVar("T")

# Files fetched by one call: s3fs fetches them side by side.
_BATCH = 256
# s3fs would hold ten parts of 50 MiB of each file that is being sent.
_PART = 16 * CHUNK
_PARTS: dict[str, Any] = {"chunksize": _PART, "max_concurrency": 4}


class RemoteStore:
    """`Store` over fsspec. The file system is opened on first use, and anew after a fork."""

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        self.url = url.rstrip("/")
        self.options = options
        self._opened: tuple[int, Any, str] | None = None

    def contents(self, prefix: str = "") -> Contents:
        """One flat listing, never a cached one."""
        fs, root = self._open()
        base = f"{root}/{prefix}" if prefix else root

        def find() -> dict[str, dict[str, Any]]:
            fs.invalidate_cache()
            result: dict[str, dict[str, Any]] = fs.find(base, detail=True)
            return result

        try:
            infos = self._call(f"list {base}", find)
        except FileNotFoundError as error:
            if not prefix:
                raise OperatorError(f"the bucket {self.url} does not exist: create it") from error
            return Contents()
        found = Contents()
        leftovers: dict[str, None] = {}  # as an ordered set: a folder of them has many files
        for path, info in infos.items():
            key = path[len(root) :].lstrip("/") if path.startswith(root) else path
            parts = key.split("/")
            if info.get("type") != "file" or not parts[-1]:
                continue
            odd = next((i for i, part in enumerate(parts) if is_leftover(part)), None)
            if odd is not None:
                leftovers["/".join(parts[: odd + 1])] = None
                continue
            found.entries.append(_entry(key, info))
        found.leftovers += leftovers
        return found

    def read(self, key: str, limit: int) -> bytes:
        """See `Store`."""
        fs, root = self._open()
        content: bytes = self._call(f"read {key}", lambda: fs.cat_file(f"{root}/{key}", start=0, end=limit))
        return content

    def write(self, key: str, content: bytes) -> None:
        """One put, which object stores do as a whole or not at all."""
        fs, root = self._open()
        self._call(f"write {key}", lambda: fs.pipe_file(f"{root}/{key}", content))

    def chunks(self, key: str) -> Iterator[bytes]:
        """One request per piece, none of which is kept."""
        fs, root = self._open()
        path = f"{root}/{key}"
        # Asked for bytes beyond the end, S3 answers with an error.
        size = int(self._call(f"read {key}", lambda: fs.info(path, refresh=True))["size"])
        for start in range(0, size, _PART):
            end = min(start + _PART, size)
            yield self._call(f"read {key}", partial(fs.cat_file, path, start=start, end=end))

    def put(self, key: str, path: Path) -> None:
        """Large files go in parts, which object stores join into one object or into none."""
        fs, root = self._open()
        size = path.stat().st_size  # a file that is not there is the caller's error, not the bucket's
        options = _PARTS if "s3" in fs.protocol else {}
        self._call(
            f"write {key} ({size:,} bytes)", lambda: fs.put_file(str(path), f"{root}/{key}", **options)
        )

    def delete(self, key: str) -> None:
        """See `Store`."""
        fs, root = self._open()
        try:
            self._call(f"delete {key}", lambda: fs.rm_file(f"{root}/{key}"))
        except FileNotFoundError:
            return

    def fetch(self, pairs: Sequence[tuple[Entry, Path]]) -> None:
        """See `Store`; a size other than the listed one is a `TemporaryError`."""
        fs, root = self._open()
        for start in range(0, len(pairs), _BATCH):
            batch = pairs[start : start + _BATCH]
            sources = [f"{root}/{entry.key}" for entry, _ in batch]
            targets = [str(path) for _, path in batch]
            try:
                self._call(f"fetch {sources[0]} …", partial(fs.get, sources, targets))
            except FileNotFoundError as error:
                raise TemporaryError(f"{error} vanished while it was being read") from error
            for entry, path in batch:
                if not path.is_file() or path.stat().st_size != entry.size:
                    raise TemporaryError(f"{entry.key} changed while it was being read")

    def _open(self) -> tuple[Any, str]:
        # fsspec's event loop is a thread, and threads do not survive a fork.
        if self._opened is None or self._opened[0] != os.getpid():
            import fsspec

            try:
                fs, root = fsspec.core.url_to_fs(self.url, skip_instance_cache=True, **self.options)
            except (ImportError, ValueError, TypeError) as error:
                raise OperatorError(f"the bucket {self.url} cannot be opened: {error}") from error
            self._opened = (os.getpid(), fs, root.rstrip("/"))
        return self._opened[1], self._opened[2]

    @staticmethod
    def _call(what: str, function: Callable[[], T]) -> T:
        try:
            return function()
        except FileNotFoundError:
            raise
        except PermissionError as error:
            raise OperatorError(f"the bucket refuses to {what}: {error}") from error
        except Exception as error:  # each file system has its own classes for "away for now"
            raise TemporaryError(f"cannot {what}: {type(error).__name__}: {error}") from error


def _entry(key: str, info: dict[str, Any]) -> Entry:
    modified = info.get("LastModified") or info.get("mtime") or info.get("created") or 0.0
    seconds = modified.timestamp() if isinstance(modified, datetime) else float(modified)
    tag = info.get("ETag") or info.get("etag") or info.get("md5") or modified
    return Entry(key, int(info.get("size") or 0), str(tag).strip('"'), seconds)
