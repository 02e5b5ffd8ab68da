"""Opens arrays that belong together, those of an `.npz` file or the `.npy` files of one folder.

Nothing is ever unpickled, and large arrays are mapped from disk instead of loaded.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from easeml_core.data.archives import is_of_this_host
from easeml_core.data.findings import Findings
from easeml_core.data.limits import Limits
from easeml_core.data.tree import SourceFile
from easeml_core.naming import DATA_DIR

Header = tuple[tuple[int, ...], np.dtype[Any]]  # shape and type of an array

NPZ, NPY = ".npz", ".npy"
_CHUNK = 1 << 20
# Below this size no ratio is suspicious.
_RATIO_FROM = 64 << 20


@dataclass(slots=True)
class Allowance:
    """What all arrays of one upload may still take: `bytes` unpacked, `rows` in all their inputs."""

    bytes: int
    rows: int
    ratio: float

    @classmethod
    def of(cls, limits: Limits) -> Allowance:
        """The allowance of one upload."""
        return cls(limits.max_upload_bytes, limits.max_rows, limits.max_expansion_ratio)


@dataclass(frozen=True, slots=True)
class ArrayFiles:
    """One `.npz` file, or all `.npy` files of one folder: each of those is an array of its own name."""

    files: tuple[SourceFile, ...]

    @property
    def is_packed(self) -> bool:
        """Whether all arrays are in one file."""
        return self.files[0].suffix == NPZ

    def file_of(self, name: str) -> SourceFile:
        """The file that holds the array called `name`."""
        return next((file for file in self.files if file.stem == name), self.files[0])

    def headers(self) -> dict[str, Header]:
        """Shape and type of every array, by its name. Raises what numpy and zipfile raise on broken input."""
        if not self.is_packed:
            return {file.stem: _read_header(file.path) for file in self.files}
        found = {}
        with zipfile.ZipFile(self.files[0].path) as opened:
            for info in opened.infolist():
                with opened.open(info) as stream:
                    found[info.filename.removesuffix(NPY)] = _header(stream)
        return found

    def load(
        self, allowance: Allowance, scratch: Path, findings: Findings
    ) -> dict[str, npt.NDArray[Any]] | None:
        """All arrays by their names; those of an `.npz` are unpacked into the empty folder `scratch`. None
        after noting a problem."""
        arrays: dict[str, npt.NDArray[Any]] = {}
        told = len(findings.problems)
        for file in self.files:
            where = f"{DATA_DIR}/{file.name}"
            try:
                paths = _unpack(file.path, allowance, scratch) if self.is_packed else {file.stem: file.path}
                arrays |= {name: open_npy(path) for name, path in paths.items()}
            except _TooLarge:
                findings.problem(where, "unpacks to more than is allowed")
            except Exception as error:  # numpy and zipfile raise many classes on broken input
                if is_of_this_host(error):
                    raise
                text = str(error) or type(error).__name__
                if "allow_pickle=False" in text or "Python objects" in text:
                    text = "it holds Python objects, which are never loaded"
                fix = "save plain arrays of numbers or text with numpy.savez_compressed"
                findings.problem(where, f"cannot be read: {text}", fix=fix)
        return arrays if len(findings.problems) == told else None


def together(files: Sequence[SourceFile]) -> list[ArrayFiles]:
    """The arrays of an upload that belong together, in order of their files' names."""
    groups: dict[str, list[SourceFile]] = {}
    for file in files:
        groups.setdefault(file.name if file.suffix == NPZ else file.name.rpartition("/")[0], []).append(file)
    return [ArrayFiles(tuple(group)) for group in groups.values()]


class _TooLarge(Exception):  # noqa: N818 - a finding about a file, not a fault
    """More comes out of an archive than is allowed."""


def _unpack(packed: Path, allowance: Allowance, scratch: Path) -> dict[str, Path]:
    paths: dict[str, Path] = {}
    left = max(_RATIO_FROM, int(packed.stat().st_size * allowance.ratio))
    with zipfile.ZipFile(packed) as opened:
        for number, info in enumerate(opened.infolist()):
            path = scratch / f"{number}{NPY}"
            with opened.open(info) as source, path.open("xb") as out:
                while chunk := source.read(_CHUNK):
                    left -= len(chunk)
                    allowance.bytes -= len(chunk)
                    if min(left, allowance.bytes) < 0:
                        raise _TooLarge
                    out.write(chunk)
            paths[info.filename.removesuffix(NPY)] = path
    return paths


def _header(stream: IO[bytes]) -> Header:
    npy = np.lib.format
    old = npy.read_magic(stream) == (1, 0)
    shape, _, dtype = (npy.read_array_header_1_0 if old else npy.read_array_header_2_0)(stream)
    return tuple(shape), dtype


def _read_header(path: Path) -> Header:
    with path.open("rb") as stream:
        return _header(stream)


def open_npy(path: Path) -> npt.NDArray[Any]:
    """The array of one file, mapped where it is large. Raises what numpy raises on broken input."""
    with path.open("rb") as stream:
        shape, dtype = _header(stream)
        held, told = path.stat().st_size - stream.tell(), math.prod(shape) * dtype.itemsize
    if not dtype.hasobject and told > held:
        raise ValueError(f"its header tells of {told:,} bytes, and there are {held:,}")
    array: npt.NDArray[Any] = np.load(path, mmap_mode="r" if held > _CHUNK else None, allow_pickle=False)
    return array
