"""Reads what a tenant wants predicted: the same readers as for a data version, without labels."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from easeml_core.data.findings import KEPT, Findings
from easeml_core.data.forms import Form
from easeml_core.data.limits import Limits
from easeml_core.data.readers import Reading, read_examples
from easeml_core.data.sources import Sources
from easeml_core.data.staging import CHILDREN, INPUTS, OFFSETS, VALUES, Staged, stage
from easeml_core.data.tree import collect
from easeml_core.data.units import Units
from easeml_core.data.version import VersionFacts
from easeml_core.errors import Problem, TenantError

# Numbered as in the tenant's folder, not as in `data/` of a feed.
_LEAD = "data/"


@dataclass(frozen=True)
class Inputs:
    """Inputs in the units of a data version. `folder` holds them as `inputs.npy`, or as `values.npy`,
    `offsets.npy` and, for trees, `children.npy` (see `version`); `problems` name the files left out and
    why, `cut` the examples of which a model reads only the beginning."""

    ids: list[str]
    folder: Path
    kind: str
    problems: tuple[Problem, ...]
    cut: tuple[Problem, ...] = ()

    def _load(self, name: str) -> npt.NDArray[Any]:
        array: npt.NDArray[Any] = np.load(self.folder / name, mmap_mode="r", allow_pickle=False)
        return array

    @property
    def inputs(self) -> npt.NDArray[Any]:
        """(N, H, W, C) or (N, D), mapped from disk."""
        return self._load(INPUTS)

    @property
    def values(self) -> npt.NDArray[Any]:
        """(total, D): all steps, nodes or bytes."""
        return self._load(VALUES)

    @property
    def children(self) -> npt.NDArray[Any]:
        """(total nodes, R) int64 of trees."""
        return self._load(CHILDREN)

    @property
    def offsets(self) -> npt.NDArray[Any]:
        """(N + 1,) int64."""
        return self._load(OFFSETS)


def read_inputs(folder: Path, *, facts: VersionFacts, limits: Limits, staging: Path) -> Inputs:
    """Read all inputs under `folder` into the new folder `staging`, shaped and scaled as `facts` says.

    Bad files do not stop good ones: they are named in `Inputs.problems`.
    """
    form = Form.of_facts(facts)
    findings = Findings()
    scratch = staging / "scratch"
    scratch.mkdir(parents=True)
    try:
        unpacked = scratch / "unpacked"
        unpacked.mkdir()
        tree = collect(folder, unpacked, limits, findings)
        sources = Sources.of(tree, form, findings)
        units = Units.of_facts(facts)
        if "columns" in facts.converted:
            findings.converted["columns"] = list(facts.converted["columns"])
        reading = Reading(tree, sources, form, units, limits, scratch, findings, labelled=False)
        staged = stage(read_examples(reading), form, facts.dtype, staging, findings, answers=False)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    try:
        findings.check()
    except TenantError as error:
        found = list(error.problems)
    else:
        found = []
    found += [Problem(item["file"], item["reason"]) for item in findings.quarantined]
    if findings.n_quarantined > KEPT:
        found.append(Problem(".", f"{findings.n_quarantined - KEPT} more could not be read"))
    named = [Problem(p.file.removeprefix(_LEAD), p.message, p.line, p.field, p.fix) for p in found]
    if not named and not staged.ids:
        named.append(Problem(".", "holds nothing to predict"))
    return Inputs(staged.ids, staging, form.kind, tuple(named), _cut(staged, facts))


def _cut(staged: Staged, facts: VersionFacts) -> tuple[Problem, ...]:
    """Examples longer than any of the data version: models read as many steps as its longest has."""
    longest = facts.max_length
    if longest is None:
        return ()
    known = zip(staged.ids, staged.lengths, strict=True)
    long = [(ident, length) for ident, length in known if length > longest]
    what = {"tree": "nodes", "bytes": "bytes"}.get(facts.kind, "steps")
    text = f"has {{:,}} {what}, of which the first {longest:,} were read: no example of the task has more"
    fix = "cut it yourself where it matters which part is read, or give the task examples as long"
    found = [Problem(ident, text.format(length), fix=fix) for ident, length in long[:KEPT]]
    if len(long) > KEPT:
        found.append(Problem(".", f"{len(long) - KEPT} more had more than {longest:,} {what}"))
    return tuple(found)
