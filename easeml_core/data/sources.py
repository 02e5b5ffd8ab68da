"""Sorts the files of one upload by the reader they need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from easeml_core.data.findings import Findings, listed
from easeml_core.data.forms import Form
from easeml_core.data.tree import SourceFile, Tree
from easeml_core.data.units import Units

TABLE_ENDS = (".csv", ".tsv")
PARQUET_ENDS = (".parquet", ".pq")
ARRAY_ENDS = (".npz", ".npy")
SERIES_ENDS = (".ts",)
LINES_ENDS = (".jsonl", ".ndjson")
TENSOR_ENDS = (".ten.npy", ".ten.csv")
CATEGORY_END, CLASS_END = ".cat.txt", ".class.txt"
LINK_FILES = ("links.csv", ".links.csv")
IMAGE_ENDS = (
    ".png", ".jpg", ".jpeg", ".jpe", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm", ".pbm", ".pnm"
)  # fmt: skip

EVERY_FORM = (
    "a folder per class of images, .npz, .npy, .csv, .parquet, .ts, .jsonl, a data set directory of ease.ml, "
    "a folder per class of any other files, or a .zip or .tar of one"
)
_PACKED = "a data set directory of ease.ml, or a .zip or .tar of these"
_ALLOWED = {
    ("image", "classification"): f"images (in a folder per class), .npz, .npy, .csv, {_PACKED}",
    ("image", "recovery"): f"images (in folders inputs and targets, named alike), .npz, .npy, {_PACKED}",
    ("vector", ""): f".csv, .parquet, .npz, .npy, .jsonl, {_PACKED}",
    ("series", ""): f".ts, .npz, .npy, .csv, .parquet, .jsonl, {_PACKED}",
    ("series", "translation"): f".npz, .npy, .jsonl, {_PACKED}",
    ("tree", ""): f".jsonl, {_PACKED}",
    ("bytes", "classification"): f".jsonl, files of any type (in a folder per class), {_PACKED}",
    ("bytes", "recovery"): f".jsonl, files of any type, {_PACKED}",
}


@dataclass(frozen=True, slots=True)
class Sources:
    """The files of one upload by the reader they need."""

    images: tuple[SourceFile, ...] = ()
    tables: tuple[SourceFile, ...] = ()
    arrays: tuple[SourceFile, ...] = ()
    series: tuple[SourceFile, ...] = ()
    lines: tuple[SourceFile, ...] = ()
    samples: tuple[SourceFile, ...] = ()
    objects: tuple[SourceFile, ...] = ()

    @classmethod
    def of(cls, tree: Tree, form: Form, findings: Findings) -> Sources:
        """Sort the files of `tree`; those of no use for `form` are dropped and named in a warning."""
        samples = find_samples(tree.files)
        taken = {file.name for file in samples}
        others = [file for file in tree.files if file.name not in taken]
        found = {name: _ending(others, ends) for name, ends in _ends_for(form).items()}
        found["samples"] = samples
        if form.kind == "bytes" and not form.has_answers and not any(found.values()):
            found["objects"] = tuple(others)
        used = {file.name for files in found.values() for file in files}
        unused = [file.name for file in tree.files if file.name not in used]
        for name in unused:
            findings.drop(name)
        if not used and findings.wrong:
            pass  # it may all be in what cannot be unpacked
        elif not used:
            said = f"found {listed(unused)}" if unused else "found nothing"
            fix = f"for {form} upload {allowed(form)}"
            findings.problem("data", f"has no file that can be read; {said}", fix=fix)
        elif unused:
            findings.warnings.append(f"files of no known type were left out: {listed(unused)}")
        return cls(**found)

    def units(self, form: Form, findings: Findings) -> Units:
        """In which units inputs, and images to recover, are stored; what has no common ones is a problem."""
        if form.kind != "image":
            return Units.choose(set(), set(), False, form, findings)
        from easeml_core.data.array_files import together
        from easeml_core.data.arrays import number_types
        from easeml_core.data.deep import depths

        groups = together(self.arrays)
        types = {found for files in groups for found in number_types(files, targets=form.has_answers)}
        if self.samples:
            types.add(np.dtype(np.float32))
        # Beside images a table holds file names, not pixels.
        pixels = bool(self.tables) and not self.images
        return Units.choose(depths(file.path for file in self.images), types, pixels, form, findings)


def allowed(form: Form) -> str:
    """The forms of data that can be read for `form`, in words."""
    return _ALLOWED.get((form.kind, form.task_kind)) or _ALLOWED[form.kind, ""]


def _ends_for(form: Form) -> dict[str, tuple[str, ...]]:
    """Endings of the files that `form` can be read from, by their reader."""
    ends: dict[str, tuple[str, ...]] = {}
    if form.kind in ("image", "vector", "series"):
        ends["arrays"] = ARRAY_ENDS
        if not form.has_answers:
            ends["tables"] = TABLE_ENDS if form.kind == "image" else (*TABLE_ENDS, *PARQUET_ENDS)
    if form.kind == "image":
        ends["images"] = IMAGE_ENDS
    else:
        ends["lines"] = LINES_ENDS
    if form.kind == "series" and not form.has_answers:
        ends["series"] = SERIES_ENDS
    return ends


def find_samples(files: Sequence[SourceFile]) -> tuple[SourceFile, ...]:
    """The files of data set directories of ease.ml."""
    if not any(file.name.lower().endswith((*TENSOR_ENDS, CATEGORY_END)) for file in files):
        return ()  # a `links.csv` alone may be any table
    return tuple(file for file in files if is_sample_file(file.name))


def is_sample_file(name: str) -> bool:
    """Whether a file of this name may belong to a data set directory of ease.ml."""
    last = name.lower().rpartition("/")[2]
    return last in LINK_FILES or last.endswith((*TENSOR_ENDS, CATEGORY_END, CLASS_END))


def _ending(files: Sequence[SourceFile], suffixes: tuple[str, ...]) -> tuple[SourceFile, ...]:
    return tuple(file for file in files if file.suffix in suffixes)
