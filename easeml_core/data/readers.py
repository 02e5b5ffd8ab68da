"""Turns a whole tree of files into examples, each file by its reader."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from easeml_core.data import series, tables
from easeml_core.data.classes import Place, place_by_folder
from easeml_core.data.findings import Findings
from easeml_core.data.forms import Example, Form
from easeml_core.data.label_tables import place_by_tables
from easeml_core.data.limits import Limits
from easeml_core.data.sources import PARQUET_ENDS, Sources
from easeml_core.data.tree import SourceFile, Tree
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
            yield from _read_table(file, form, limits, findings, labelled=labelled)
    if sources.arrays:
        yield from _read_arrays(sources, form, units, limits, scratch, findings, labelled=labelled)
    for file in sources.series:
        yield from series.read_ts(file, form, findings, labelled=labelled)
    if sources.lines or sources.samples or sources.objects:
        yield from _read_records(tree, sources, form, findings, labelled=labelled)


def _read_table(
    file: SourceFile, form: Form, limits: Limits, findings: Findings, *, labelled: bool
) -> Iterator[Example]:
    if file.suffix not in PARQUET_ENDS:
        yield from tables.read_csv(file, form, findings, labelled=labelled)
        return
    from easeml_core.data.parquet import read_parquet

    yield from read_parquet(file, form, limits.max_rows, findings, labelled=labelled)


def _read_records(
    tree: Tree, sources: Sources, form: Form, findings: Findings, *, labelled: bool
) -> Iterator[Example]:
    from easeml_core.data.jsonlines import read_jsonl
    from easeml_core.data.objects import read_objects
    from easeml_core.data.samples import read_samples

    for file in sources.lines:
        yield from read_jsonl(file, form, findings, labelled=labelled)
    yield from read_samples(sources.samples, form, findings, labelled=labelled)
    yield from read_objects(tree, sources.objects, form, findings, labelled=labelled)


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
        places, named = place_by_tables(sources.tables, sources.images, findings)
        labels_from += named
        if not named:
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
