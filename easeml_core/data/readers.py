"""Chooses the reader of each file, and turns a whole tree of files into examples."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from easeml_core.data import series, tables
from easeml_core.data.classes import Place, place_by_folder
from easeml_core.data.findings import Findings, listed
from easeml_core.data.forms import Example, Form
from easeml_core.data.limits import Limits
from easeml_core.data.tree import SourceFile, Tree

_TABLE_ENDS = (".csv", ".tsv")
_IMAGE_ENDS = (
    ".png", ".jpg", ".jpeg", ".jpe", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm", ".pbm", ".pnm"
)  # fmt: skip
_ALLOWED = {
    "image": "images (in a folder per class), .npz, .csv, or a .zip or .tar of these",
    "vector": ".csv, .npz, or a .zip or .tar of these",
    "series": ".ts, .npz, .csv, or a .zip or .tar of these",
}


@dataclass(frozen=True, slots=True)
class Sources:
    """The files of one upload by the reader they need."""

    images: tuple[SourceFile, ...]
    tables: tuple[SourceFile, ...]
    arrays: tuple[SourceFile, ...]
    series: tuple[SourceFile, ...]

    @classmethod
    def of(cls, tree: Tree, form: Form, findings: Findings) -> Sources:
        """Sort the files of `tree`; those of no use for `form` are dropped and named in a warning."""
        images = [f for f in tree.files if f.suffix in _IMAGE_ENDS] if form.kind == "image" else []
        tables = [f for f in tree.files if f.suffix in _TABLE_ENDS]
        arrays = [f for f in tree.files if f.suffix == ".npz"]
        ts = [f for f in tree.files if f.suffix in series.ENDS] if form.kind == "series" else []
        used = {f.name for f in (*images, *tables, *arrays, *ts)}
        unused = [f.name for f in tree.files if f.name not in used]
        for name in unused:
            findings.drop(name)
        if not used:
            found = f"found {listed(unused)}" if unused else "found nothing"
            fix = f"for {form} upload {_ALLOWED[form.kind]}"
            findings.problem("data", f"has no file that can be read; {found}", fix=fix)
        elif unused:
            findings.warnings.append(f"files of no known type were left out: {listed(unused)}")
        return cls(tuple(images), tuple(tables), tuple(arrays), tuple(ts))

    def dtype(self, form: Form, findings: Findings) -> str:
        """How inputs are stored: "uint8" for images that all have 8 bits per channel, else "float32"."""
        if form.kind != "image":
            return "float32"
        from easeml_core.data.arrays import is_bytes
        from easeml_core.data.images import any_deep

        bytes_only = all(map(is_bytes, self.arrays))
        if self.images and not bytes_only:
            text = "8-bit images and arrays of other numbers have no common unit"
            findings.problem("data", text, fix="upload only images, or arrays of type uint8")
        # Beside images a table holds file names, not pixels.
        if (self.tables and not self.images) or not bytes_only:
            return "float32"
        return "float32" if any_deep(f.path for f in self.images) else "uint8"


def read_examples(
    tree: Tree,
    sources: Sources,
    form: Form,
    dtype: str,
    limits: Limits,
    scratch: Path,
    findings: Findings,
    *,
    labelled: bool,
    image_top: float = 1.0,
) -> Iterator[Example]:
    """All examples of an upload, in order of file names; `scratch` is an empty folder for temporary files.

    `image_top` is what white of an image becomes where inputs are float32.
    """
    labels_from: list[str] = []
    if sources.images:
        yield from _read_images(
            tree, sources, form, dtype, limits, findings, labels_from, labelled=labelled, top=image_top
        )
    for file in sources.tables:
        if file.name not in labels_from:
            yield from tables.read_csv(file, form, findings, labelled=labelled)
    if sources.arrays:
        yield from _read_arrays(sources, form, dtype, limits, scratch, findings, labelled=labelled)
    for file in sources.series:
        yield from series.read_ts(file, form, findings, labelled=labelled)


def _read_arrays(
    sources: Sources,
    form: Form,
    dtype: str,
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
            yield from read_npz(file, form, dtype, allowance, folder, findings, labelled=labelled)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _read_images(
    tree: Tree,
    sources: Sources,
    form: Form,
    dtype: str,
    limits: Limits,
    findings: Findings,
    labels_from: list[str],
    *,
    labelled: bool,
    top: float,
) -> Iterator[Example]:
    from easeml_core.data.images import Broken, read_image

    places: dict[str, Place] = {}
    if labelled:
        places = _labels_by_table(sources, findings, labels_from)
        if not labels_from:
            places = place_by_folder(tree, sources.images, findings)
    for file in sources.images:
        if labelled and file.name not in places:
            continue
        try:
            value = read_image(file.path, form.shape, dtype, limits.max_pixels, findings, top=top)
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
