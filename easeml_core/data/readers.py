"""Turns a whole tree of files into examples, each file by its reader."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from easeml_core.data import series, tables
from easeml_core.data.classes import Place, place_by_folder
from easeml_core.data.findings import Findings, listed
from easeml_core.data.forms import Example, Form
from easeml_core.data.limits import Limits
from easeml_core.data.sources import Sources
from easeml_core.data.tree import Tree
from easeml_core.data.units import Units


def read_examples(
    tree: Tree,
    sources: Sources,
    form: Form,
    units: Units,
    limits: Limits,
    scratch: Path,
    findings: Findings,
    *,
    labelled: bool,
) -> Iterator[Example]:
    """All examples of an upload, in order of file names and in `units`; `scratch` is an empty folder for
    temporary files."""
    examples = _read(tree, sources, form, units, limits, scratch, findings, labelled=labelled)
    yield from units.checked(examples, findings)


def _read(
    tree: Tree,
    sources: Sources,
    form: Form,
    units: Units,
    limits: Limits,
    scratch: Path,
    findings: Findings,
    *,
    labelled: bool,
) -> Iterator[Example]:
    labels_from: list[str] = []
    if sources.images and labelled and form.has_answers:
        from easeml_core.data.pairs import read_pairs

        yield from read_pairs(sources.images, form, units, limits, findings)
    elif sources.images:
        yield from _read_images(tree, sources, form, units, limits, findings, labels_from, labelled=labelled)
    for file in sources.tables:
        if file.name not in labels_from:
            yield from tables.read_csv(file, form, findings, labelled=labelled)
    if sources.arrays:
        yield from _read_arrays(sources, form, units, limits, scratch, findings, labelled=labelled)
    for file in sources.series:
        yield from series.read_ts(file, form, findings, labelled=labelled)


def _read_arrays(
    sources: Sources,
    form: Form,
    units: Units,
    limits: Limits,
    scratch: Path,
    findings: Findings,
    *,
    labelled: bool,
) -> Iterator[Example]:
    from easeml_core.data.arrays import Allowance, read_npz

    allowance = Allowance.of(limits)
    for number, file in enumerate(sources.arrays):
        folder = scratch / f"npz-{number}"
        folder.mkdir()
        try:
            yield from read_npz(file, form, units, allowance, folder, findings, labelled=labelled)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _read_images(
    tree: Tree,
    sources: Sources,
    form: Form,
    units: Units,
    limits: Limits,
    findings: Findings,
    labels_from: list[str],
    *,
    labelled: bool,
) -> Iterator[Example]:
    from easeml_core.data.deep import Broken
    from easeml_core.data.images import read_image

    places: dict[str, Place] = {}
    if labelled:
        places = _labels_by_table(sources, findings, labels_from)
        if not labels_from:
            places = place_by_folder(tree, sources.images, findings)
    for file in sources.images:
        if labelled and file.name not in places:
            continue
        try:
            value = read_image(file.path, form.shape, units, limits.max_pixels, findings)
        except Broken as broken:
            findings.quarantine(f"data/{file.name}", str(broken))
            continue
        label, split = places.get(file.name, (None, None))
        yield Example(file.name, f"data/{file.name}", value, label=label, split=split)


def _labels_by_table(sources: Sources, findings: Findings, labels_from: list[str]) -> dict[str, Place]:
    places: dict[str, Place] = {}
    for table in sources.tables:
        labels = tables.file_labels(table, findings)
        if labels is None:
            continue
        labels_from.append(table.name)
        folder = table.name.rpartition("/")[0]
        by_name = {file.name: file for file in sources.images}
        short = {file.name.rpartition("/")[2]: file.name for file in sources.images}
        missing = []
        for name, label in labels.items():
            full = f"{folder}/{name}" if folder else name
            found = full if full in by_name else name if name in by_name else short.get(name)
            if found is None:
                missing.append(name)
            else:
                places[found] = (label, None)
        if missing:
            text = f"names files that are not there: {listed(missing)}"
            findings.problem(f"data/{table.name}", text, fix="upload them or remove their rows")
    if labels_from:
        unlabelled = [file.name for file in sources.images if file.name not in places]
        if unlabelled:
            text = f"gives no label to {listed(unlabelled)}"
            findings.problem(f"data/{labels_from[0]}", text, fix="add their rows or remove the files")
    return places
