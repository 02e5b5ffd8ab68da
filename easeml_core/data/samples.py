"""Reads data set directories of ease.ml: a folder per sample, with a file per tensor or category.

`[train|val]/input/<sample>/…` beside `[train|val]/output/<sample>/…` (or `in` and `out`). A record without
links is the files `<field>.ten.npy` or `<field>.ten.csv` themselves, a class `<field>.cat.txt`; records with
links are a folder of such files, whose first dimension counts the records, and `links.csv` (or `.links.csv`)
beside it, with a line `node/0 node/1` for each record that leads to another. The links of a record come in
the order of the program's; where no sample has that file, the records of each are one chain.
`<class>.class.txt` lists classes: a category among the inputs is a tensor of as many numbers, 1 for its class
and 0 for the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from easeml_core.data.findings import Findings, listed
from easeml_core.data.forms import Example, Form, names_split, split_hint
from easeml_core.data.jsonlines import types_of, value_of
from easeml_core.data.records import Malformed, Nodes, arrange, chain, finite_numbers
from easeml_core.data.sample_fields import in_order, read_names, rows_of
from easeml_core.data.sources import CATEGORY_END, CLASS_END, LINK_FILES, TENSOR_ENDS
from easeml_core.data.text import open_text
from easeml_core.data.tree import SourceFile
from easeml_core.errors import TenantError
from easeml_core.language import DataType, Tensor

_SIDES = {"input": "in", "in": "in", "output": "out", "out": "out"}


def read_samples(
    files: Sequence[SourceFile], form: Form, findings: Findings, *, labelled: bool
) -> Iterator[Example]:
    """One example per sample, in order of names; problems and broken samples go to `findings`."""
    sides: dict[str, dict[str, _Sample]] = {"in": {}, "out": {}}
    classes = _class_lists(files, findings)
    for file in files:
        if file.name.lower().endswith(CLASS_END):
            continue
        side, name, inner = _place(file, labelled)
        if name is None:
            text = "lies in no folder `input/<sample>` or `output/<sample>`"
            findings.problem(f"data/{file.name}", text, fix="use the layout of an ease.ml data set directory")
            continue
        sides[side].setdefault(name, _Sample(classes)).files[inner] = file
    for samples in sides.values():
        linked = any(sample.link_file is not None for sample in samples.values())
        for sample in samples.values():
            sample.linked = linked
    if labelled and not _partners(sides, form, findings):
        return
    for name, sample in sides["in"].items():
        try:
            example = _example(name, sample, sides["out"].get(name), form, labelled=labelled)
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
    """The files of one side of a sample, by their place in its folder; `classes` are the lists of classes
    that the data set has, `linked` says whether any sample of that side has a file of links."""

    def __init__(self, classes: Sequence[tuple[str, ...]]) -> None:
        self.classes = classes
        self.files: dict[str, SourceFile] = {}
        self.linked = False

    @property
    def link_file(self) -> SourceFile | None:
        return next((self.files[name] for name in LINK_FILES if name in self.files), None)

    def object(self, record: DataType) -> Nodes:
        """The object of type `record` that the files hold. Raises `Malformed`."""
        ends = (*TENSOR_ENDS, CATEGORY_END)
        fields = {place: file for place, file in self.files.items() if place.endswith(ends)}
        folders = {place.rpartition("/")[0] for place in fields}
        if len(folders) != 1:
            raise Malformed(f"its tensors must be in one folder; they are in {len(folders)}")
        (folder,) = folders
        many = bool(folder)
        if record.links and not many:
            raise Malformed("its tensors must be in a folder of their own, one row per record")
        parts = [
            rows_of(fields[place], tensor, many, self.classes)
            for place, tensor in zip(in_order(list(fields), record), record.tensors, strict=True)
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

    def label(self) -> str:
        """The class that the files name. Raises `Malformed`."""
        found = [file for place, file in self.files.items() if place.endswith(CATEGORY_END)]
        if len(found) != 1:
            raise Malformed(f"its output must be one class, in a file `<field>{CATEGORY_END}`")
        names = read_names(found[0])
        if len(names) != 1:
            raise Malformed(f"its output names {len(names)} classes; one is needed")
        if self.classes and not any(names[0] in known for known in self.classes):
            raise Malformed(f"its class {names[0][:40]!r} is not in the list of classes")
        return names[0]

    def _children(self, folder: str, count: int, links: int) -> npt.NDArray[np.int64]:
        if links == 1 and not self.linked:
            return chain(count)
        if self.link_file is None and self.linked and count > 1:
            raise Malformed("it has no file of links, and other samples have one")
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
        if (file := self.link_file) is None:
            return
        with open_text(file.path, f"data/{file.name}") as stream:
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
        example.label = wanted.label()
    return example


def _class_lists(files: Sequence[SourceFile], findings: Findings) -> list[tuple[str, ...]]:
    lists: dict[tuple[str, ...], None] = {}
    for file in files:
        if file.name.lower().endswith(CLASS_END):
            try:
                lists[read_names(file)] = None
            except TenantError as error:
                findings.problems.extend(error.problems)
    return list(lists)
