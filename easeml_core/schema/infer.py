"""The schema of an ease.ml data set directory, also within a tar or zip archive.

A data set has a folder per sample and `<class>.class.txt` files beside them; one for training has
`train|val`, then `in|input` and `out|output`, above. Everything wrong is told at once.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from easeml_core.errors import Problem, TenantError
from easeml_core.schema.load import load_schema
from easeml_core.schema.model import Schema
from easeml_core.schema.samples import CLASS_END, entries
from easeml_core.schema.survey import Survey

PARTS = ("train", "val")
SIDES = (("in", "input"), ("out", "output"))
MAX_PROBLEMS = 20


@dataclass(frozen=True, slots=True)
class DataSet:
    """Its schema; `output` is None for a data set of one side."""

    input: Schema
    output: Schema | None


def infer_data_set(path: Path) -> DataSet:
    """The schemas of a data set: a directory, or a tar or zip archive of one.

    Archives are unpacked into a temporary folder, within the limits of `easeml_core.data.Limits`. Raises
    `TenantError` with everything that is wrong.
    """
    if path.is_dir():
        return _infer(path, path.name)
    from easeml_core.data.archives import Unpacker, is_archive
    from easeml_core.data.findings import Findings
    from easeml_core.data.limits import Limits

    if not is_archive(path.name):
        raise TenantError([Problem(path.name, "is neither a directory nor a zip or tar archive")])
    findings = Findings()
    with tempfile.TemporaryDirectory(prefix="easeml-schema-") as scratch:
        folder = Path(scratch, "data")
        Unpacker(Limits(), findings).unpack(path, path.name, folder)
        findings.check()
        return _infer(_unwrapped(folder), path.name)


def infer_schema(*folders: Path) -> Schema:
    """The schema of samples of one side; those of several folders, such as of `train` and `val`, together.

    Raises `TenantError` with everything that is wrong.
    """
    survey = Survey(folders)
    schema = survey.schema()
    if survey.problems:
        left = len(survey.problems) - MAX_PROBLEMS
        more = [Problem(folders[0].name, f"{left} more problems are not listed")] if left > 0 else []
        raise TenantError(survey.problems[:MAX_PROBLEMS] + more)
    return load_schema(schema.as_dict(), folders[0].name)


def _infer(folder: Path, name: str) -> DataSet:
    parts = [folder / part for part in PARTS if (folder / part).is_dir()]
    sides = [[part / name for part in parts for name in names if (part / name).is_dir()] for names in SIDES]
    if not any(sides):
        return DataSet(infer_schema(folder), None)
    problems = []
    for part in parts:
        held = [side for found in sides for side in found if side.parent == part]
        if len(held) != len(SIDES):
            problems.append(
                Problem(f"{name}/{part.name}", "needs a folder `in` or `input`, and one `out` or `output`")
            )
        elif unpaired := _samples(held[0]) ^ _samples(held[1]):
            text = f"{len(unpaired)} samples are on one side only, such as {min(unpaired)}"
            problems.append(Problem(f"{name}/{part.name}", text))
    if problems:
        raise TenantError(problems)
    return DataSet(*(infer_schema(*side) for side in sides))


def _samples(folder: Path) -> set[str]:
    return {entry.name for entry in entries(folder, lambda path, text: None) if entry.is_dir()}


def _unwrapped(folder: Path) -> Path:
    """Archives are often packed with the folder around the data set; then this is that folder."""
    held = list(folder.iterdir())
    if len(held) == 1 and held[0].is_dir():
        inner = [entry for entry in entries(held[0], lambda path, text: None) if not entry.is_dir()]
        if all(entry.name.endswith(CLASS_END) for entry in inner):
            return held[0]
    return folder
