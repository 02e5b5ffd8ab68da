"""Turns a whole tree of files into examples, each file by its reader."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Reading:
    """What is read, and how: the files of `tree`, sorted as `sources`, into examples of `form` in `units`.

    `labelled`: whether they must say what is to be answered. `scratch` is an empty folder for temporary
    files; what is found out goes to `findings`.
    """

    tree: Tree
    sources: Sources
    form: Form
    units: Units
    limits: Limits
    scratch: Path
    findings: Findings
    labelled: bool


def read_examples(reading: Reading) -> Iterator[Example]:
    """All examples of an upload, in order of file names within each kind of file."""
    yield from reading.units.checked(_read(reading), reading.findings)


def _read(reading: Reading) -> Iterator[Example]:
    sources, form, findings, labelled = reading.sources, reading.form, reading.findings, reading.labelled
    labels_from: list[str] = []
    if sources.images and labelled and form.has_answers:
        from easeml_core.data.pairs import read_pairs

        yield from read_pairs(sources.images, form, reading.units, reading.limits, findings)
    elif sources.images:
        yield from _read_images(reading, labels_from)
    for file in sources.tables:
        if file.name not in labels_from:
            yield from _read_table(file, reading)
    if sources.arrays:
        yield from _read_arrays(reading)
    for file in sources.series:
        yield from series.read_ts(file, form, findings, labelled=labelled)
    if sources.lines or sources.samples or sources.objects:
        yield from _read_records(reading)


def _read_table(file: SourceFile, reading: Reading) -> Iterator[Example]:
    form, findings, labelled = reading.form, reading.findings, reading.labelled
    if file.suffix not in PARQUET_ENDS:
        yield from tables.read_csv(file, form, findings, labelled=labelled)
        return
    from easeml_core.data.parquet import read_parquet

    yield from read_parquet(file, form, reading.limits.max_rows, findings, labelled=labelled)


def _read_records(reading: Reading) -> Iterator[Example]:
    from easeml_core.data.jsonlines import read_jsonl
    from easeml_core.data.objects import read_objects
    from easeml_core.data.samples import read_samples

    sources, form, findings, labelled = reading.sources, reading.form, reading.findings, reading.labelled
    for file in sources.lines:
        yield from read_jsonl(file, form, findings, labelled=labelled)
    yield from read_samples(sources.samples, form, findings, labelled=labelled)
    yield from read_objects(reading.tree, sources.objects, form, findings, labelled=labelled)


def _read_arrays(reading: Reading) -> Iterator[Example]:
    from easeml_core.data.array_files import Allowance, together
    from easeml_core.data.arrays import read_arrays

    allowance = Allowance.of(reading.limits)
    for number, files in enumerate(together(reading.sources.arrays)):
        folder = reading.scratch / f"arrays-{number}"
        folder.mkdir()
        try:
            yield from read_arrays(
                files,
                reading.form,
                reading.units,
                allowance,
                folder,
                reading.findings,
                labelled=reading.labelled,
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _read_images(reading: Reading, labels_from: list[str]) -> Iterator[Example]:
    """The images, each an example; the tables that label them are added to `labels_from`."""
    from easeml_core.data.deep import Broken
    from easeml_core.data.images import read_image

    sources, findings = reading.sources, reading.findings
    places: dict[str, Place] = {}
    if reading.labelled:
        places, named = place_by_tables(sources.tables, sources.images, findings)
        labels_from += named
        if not named:
            places = place_by_folder(reading.tree, sources.images, findings)
    for file in sources.images:
        if reading.labelled and file.name not in places:
            continue
        try:
            value = read_image(
                file.path, reading.form.shape, reading.units, reading.limits.max_pixels, findings
            )
        except Broken as broken:
            findings.quarantine(f"data/{file.name}", str(broken))
            continue
        label, split = places.get(file.name, (None, None))
        yield Example(file.name, f"data/{file.name}", value, label=label, split=split)
