"""Sorts the files of one upload by the reader they need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from easeml_core.data.findings import Findings, listed
from easeml_core.data.forms import Form
from easeml_core.data.tree import SourceFile, Tree
from easeml_core.data.units import Units

TABLE_ENDS = (".csv", ".tsv")
ARRAY_ENDS = (".npz",)
SERIES_ENDS = (".ts",)
IMAGE_ENDS = (
    ".png", ".jpg", ".jpeg", ".jpe", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm", ".pbm", ".pnm"
)  # fmt: skip

_PACKED = "or a .zip or .tar of these"
_ALLOWED = {
    ("image", "classification"): f"images (in a folder per class), .npz, .csv, {_PACKED}",
    ("image", "recovery"): f"images (in folders inputs and targets, named alike), .npz, {_PACKED}",
    ("vector", ""): f".csv, .npz, {_PACKED}",
    ("series", ""): f".ts, .npz, .csv, {_PACKED}",
    ("series", "translation"): f".npz, {_PACKED}",
}


@dataclass(frozen=True, slots=True)
class Sources:
    """The files of one upload by the reader they need."""

    images: tuple[SourceFile, ...] = ()
    tables: tuple[SourceFile, ...] = ()
    arrays: tuple[SourceFile, ...] = ()
    series: tuple[SourceFile, ...] = ()

    @classmethod
    def of(cls, tree: Tree, form: Form, findings: Findings) -> Sources:
        """Sort the files of `tree`; those of no use for `form` are dropped and named in a warning."""
        ends: dict[str, tuple[str, ...]] = {"arrays": ARRAY_ENDS}
        if form.kind == "image":
            ends["images"] = IMAGE_ENDS
        if not form.has_answers:
            ends["tables"] = TABLE_ENDS
            if form.kind == "series":
                ends["series"] = SERIES_ENDS
        found = {name: _ending(tree.files, suffixes) for name, suffixes in ends.items()}
        used = {file.name for files in found.values() for file in files}
        unused = [file.name for file in tree.files if file.name not in used]
        for name in unused:
            findings.drop(name)
        if not used:
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
        from easeml_core.data.arrays import number_types
        from easeml_core.data.deep import depths

        types = {found for file in self.arrays for found in number_types(file, targets=form.has_answers)}
        # Beside images a table holds file names, not pixels.
        pixels = bool(self.tables) and not self.images
        return Units.choose(depths(file.path for file in self.images), types, pixels, form, findings)


def allowed(form: Form) -> str:
    """The forms of data that can be read for `form`, in words."""
    return _ALLOWED.get((form.kind, form.task_kind)) or _ALLOWED[form.kind, ""]


def _ending(files: Sequence[SourceFile], suffixes: tuple[str, ...]) -> tuple[SourceFile, ...]:
    return tuple(file for file in files if file.suffix in suffixes)
