"""Unpacks zip and tar archives that may be hostile.

Nothing is trusted: names are checked before a file is made, links and devices are refused, and the bytes
that really come out are counted, because headers lie. An archive inside an archive stays packed.
"""

from __future__ import annotations

import bz2
import errno
import gzip
import lzma
import os
import shutil
import stat
import tarfile
import unicodedata
import zipfile
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, Any

from easeml_core.bucket.leftovers import is_leftover, unsafe_reason
from easeml_core.data.findings import Findings
from easeml_core.data.limits import Limits

ZIP_ENDS = (".zip",)
TAR_ENDS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
ENDS = (*ZIP_ENDS, *TAR_ENDS)

_CHUNK = 1 << 20
# tarfile reads extended headers into memory as a whole.
_LARGEST_READ = 32 << 20
# Below this size no ratio is suspicious: an empty-looking image packs a thousandfold.
_RATIO_FROM = 64 << 20
_BROKEN = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    RuntimeError,
    NotImplementedError,
    ValueError,
    UnicodeError,
)

_OURS = {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM}


class _Refusal(Exception):  # noqa: N818
    """Why the archive is refused, in words for its tenant."""


def is_of_this_host(error: Exception) -> bool:
    """Whether what went wrong is no fault of the file that was read: no room, say."""
    return isinstance(error, OSError) and error.errno in _OURS


def is_archive(name: str) -> bool:
    """Whether `unpack` is for files of this name."""
    return name.lower().endswith(ENDS)


class Unpacker:
    """Unpacks the archives of one upload, in its folder `lead`; its limits hold for all of them together."""

    def __init__(self, limits: Limits, findings: Findings, lead: str = "") -> None:
        self.limits = limits
        self.findings = findings
        self.lead = lead
        self.files = 0
        self.bytes = 0

    def unpack(self, archive: Path, name: str, into: Path) -> None:
        """Unpack into the new folder `into`. What is wrong becomes a problem that names the entry; then the
        folder stays empty, for half of an archive would only bring problems that are none."""
        into.mkdir(parents=True)
        where = self.lead + name
        allowed = max(_RATIO_FROM, int(archive.stat().st_size * self.limits.max_expansion_ratio))
        self._left = min(allowed, self.limits.max_upload_bytes - self.bytes)
        self._ratio_bound = allowed < self.limits.max_upload_bytes - self.bytes
        try:
            if _is_zip(archive, name):
                self._unzip(archive, name, into)
            else:
                self._untar(archive, name, into)
            return
        except _Refusal as refusal:
            self.findings.problem(where, str(refusal), fix="pack the data folder anew")
        except _BROKEN as error:
            if is_of_this_host(error):
                raise
            # An error of the operating system would name a folder of ours.
            said = (isinstance(error, OSError) and error.strerror) or str(error)
            text = f"cannot be unpacked: {said}" if said else "cannot be unpacked"
            self.findings.problem(where, text, fix="pack and upload it again")
        shutil.rmtree(into)
        into.mkdir()

    def _unzip(self, archive: Path, name: str, into: Path) -> None:
        with zipfile.ZipFile(archive) as opened:
            infos = opened.infolist()
            if sum(info.file_size for info in infos) > self._left:
                raise _Refusal(self._too_large())
            # Before anything is written; what is written is counted all the same.
            meant = sum(not any(map(is_leftover, info.filename.split("/"))) for info in infos)
            if self.files + meant > self.limits.max_files:
                raise _Refusal(self._too_many())
            for info in infos:
                if info.flag_bits & 0x1:
                    raise _Refusal(f"{info.filename!r} is encrypted")
                mode = info.external_attr >> 16
                if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                    raise _Refusal(f"{info.filename!r} is a link or a device; only files are allowed")
                if info.is_dir():
                    self._folder(info.filename, name, into)
                else:
                    self._file(info.filename, name, into, partial(opened.open, info))

    def _untar(self, archive: Path, name: str, into: Path) -> None:
        with (
            archive.open("rb") as raw,
            _Counted(_decompress(raw), self) as counted,
            tarfile.open(fileobj=counted, mode="r:") as opened,  # type: ignore[call-overload]
        ):
            for member in opened:
                if member.isdir():
                    self._folder(member.name, name, into)
                elif member.isreg():
                    self._file(member.name, name, into, partial(opened.extractfile, member))
                else:
                    raise _Refusal(f"{member.name!r} is a link or a device; only files are allowed")
            if counted.last != bytes(tarfile.BLOCKSIZE):
                raise _Refusal("breaks off: the blocks that end a tar are missing")

    def _target(self, entry: str, archive: str, into: Path) -> Path | None:
        path = unicodedata.normalize("NFC", entry).removeprefix("./").rstrip("/")
        if path in ("", "."):
            return None
        if (reason := unsafe_reason(path)) is not None:
            raise _Refusal(f"the entry {entry!r} is refused: {reason}")
        if any(map(is_leftover, path.split("/"))):
            self.findings.drop(f"{archive}/{path}")
            return None
        return into / path

    def _folder(self, entry: str, archive: str, into: Path) -> None:
        if (target := self._target(entry, archive, into)) is not None:
            self._count()
            _make(target, entry)

    def _file(self, entry: str, archive: str, into: Path, open_it: Callable[[], IO[bytes] | None]) -> None:
        if (target := self._target(entry, archive, into)) is None:
            return
        self._count()
        _make(target.parent, entry)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        try:
            descriptor = os.open(target, flags, 0o600)
        except FileExistsError:
            raise _Refusal(f"the entry {entry!r} is in there twice") from None
        size = 0
        with os.fdopen(descriptor, "wb") as out, open_it() or _missing(entry) as source:
            while chunk := source.read(_CHUNK):
                size += len(chunk)
                self.bytes += len(chunk)
                self._left -= len(chunk)
                if size > self.limits.max_file_bytes:
                    raise _Refusal(f"{entry!r} is larger than {self.limits.max_file_bytes:,} bytes")
                if self._left < 0:
                    raise _Refusal(self._too_large())
                out.write(chunk)

    def _count(self) -> None:
        self.files += 1
        if self.files > self.limits.max_files:
            raise _Refusal(self._too_many())

    def _too_many(self) -> str:
        return f"more than the {self.limits.max_files:,} files allowed are packed in here"

    def _too_large(self) -> str:
        if self._ratio_bound:
            return f"unpacks to more than {self.limits.max_expansion_ratio:g} times its size"
        return f"unpacks to more than the {self.limits.max_upload_bytes:,} bytes allowed"


