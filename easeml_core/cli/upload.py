"""A tenant's side of the bucket: puts files there so that a reader never takes half of them for all.

Order: the `_READY` marker of an earlier upload goes first, then data is sent, `task.yaml` last, and then
the marker comes back. What is there with the same content is not sent again, so an upload that broke off
is finished by the same command.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from easeml_core import naming
from easeml_core.bucket.leftovers import is_leftover, is_unfinished, unsafe_reason
from easeml_core.errors import Problem, TenantError
from easeml_core.naming import TaskName

if TYPE_CHECKING:
    from easeml_core.bucket import Bucket, Entry, Listing

_MD5 = re.compile(r"[0-9a-f]{32}")
# An object store answers a small put in some 10 ms, whatever its size: send several side by side.
_SIDE_BY_SIDE = 8

# Called after each file with the number of its bytes.
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file to be sent: where it lies, and its name relative to the prefix it goes to."""

    path: Path
    name: str
    size: int


@dataclass(frozen=True, slots=True)
class Pushed:
    """What an upload did: names sent, names that were there already, and names only the bucket has."""

    sent: tuple[str, ...]
    same: tuple[str, ...]
    extra: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether the bucket holds anything else than before."""
        return bool(self.sent or self.removed)


def task_files(folder: Path) -> list[LocalFile]:
    """Every file of a task's folder that counts, data first and `task.yaml` last.

    Raises `TenantError` naming every file that cannot be sent as it is, and missing parts.
    """
    problems: list[Problem] = []
    files: list[LocalFile] = []
    data = folder / naming.DATA_DIR
    if data.is_dir():
        files = files_below(data, naming.DATA_DIR, problems)
    if not files and not problems:
        from easeml_core.data.sources import EVERY_FORM  # numpy comes with it

        fix = f"put the examples there: {EVERY_FORM}"
        problems.append(Problem(naming.DATA_DIR, "there is no data", fix=fix))
    for name in (naming.REFINE_FILE, naming.SPEC_FILE):
        if (folder / name).is_file():
            files.append(_local(folder / name, name))
        elif name == naming.SPEC_FILE:
            problems.append(Problem(name, "there is no spec", fix=f"write one: easeml init {folder}"))
    if problems:
        raise TenantError(problems)
    return files


def files_below(folder: Path, lead: str, problems: list[Problem]) -> list[LocalFile]:
    """Files under `folder` in order of their names, below `lead` where given; leftovers are left out.

    Appends to `problems` what intake would refuse or wait for: it is better said before it is sent.
    """
    found: list[LocalFile] = []
    for here, folders, names in os.walk(folder):
        base = Path(here)
        for name in [n for n in folders if is_leftover(n)]:
            folders.remove(name)
        for name in folders:
            if (base / name).is_symlink():
                where = _join(lead, (base / name).relative_to(folder).as_posix())
                problems.append(Problem(where, "is a link to a folder", fix="put the folder itself there"))
        folders.sort()
        names = sorted(name for name in names if not is_leftover(name) and name != naming.READY_MARKER)
        below = base.relative_to(folder).as_posix()
        if not folders and not names and below != ".":
            fix = "put its examples there, or remove the folder"
            problems.append(Problem(_join(lead, below), "the folder holds no file", fix=fix))
        for name in names:
            path = base / name
            full = _join(lead, path.relative_to(folder).as_posix())
            if (problem := _problem_of(path, full)) is not None:
                problems.append(problem)
            else:
                found.append(_local(path, full))
    return found


def gather(paths: Iterable[Path], lead: str = "") -> list[LocalFile]:
    """Files given one by one, and all that folders hold; the folder `lead`, if any, comes before each name.

    Raises `TenantError` for what cannot be sent, and for two files that would get one name.
    """
    problems: list[Problem] = []
    found: list[LocalFile] = []
    for path in paths:
        if os.path.isdir(path):  # unlike `Path.is_dir`, False for a name too long to be one
            found += files_below(path, lead, problems)
        elif (problem := _problem_of(path, _join(lead, path.name))) is not None:
            problems.append(problem)
        else:
            found.append(_local(path, _join(lead, path.name)))
    names = Counter(file.name for file in found)
    problems += [
        Problem(name, "two of the files given would get this name", fix="rename one")
        for name in sorted(name for name, count in names.items() if count > 1)
    ]
    if not found and not problems:
        problems.append(Problem(lead or ".", "none of the paths given holds a file"))
    if problems:
        raise TenantError(problems)
    return found


def push(
    bucket: Bucket,
    prefix: str,
    files: list[LocalFile],
    *,
    replace: bool = False,
    progress: Progress = lambda size: None,
) -> Pushed:
    """Send `files` under `prefix`, the spec last; with `replace` remove what the bucket has beyond them.

    Raises `TemporaryError` when the bucket is away: what was sent stays, and the next call goes on.
    """
    listing = bucket.listing(prefix)
    there = _by_name(listing)
    extra = tuple(sorted(there.keys() - {file.name for file in files}))

    def is_same(file: LocalFile) -> bool:
        same = file.name in there and _is_same(bucket, f"{prefix}/{file.name}", file, there[file.name])
        if same:
            progress(file.size)
        return same

    def send(file: LocalFile) -> None:
        bucket.put(f"{prefix}/{file.name}", file.path)
        progress(file.size)

    with ThreadPoolExecutor(_SIDE_BY_SIDE) as pool:
        known = list(pool.map(is_same, files))
        same = tuple(file.name for file, is_known in zip(files, known, strict=True) if is_known)
        news = [file for file, is_known in zip(files, known, strict=True) if not is_known]
        pushed = Pushed(
            tuple(file.name for file in news), same, () if replace else extra, extra if replace else ()
        )
        if listing is not None and listing.marked and not pushed.changed:
            return pushed
        # While anything is under way, no marker may say that the upload is complete.
        marker = f"{prefix}/{naming.READY_MARKER}"
        bucket.delete(marker)
        for is_last in (False, True):
            batch = [file for file in news if (file.name == naming.SPEC_FILE) is is_last]
            list(pool.map(send, batch))
    for name in pushed.removed:
        bucket.delete(f"{prefix}/{name}")
    bucket.write(marker, b"")
    return pushed


def submit(
    bucket: Bucket,
    name: TaskName,
    folder: Path,
    *,
    replace: bool = False,
    progress: Progress = lambda size: None,
) -> Pushed:
    """Check the spec, then send a task's folder. Raises `TenantError` before anything is sent."""
    from easeml_core.spec import load_spec

    files = task_files(folder)
    load_spec((folder / naming.SPEC_FILE).read_bytes())
    return push(bucket, name.prefix, files, replace=replace, progress=progress)


