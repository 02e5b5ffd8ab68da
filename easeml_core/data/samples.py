"""Reads data set directories of ease.ml: a folder per sample, with a file per tensor or category.

`[train|val]/input/<sample>/…` beside `[train|val]/output/<sample>/…` (or `in` and `out`). A record without
links is the files `<field>.ten.npy` or `<field>.ten.csv` themselves, a class `<field>.cat.txt`; records with
links are a folder of such files, whose first dimension counts the records, and `links.csv` (or `.links.csv`)
beside it, with a line `node/0 node/1` for each record that leads to another. The links of a record come in
the order of the program's. `<class>.class.txt`, where it is there, lists the classes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt

from easeml_core.data.findings import Findings, listed
from easeml_core.data.forms import Example, Form, names_split, split_hint
from easeml_core.data.jsonlines import types_of, value_of
from easeml_core.data.records import MAX_NODES, Malformed, Nodes, arrange, finite_numbers
from easeml_core.data.sources import CATEGORY_END, CLASS_END, LINK_FILES, TENSOR_ENDS
from easeml_core.data.text import number, open_text, plain
from easeml_core.data.tree import SourceFile
from easeml_core.errors import TenantError
from easeml_core.language import DataType, Tensor

_SIDES = {"input": "in", "in": "in", "output": "out", "out": "out"}
_LARGEST_CSV = 64 << 20  # bytes; the text of a tensor, which is read as a whole


def read_samples(
    files: Sequence[SourceFile], form: Form, findings: Findings, *, labelled: bool
) -> Iterator[Example]:
    """One example per sample, in order of names; problems and broken samples go to `findings`."""
    sides: dict[str, dict[str, _Sample]] = {"in": {}, "out": {}}
    classes: list[SourceFile] = []
    for file in files:
        if file.name.lower().endswith(CLASS_END):
            classes.append(file)
            continue
        side, name, inner = _place(file, labelled)
        if name is None:
            text = "lies in no folder `input/<sample>` or `output/<sample>`"
            findings.problem(f"data/{file.name}", text, fix="use the layout of an ease.ml data set directory")
            continue
        sides[side].setdefault(name, _Sample(name)).files[inner] = file
    known = _classes(classes, findings)
    if labelled and not _partners(sides, form, findings):
        return
    for name, sample in sides["in"].items():
        try:
            example = _example(name, sample, sides["out"].get(name), form, known, labelled=labelled)
        except Malformed as error:
            findings.quarantine(f"data/{name}", str(error))
        except TenantError as error:
            findings.quarantine(f"data/{name}", error.problems[0].message)
        else:
            yield example


def side_folders(files: Sequence[SourceFile]) -> tuple[list[Path], list[Path]]:
    """The folders `input` and the folders `output` that `files` lie in, as they are on disk now."""
    found: dict[str, dict[Path, None]] = {"in": {}, "out": {}}
    for file in files:
        parts = file.name.split("/")
        at = next((i for i, part in enumerate(parts[:-1]) if part.lower() in _SIDES), None)
        if at is not None:
            found[_SIDES[parts[at].lower()]][file.path.parents[len(parts) - 2 - at]] = None
    return list(found["in"]), list(found["out"])


class _Sample:
    """The files of one side of a sample, by their place in its folder."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.files: dict[str, SourceFile] = {}

    def object(self, record: DataType) -> Nodes:
        """The object of type `record` that the files hold. Raises `Malformed`."""
        tensors = {place: file for place, file in self.files.items() if place.endswith(TENSOR_ENDS)}
        folders = {place.rpartition("/")[0] for place in tensors}
        if len(folders) != 1:
            raise Malformed(f"its tensors must be in one folder; they are in {len(folders)}")
        (folder,) = folders
        many = bool(folder)
        if record.links and not many:
            raise Malformed("its tensors must be in a folder of their own, one row per record")
        parts = [
            _rows(tensors[place], tensor, many)
            for place, tensor in zip(_in_order(list(tensors), record), record.tensors, strict=True)
        ]
        counts = {len(part) for part in parts}
        if len(counts) > 1:
            raise Malformed(f"its tensors have different numbers of records: {sorted(counts)}")
        values = finite_numbers(np.concatenate(parts, axis=1))
        if not record.links:
            if len(values) != 1:
                raise Malformed(f"it has {len(values)} records; the program, without links, wants one")
            return Nodes(values, np.zeros((1, 0), np.int64))
        return arrange(values, self._children(folder, len(values), len(record.links)))

    def _children(self, folder: str, count: int, links: int) -> npt.NDArray[np.int64]:
        children = np.full((count, links), -1, dtype=np.int64)
        taken = [0] * count
        for source, target in self._links(folder):
            if not (source < count and target < count):
                raise Malformed(f"it links {source} to {target}, and has {count} records")
            if taken[source] >= links:
                raise Malformed(f"record {source} has more than the {links} links of the program")
            children[source, taken[source]] = target
            taken[source] += 1
        return children

    def _links(self, folder: str) -> Iterator[tuple[int, int]]:
        file = next((self.files[name] for name in LINK_FILES if name in self.files), None)
        if file is None:
            return
        with open_text(file.path, file.name) as stream:
            for line, text in enumerate(stream, 1):
                cells = text.replace(",", " ").split()
                if not cells:
                    continue
                ends = [cell.rpartition("/") for cell in cells]
                known = all(node == folder and _is_index(index) for node, _, index in ends)
                if len(cells) != 2 or not known:
                    raise Malformed(f"line {line} of its links must be `{folder}/0 {folder}/1`")
                yield int(ends[0][2]), int(ends[1][2])