def _make(folder: Path, entry: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise _Refusal(f"the entry {entry!r} needs a folder where another entry is a file") from None


def _is_zip(archive: Path, name: str) -> bool:
    """By what it begins with, whatever its name says; a zip may have a program before it."""
    with archive.open("rb") as stream:
        start = stream.read(2)
    return start == b"PK" or (name.lower().endswith(ZIP_ENDS) and start not in (b"\x1f\x8b", b"BZ", b"\xfd7"))


def _missing(entry: str) -> IO[bytes]:
    raise _Refusal(f"{entry!r} has no content")


def _decompress(raw: IO[bytes]) -> Any:
    magic = raw.read(6)
    raw.seek(0)
    if magic.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=raw)
    if magic.startswith(b"BZh"):
        return bz2.BZ2File(raw)
    if magic.startswith(b"\xfd7zXZ\x00"):
        return lzma.LZMAFile(raw)
    return raw


class _Counted:
    """A tar stream that counts all it gives out, headers included, and refuses huge single reads.

    `last` is what was read last: of a whole tar, the empty block at its end.
    """

    def __init__(self, stream: Any, owner: Unpacker) -> None:
        self._stream = stream
        self._owner = owner
        self._furthest = 0
        self.last = b""

    def __enter__(self) -> _Counted:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def read(self, size: int = -1) -> bytes:
        if size < 0 or size > _LARGEST_READ:
            raise _Refusal("has a header that is too large")
        data: bytes = self._stream.read(size)
        self.last = data
        self._furthest = max(self._furthest, self.tell())
        # Files are counted as they are written; this bounds what is only skipped or read as headers.
        if self._furthest > self._owner._left + self._owner.bytes + _RATIO_FROM:
            raise _Refusal(self._owner._too_large())
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        position: int = self._stream.tell() if whence == 1 else 0
        target = position + offset
        # Skipping ahead in a compressed stream unpacks what is skipped.
        while self.tell() < target and self.read(min(_CHUNK, target - self.tell())):
            pass
        result: int = self._stream.seek(target)
        return result

    def tell(self) -> int:
        position: int = self._stream.tell()
        return position

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True