def refuse_overwriting(bucket: Bucket, prefix: str, files: Iterable[LocalFile]) -> None:
    """Raise `TenantError` for files that would replace others of the same name and another content."""
    there = _by_name(bucket.listing(prefix))
    problems = [
        Problem(file.name, "the task has another file of this name", fix="rename yours, or use --replace")
        for file in files
        if file.name in there and not _is_same(bucket, f"{prefix}/{file.name}", file, there[file.name])
    ]
    if problems:
        raise TenantError(problems)


def content_id(files: Iterable[LocalFile]) -> str:
    """Sixteen hexadecimal digits that stand for names and contents: the same files give the same id."""
    digest = hashlib.sha256()
    for file in sorted(files, key=lambda file: file.name):
        digest.update(f"{file.name}\0{_hash(file.path, 'sha256')}\n".encode())
    return digest.hexdigest()[:16]


def _join(lead: str, name: str) -> str:
    return f"{lead}/{name}" if lead else name


def _problem_of(path: Path, name: str) -> Problem | None:
    if (reason := unsafe_reason(name)) is not None:
        return Problem(repr(name), f"the name cannot be used: {reason}", fix="rename it")
    if is_unfinished(name):
        return Problem(name, "has the name of a file still being written", fix="finish or rename it")
    if not path.is_file():
        return Problem(name, "is not a file" if path.exists() else "does not exist")
    if not os.access(path, os.R_OK):
        return Problem(name, "cannot be read", fix="give yourself the right to read it")
    return None


def _local(path: Path, name: str) -> LocalFile:
    return LocalFile(path, name, path.stat().st_size)


def _by_name(listing: Listing | None) -> dict[str, Entry]:
    return dict(zip(listing.names(), listing.entries, strict=True)) if listing else {}


def _is_same(bucket: Bucket, key: str, file: LocalFile, there: Entry) -> bool:
    if there.size != file.size:
        return False
    # The tag of an object written at once is its MD5: no need to read it back over the network.
    if _MD5.fullmatch(there.tag):
        return there.tag == _hash(file.path, "md5")
    try:
        with file.path.open("rb") as stream:
            # Sizes are the same, so one of the two cannot be the beginning of the other.
            return all(stream.read(len(chunk)) == chunk for chunk in bucket.chunks(key))
    except FileNotFoundError:
        return False


def _hash(path: Path, algorithm: str) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, algorithm).hexdigest()
