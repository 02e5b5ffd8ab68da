"""Finds the files of an upload, archives unpacked, leftovers dropped, names in Unicode NFC."""

from __future__ import annotations

import os
import unicodedata
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from easeml_core.bucket.leftovers import is_leftover, unsafe_reason
from easeml_core.data.archives import ENDS, Unpacker, is_archive
from easeml_core.data.findings import Findings
from easeml_core.data.forms import names_split, split_hint
from easeml_core.data.limits import Limits
from easeml_core.naming import DATA_DIR, READY_MARKER


@dataclass(frozen=True, slots=True, order=True)
class SourceFile:
    """A file of an upload: its `name` relative to `data/` (for one in an archive, below the archive's
    name), and where it lies now. `root` is its archive's name with a slash, or "" outside of any; `folders`
    are those below the root."""

    name: str
    path: Path
    folders: tuple[str, ...] = ()
    root: str = ""

    @property
    def suffix(self) -> str:
        """Lower-case ending, with the dot."""
        return os.path.splitext(self.name)[1].lower()

    @property
    def stem(self) -> str:
        """Last component without its ending."""
        return PurePosixPath(self.name).stem

    @property
    def split(self) -> str | None:
        """ "train" or "val" where its own name (`GunPoint_TEST.ts`), a folder around it (`test/`) or its
        archive (`pets_test.zip`) says so."""
        return split_hint(self.stem) or self.split_by_folders()

    def split_by_folders(self, depth: int | None = None) -> str | None:
        """The same by the first `depth` of its `folders` (by all) and by its archive alone."""
        *outside, archive = self.root.removesuffix("/").split("/")
        stem = next((archive[: -len(end)] for end in ENDS if archive.lower().endswith(end)), archive)
        folders = [*outside, *self.folders[:depth]]
        return split_hint(*filter(names_split, reversed(folders)), stem)


@dataclass(frozen=True, slots=True)
class Tree:
    """All files in order of their names, and folders that hold nothing, each as (root, folders)."""

    files: tuple[SourceFile, ...]
    empty: tuple[tuple[str, tuple[str, ...]], ...] = ()


def collect(folder: Path, scratch: Path, limits: Limits, findings: Findings) -> Tree:
    """Walk `folder`; archives are unpacked below the new folder `scratch`."""
    files: list[SourceFile] = []
    empty: list[tuple[str, tuple[str, ...]]] = []
    unpacker = Unpacker(limits, findings, f"{DATA_DIR}/")
    _walk(folder, "", files, empty, findings)
    unpacked: list[SourceFile] = []
    for number, file in enumerate(files):
        if not is_archive(file.name):
            unpacked.append(file)
            continue
        into = scratch / str(number)
        unpacker.unpack(file.path, file.name, into)
        _walk(into, f"{file.name}/", unpacked, empty, findings)
    seen: dict[str, SourceFile] = {}
    for file in unpacked:
        if file.name in seen:
            text = "two files have this name in Unicode NFC"
            findings.problem(f"{DATA_DIR}/{file.name}", text, fix="rename one of them")
        seen[file.name] = file
    return Tree(tuple(sorted(seen.values())), tuple(sorted(empty)))


def _walk(
    root: Path,
    lead: str,
    files: list[SourceFile],
    empty: list[tuple[str, tuple[str, ...]]],
    findings: Findings,
) -> None:
    for folder, names, found in os.walk(root, followlinks=False):
        parts = tuple(unicodedata.normalize("NFC", p) for p in Path(folder).relative_to(root).parts)
        kept = [name for name in names if not is_leftover(name)]
        here = lead + "".join(f"{part}/" for part in parts)
        for name in names:
            if is_leftover(name):
                findings.drop(f"{here}{name}")
        names[:] = sorted(kept)
        meant = [name for name in sorted(found) if not is_leftover(name) and name != READY_MARKER]
        for name in sorted(set(found).difference(meant)):
            findings.drop(here + unicodedata.normalize("NFC", name))
        for name in meant:
            path = Path(folder, name)
            full = here + unicodedata.normalize("NFC", name)
            where = f"{DATA_DIR}/{full}"
            if path.is_symlink() or not path.is_file():
                findings.problem(where, "is a link or a device; only files are allowed")
            elif (reason := unsafe_reason(full)) is not None:
                findings.problem(ascii(where), f"the name cannot be used: {reason}", fix="rename it")
            else:
                files.append(SourceFile(full, path, parts, lead))
        if not meant and not names and parts:
            empty.append((lead, parts))
