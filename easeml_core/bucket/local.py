"""A bucket in a local folder, which its tenants write to directly and are not trusted with.

No symbolic link below the root is ever followed, neither on reading nor on writing: every path is opened
component by component with O_NOFOLLOW, so that a link swapped in between a check and its use does not
help either.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from pathlib import Path
from typing import BinaryIO

from easeml_core.bucket.entries import Entry
from easeml_core.bucket.leftovers import is_leftover
from easeml_core.bucket.store import CHUNK, Contents
from easeml_core.errors import TemporaryError

# What `LocalStore` is writing, or left behind when it was killed.
_ASIDE = re.compile(r"\..*\.[0-9a-f]{12}")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class LocalStore:
    """`Store` over a local folder; the folder is made where it is missing."""

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.root = root.resolve()

    def contents(self, prefix: str = "") -> Contents:
        """One walk with one stat per file: 50,000 files take about half a second."""
        found = Contents()
        if prefix and not self._is_plain_folder(prefix):
            with suppress(OSError):
                status = os.lstat(self.root / prefix)
                if os.path.isfile(self.root / prefix) and not os.path.islink(self.root / prefix):
                    found.entries.append(_entry(prefix, status))
            return found
        pending = [prefix]
        while pending:
            folder = pending.pop()
            lead = f"{folder}/" if folder else ""
            empty = True
            try:
                with os.scandir(self.root / folder) as items:
                    for item in items:
                        key = lead + item.name
                        if is_leftover(item.name):
                            if not _ASIDE.fullmatch(item.name):
                                found.leftovers.append(key)
                            continue
                        empty = False
                        # An entry may vanish between the listing and its stat: then it was not there.
                        with suppress(FileNotFoundError):
                            if item.is_symlink():
                                found.links.append(key)
                            elif item.is_dir(follow_symlinks=False):
                                pending.append(key)
                            elif item.is_file(follow_symlinks=False):
                                found.entries.append(_entry(key, item.stat(follow_symlinks=False)))
            except (FileNotFoundError, NotADirectoryError):
                continue
            except PermissionError as error:
                raise TemporaryError(f"cannot list {self.root / folder}: {error.strerror}") from error
            if empty and folder != prefix:
                found.folders.append(folder)
        return found

    def read(self, key: str, limit: int) -> bytes:
        """See `Store`."""
        with self._open(key) as stream:
            return stream.read(limit)

    def chunks(self, key: str) -> Iterator[bytes]:
        """See `Store`."""
        with self._open(key) as stream:
            while chunk := stream.read(CHUNK):
                yield chunk

    def write(self, key: str, content: bytes) -> None:
        """Written under a hidden name beside its place, then renamed."""
        with self._replace(key) as stream:
            stream.write(content)

    def put(self, key: str, path: Path) -> None:
        """Copied under a hidden name beside its place, then renamed."""
        with path.open("rb") as source, self._replace(key) as stream:
            shutil.copyfileobj(source, stream, CHUNK)

    def delete(self, key: str) -> None:
        """See `Store`."""
        with suppress(FileNotFoundError), self._folder(key) as (folder, name):
            os.unlink(name, dir_fd=folder)

    def fetch(self, pairs: Sequence[tuple[Entry, Path]]) -> None:
        """See `Store`; a file that grew or went since it was listed is a `TemporaryError`."""
        # Folder by folder: to walk down to each of many small files anew would take most of the time.
        for _, group in groupby(pairs, key=lambda pair: pair[0].key.rpartition("/")[0]):
            files = list(group)
            last = files[0][0]
            try:
                with self._folder(last.key) as (folder, _):
                    for entry, path in files:
                        last = entry
                        _copy(folder, entry, path)
            except FileNotFoundError as error:
                raise TemporaryError(f"{last.key} vanished while it was being read") from error

    @contextmanager
    def _open(self, key: str) -> Iterator[BinaryIO]:
        with self._folder(key) as (folder, name), _opened(folder, name) as stream:
            yield stream

    @contextmanager
    def _replace(self, key: str) -> Iterator[BinaryIO]:
        """A stream whose content is at `key` once the block has ended without an error."""
        with self._folder(key, make=True) as (folder, name):
            # File systems count bytes, at most 255; a character cut through stays as the bytes it had.
            begin = os.fsdecode(os.fsencode(name)[:200])
            aside = f".{begin}.{secrets.token_hex(6)}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            try:
                with os.fdopen(os.open(aside, flags, 0o644, dir_fd=folder), "wb") as stream:
                    yield stream
                    stream.flush()
                    os.fsync(stream.fileno())
                os.replace(aside, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(aside, dir_fd=folder)
                raise

    def _is_plain_folder(self, prefix: str) -> bool:
        try:
            with self._folder(f"{prefix}/x"):
                return True
        except OSError:
            return False

    @contextmanager
    def _folder(self, key: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """Descriptor of the folder that holds `key`, reached without following a link; and the last name."""
        *folders, name = key.split("/")
        if name in ("", ".", "..") or any(part in ("", ".", "..") for part in folders):
            raise FileNotFoundError(errno.ENOENT, "not a key", key)
        here = os.open(self.root, _FOLDER & ~os.O_NOFOLLOW)
        try:
            for part in folders:
                if make:
                    with suppress(FileExistsError):
                        os.mkdir(part, dir_fd=here)
                below = os.open(part, _FOLDER, dir_fd=here)
                os.close(here)
                here = below
            yield here, name
        except OSError as error:
            # O_NOFOLLOW on a link, or a file where a folder should be: for us there is no such key.
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise FileNotFoundError(errno.ENOENT, "not a plain file in the bucket", key) from error
            raise
        finally:
            os.close(here)


def _opened(folder: int, name: str) -> BinaryIO:
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    return os.fdopen(descriptor, "rb")


def _copy(folder: int, entry: Entry, path: Path) -> None:
    """As many bytes as were listed."""
    left = entry.size
    with _opened(folder, entry.key.rpartition("/")[2]) as source, path.open("xb") as out:
        while left and (chunk := source.read(min(CHUNK, left))):
            out.write(chunk)
            left -= len(chunk)
    if left:
        raise TemporaryError(f"{entry.key} shrank while it was being read")


def _entry(key: str, status: os.stat_result) -> Entry:
    # The modification time alone can be set back (cp -p, rsync -t); the change time cannot.
    tag = f"{status.st_mtime_ns}.{status.st_ctime_ns}.{status.st_ino}"
    return Entry(key, status.st_size, tag, status.st_mtime)
