"""Reads one sample of an ease.ml data set directory: a file per singleton, a folder per other node.

`<node>.ten.npy` and `<node>.ten.csv` hold float64 numbers, `<node>.cat.txt` category values, one a line, and
`.links.csv` the links. In the folder of a node, the first dimension of a tensor counts its instances.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from easeml_core.bucket.leftovers import is_leftover
from easeml_core.schema.links import Edge, parse_link
from easeml_core.schema.model import is_name

CLASS_END = ".class.txt"
LINKS_END = "links.csv"
_NPY, _CSV, _CATEGORY = ".ten.npy", ".ten.csv", ".cat.txt"
_MAX_TEXT = 64 * 1024**2
Note = Callable[[Path, str], None]


@dataclass(frozen=True, slots=True)
class Held:
    """What a file holds: `dims` of a tensor, else None; `values` of a category."""

    dims: tuple[int, ...] | None = None
    values: tuple[str, ...] = ()

    @property
    def what(self) -> str:
        """In one word."""
        return "category" if self.dims is None else "tensor"


@dataclass(slots=True)
class Sample:
    """`singletons` by node; `fields` by node and field, without the dimension that counts instances;
    `instances` by node; `links` is None without a file of links."""

    singletons: dict[str, Held] = field(default_factory=dict)
    fields: dict[str, dict[str, Held]] = field(default_factory=dict)
    instances: dict[str, int] = field(default_factory=dict)
    links: set[Edge] | None = None


def entries(folder: Path, note: Note) -> list[os.DirEntry[str]]:
    """Files and folders by name, without leftovers; anything else is noted."""
    kept = []
    with os.scandir(folder) as found:
        for entry in sorted(found, key=lambda e: e.name):
            if is_leftover(entry.name):
                continue
            if entry.is_symlink() or not (entry.is_dir() or entry.is_file()):
                note(Path(entry.path), "is a link or a device; only files are allowed")
            else:
                kept.append(entry)
    return kept


def read_lines(path: Path, note: Note) -> list[str]:
    """The lines of a text, without blanks around them; blank lines at the end do not count."""
    if path.stat().st_size > _MAX_TEXT:
        note(path, f"is larger than {_MAX_TEXT:,} bytes")
        return []
    try:
        return [line.strip() for line in path.read_text("utf-8-sig").rstrip().splitlines()]
    except UnicodeDecodeError:
        note(path, "is not UTF-8")
        return []


def read_sample(folder: Path, note: Note) -> Sample:
    """Read what is there; what is wrong is noted and left out."""
    sample = Sample()
    for entry in entries(folder, note):
        path = Path(entry.path)
        if entry.is_dir():
            if not is_name(entry.name):
                note(path, "is no name of a node (a-z, 0-9 and _, no digit first)")
            else:
                _read_node(path, sample, note)
        elif entry.name in (LINKS_END, f".{LINKS_END}") or entry.name.endswith(f".{LINKS_END}"):
            if sample.links is not None:
                note(path, "is a second file of links; one is allowed")
            sample.links = _read_links(path, note)
        else:
            name, held = _read_field(path, note, many=False)
            if held is None:
                continue
            if held.dims is None and len(held.values) != 1:
                note(path, f"holds {len(held.values)} values; outside of a node's folder it holds one")
            elif name in sample.singletons:
                note(path, f"is a second file of {name}")
            else:
                sample.singletons[name] = held
    for name in sample.singletons.keys() & sample.fields.keys():
        note(folder, f"holds both a file and a folder of {name}")
    return sample


def _read_node(folder: Path, sample: Sample, note: Note) -> None:
    fields: dict[str, Held] = {}
    counts: dict[str, int] = {}
    for entry in entries(folder, note):
        path = Path(entry.path)
        if entry.is_dir() or entry.name.endswith(LINKS_END):
            note(path, "has no place in the folder of a node")
            continue
        name, held = _read_field(path, note, many=True)
        if held is None:
            continue
        if name in fields:
            note(path, f"is a second file of {name}")
        counts[name] = len(held.values) if held.dims is None else held.dims[0]
        fields[name] = held if held.dims is None else Held(held.dims[1:])
    if not fields:
        note(folder, "holds no field")
        return
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{count} in {name}" for name, count in counts.items())
        note(folder, f"has fields of different numbers of instances: {told}")
    sample.fields[folder.name] = fields
    sample.instances[folder.name] = min(counts.values())


def _read_field(path: Path, note: Note, *, many: bool) -> tuple[str, Held | None]:
    for end, read in ((_NPY, _npy_shape), (_CSV, _csv_shape), (_CATEGORY, None)):
        if not path.name.endswith(end):
            continue
        name = path.name.removesuffix(end)
        if not is_name(name):
            note(path, f"{name!r} is no name (a-z, 0-9 and _, no digit first)")
            return name, None
        if read is None:
            return name, Held(values=tuple(read_lines(path, note)))
        dims = read(path, note, many)
        if dims is not None and (len(dims) < (2 if many else 1) or min(dims[1:] if many else dims) < 1):
            wanted = "an instance count and at least one dimension" if many else "at least one dimension"
            note(path, f"has shape {list(dims)}; {wanted}, none of them 0, is needed")
            dims = None
        return name, None if dims is None else Held(dims)
    note(path, f"must end with {_NPY}, {_CSV}, {_CATEGORY} or .{LINKS_END}")
    return path.name, None


def _npy_shape(path: Path, note: Note, many: bool) -> tuple[int, ...] | None:
    try:
        with path.open("rb") as file:
            version = np.lib.format.read_magic(file)
            read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
            shape, _, dtype = read[version](file)
            left = path.stat().st_size - file.tell()
    except (ValueError, KeyError, EOFError, OSError) as error:
        note(path, f"is no .npy file that can be read: {str(error)[:100]}")
        return None
    if dtype != np.dtype("float64"):
        note(path, f"holds {dtype} numbers; ease.ml's tensors are float64")
        return None
    if left < 8 * math.prod(shape):
        note(path, "is cut off")
        return None
    return tuple(map(int, shape))


def _csv_shape(path: Path, note: Note, many: bool) -> tuple[int, ...] | None:
    lines = read_lines(path, note)
    rows = [line.split(",") for line in lines]
    if len({len(row) for row in rows}) != 1:
        note(path, "has rows of different lengths" if rows else "is empty")
        return None
    try:
        for row in rows:
            list(map(float, row))
    except ValueError as error:
        note(path, f"holds what is no number: {str(error)[:100]}")
        return None
    shape = (len(rows), len(rows[0]))
    # One row, or one column, is a vector; in the folder of a node each row is an instance.
    return shape if many or min(shape) > 1 else (max(shape),)


def _read_links(path: Path, note: Note) -> set[Edge]:
    links = set()
    for number, line in enumerate(read_lines(path, note), 1):
        link = parse_link(line)
        if link is not None:
            links.add(link)
        elif line:
            note(path, f"line {number} must be like `node/0 node/1`; got {line[:80]!r}")
            break
    return links