def _is_index(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def _place(file: SourceFile, labelled: bool) -> tuple[str, str | None, str]:
    """Side, sample, and the place in the sample's folder."""
    parts = file.name.split("/")
    at = next((i for i, part in enumerate(parts[:-1]) if part.lower() in _SIDES), None)
    if at is None:
        # A request to predict may hold the samples alone.
        return ("in", parts[0], "/".join(parts[1:])) if not labelled and len(parts) > 1 else ("in", None, "")
    if len(parts) < at + 3:
        return _SIDES[parts[at].lower()], None, ""
    name = "/".join([*parts[:at], parts[at + 1]])
    return _SIDES[parts[at].lower()], name, "/".join(parts[at + 2 :])


def _partners(sides: dict[str, dict[str, _Sample]], form: Form, findings: Findings) -> bool:
    if form.recovers_itself:
        return True
    for side, other, said in (("in", "out", "output"), ("out", "in", "input")):
        alone = sorted(sides[side].keys() - sides[other].keys())
        if alone:
            findings.problem("data", f"samples without {said}: {listed(alone)}", fix="add it or remove them")
    return not findings.problems


def _example(
    name: str,
    given: _Sample,
    wanted: _Sample | None,
    form: Form,
    classes: frozenset[str],
    *,
    labelled: bool,
) -> Example:
    input_type, output_type = types_of(form)
    nodes = given.object(input_type)
    hint = split_hint(*filter(names_split, name.split("/")[:-1]))
    example = Example(name, f"data/{name}", value_of(nodes, form), split=hint)
    example.children = nodes.children if form.kind == "tree" else None
    if not labelled or wanted is None:
        return example
    if output_type is not None:
        example.answer = value_of(wanted.object(output_type), form, answer=True)
    elif form.task_kind == "regression":
        values = wanted.object(DataType((Tensor((form.outputs,)),))).values
        example.target = tuple(map(float, values[0]))
    else:
        example.label = _label(wanted, classes)
    return example


def _label(wanted: _Sample, classes: frozenset[str]) -> str:
    found = [file for place, file in wanted.files.items() if place.lower().endswith(CATEGORY_END)]
    if len(found) != 1:
        raise Malformed(f"its output must be one class, in a file `<field>{CATEGORY_END}`")
    with open_text(found[0].path, found[0].name) as stream:
        lines = [plain(line) for line in stream if line.strip()]
    if len(lines) != 1:
        raise Malformed(f"its output names {len(lines)} classes; one is needed")
    if classes and lines[0] not in classes:
        raise Malformed(f"its class {lines[0][:40]!r} is not in the list of classes")
    return lines[0]


def _classes(files: Sequence[SourceFile], findings: Findings) -> frozenset[str]:
    names: set[str] = set()
    for file in files:
        try:
            with open_text(file.path, f"data/{file.name}") as stream:
                names.update(plain(line) for line in stream if line.strip())
        except TenantError as error:
            findings.problems.extend(error.problems)
    return frozenset(names)


def _in_order(places: list[str], record: DataType) -> list[str]:
    """The files of a record's tensors, in the program's order: by name, else by the order of their names."""
    if len(places) != len(record.tensors):
        raise Malformed(f"it has {len(places)} tensors per record; the program wants {len(record.tensors)}")
    by_name = {PurePosixPath(place).name.partition(".")[0]: place for place in places}
    names = [tensor.name for tensor in record.tensors]
    if all(name in by_name for name in names):
        return [by_name[str(name)] for name in names]
    return sorted(places)


def _rows(file: SourceFile, tensor: Tensor, many: bool) -> npt.NDArray[Any]:
    """The numbers of one tensor, a row per record."""
    array = _table(file) if file.suffix == ".csv" else _array(file)
    if array.dtype.kind not in "iuf" or array.size == 0:
        raise Malformed(f"{PurePosixPath(file.name).name} must be an array of numbers, and not empty")
    size = math.prod(tensor.dims)
    if many and len(array) > MAX_NODES:
        raise Malformed(f"it has more than {MAX_NODES:,} records")
    fits = array.shape == tensor.dims or (file.suffix == ".csv" and array.size == size)
    if many:
        fits = array.shape[1:] == tensor.dims or (file.suffix == ".csv" and array.shape[1:] == (size,))
    if not fits:
        wanted = ("records, " if many else "") + ", ".join(map(str, tensor.dims))
        raise Malformed(f"{PurePosixPath(file.name).name} has shape {array.shape}; wanted is ({wanted})")
    return array.reshape(len(array) if many else 1, size)


def _array(file: SourceFile) -> npt.NDArray[Any]:
    try:
        array: npt.NDArray[Any] = np.load(file.path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # numpy raises many classes on broken input
        raise Malformed(f"{PurePosixPath(file.name).name} cannot be read: {error}") from None
    return array


def _table(file: SourceFile) -> npt.NDArray[Any]:
    if file.path.stat().st_size > _LARGEST_CSV:
        raise Malformed(f"{PurePosixPath(file.name).name} is too large for text; save it as .ten.npy")
    with open_text(file.path, file.name) as stream:
        rows = [[number(cell) for cell in line.strip().split(",")] for line in stream if line.strip()]
    if len({len(row) for row in rows}) > 1 or any(cell is None for row in rows for cell in row):
        raise Malformed(f"{PurePosixPath(file.name).name} must be rows of as many numbers, with commas")
    return np.array(rows, dtype=np.float64)
