"""Builds an immutable data version out of one upload."""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from easeml_core import naming
from easeml_core.data import reference
from easeml_core.data import split as splitting
from easeml_core.data.duplicates import near_duplicates
from easeml_core.data.findings import Findings
from easeml_core.data.forms import Example, Form
from easeml_core.data.intact import is_copy, splits_of
from easeml_core.data.labels import check_split, make_classes, refine
from easeml_core.data.limits import Limits
from easeml_core.data.npy import NpyWriter
from easeml_core.data.readers import Reading, read_examples
from easeml_core.data.refine import read_refinements
from easeml_core.data.sources import Sources
from easeml_core.data.staging import Staged, stage
from easeml_core.data.tree import collect
from easeml_core.data.units import Units
from easeml_core.data.version import FACTS, FORMAT, MANIFEST, Version, VersionFacts, open_version
from easeml_core.workorder import write_atomically

if TYPE_CHECKING:
    from easeml_core.spec import Spec

# Called with the number of examples read so far.
Progress = Callable[[int], None]

log = logging.getLogger(__name__)

STAGING = ".staging"
_TOLD_EVERY = 1000
_SIZES = 20  # of images, that are kept


def build_version(
    upload: Path,
    spec: Spec,
    *,
    parent: Version | None,
    limits: Limits,
    versions_dir: Path,
    name: naming.TaskName,
    progress: Progress = lambda examples: None,
) -> VersionFacts:
    """Stage `upload` (a folder with `data/` and perhaps `refine.csv`) as a data version of task `name`.

    The version's folder, `naming.version_dir`, appears by one rename, complete. The same content with the
    same labels, split and shape has the same digest: then the version that is there is returned. Memory is
    bounded by ids and labels; values go to disk example by example. `progress` is called now and then.

    Raises `TenantError` with all problems, and leaves nothing behind then.
    """
    form = Form.of(spec)
    scratch = versions_dir / STAGING / f"{os.getpid()}-{secrets.token_hex(6)}"
    folder = scratch / "version"
    folder.mkdir(parents=True)
    try:
        builder = _Builder(form, spec.validation_fraction, spec.validation_seed, parent, limits)
        facts = builder.build(upload, folder, scratch, progress)
        version = open_version(folder)  # what cannot be read back must never get its final name
        if pairs := near_duplicates(version):
            facts = facts.model_copy(update={"near_duplicates": pairs})
            write_atomically(folder / FACTS, facts.model_dump_json(indent=1))
        target = naming.version_dir(versions_dir, name, facts.digest)
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists() and not is_copy(folder, target):
            log.warning("the data version in %s was broken and is replaced", target)
            os.rename(target, scratch / "broken")
        try:
            os.rename(folder, target)
        except OSError:
            # It was there, or someone else built it meanwhile: it is as good.
            return open_version(target).facts
        return facts
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def clear_staging(versions_dir: Path) -> None:
    """Remove what builds that were killed have left."""
    for folder in (versions_dir / STAGING).glob("*-*"):
        pid = folder.name.partition("-")[0]
        if pid.isdigit() and not Path("/proc", pid).exists():
            shutil.rmtree(folder, ignore_errors=True)


class _Builder:
    def __init__(
        self, form: Form, fraction: float, seed: int, parent: Version | None, limits: Limits
    ) -> None:
        self.form, self.fraction, self.seed, self.limits = form, fraction, seed, limits
        # A version of another shape has nothing to hand on.
        fits = parent is not None and Form.of_facts(parent.facts).identity == form.identity
        self.parent = parent if fits else None
        self.split_is_lost = False
        self.findings = Findings(earlier=self.parent.facts.converted if self.parent else {})

    def build(self, upload: Path, folder: Path, scratch: Path, progress: Progress) -> VersionFacts:
        form, findings = self.form, self.findings
        unpacked = scratch / "unpacked"
        unpacked.mkdir()
        tree = collect(upload / naming.DATA_DIR, unpacked, self.limits, findings)
        sources = Sources.of(tree, form, findings)
        before = len(findings.problems)
        units = sources.units(form, findings)
        if len(findings.problems) > before:
            # Where the sources do not go together, what their examples say of each other would only mislead.
            findings.check()
        reading = Reading(tree, sources, form, units, self.limits, scratch, findings, labelled=True)
        examples = _counted(read_examples(reading), progress)
        staged = stage(examples, form, units.dtype, folder, findings, answers=form.has_answers)
        findings.check_share(len(staged), self.limits.max_broken_share)
        kept = self._refined(upload / naming.REFINE_FILE, staged)
        if not any(kept):
            findings.check()  # what went wrong says more
            findings.problem("data", "has no example that can be used", fix="upload examples with labels")
            findings.check()
        return self._finish(staged, kept, units, folder)

    def _refined(self, path: Path, staged: Staged) -> list[bool]:
        if not path.exists():
            return [True] * len(staged)
        if not path.is_file():
            self.findings.problem(naming.REFINE_FILE, "is a folder; a table is needed", fix="remove it")
            return [True] * len(staged)
        complete = not self.findings.wrong
        wishes = read_refinements(path, self.findings)
        return refine(staged, wishes, self.form, self.findings, complete=complete)

    def _finish(self, staged: Staged, kept: list[bool], units: Units, folder: Path) -> VersionFacts:
        form, findings = self.form, self.findings
        classes: tuple[str, ...] | None = None
        strata = [0] * len(staged)
        if form.task_kind == "classification":
            before = self.parent.facts.classes if self.parent else None
            classes = make_classes(staged, kept, before, form, findings)
            number = {name: i for i, name in enumerate(classes)}
            strata = [number[label] if label is not None else -1 for label in staged.labels]
        findings.check()
        split = splitting.assign(
            staged.hashes,
            strata,
            kept,
            fraction=self.fraction,
            seed=self.seed,
            sticky=self._sticky(),
            hints=staged.splits,
        )
        if splitting.VAL in staged.splits:
            findings.converted["split"] = "taken from the upload's own train and validation parts"
        if classes is not None:
            check_split(staged, split, kept, classes, findings)
        train, val = _positions(split, kept, splitting.TRAIN), _positions(split, kept, splitting.VAL)
        if not findings.problems and not (len(train) and len(val)):
            text = f"{len(train)} examples are left to train on and {len(val)} to validate on"
            findings.problem("data", text, fix="upload at least two different examples")
        findings.check()
        targets = _targets(staged, strata, form)
        low, high, longest = _answers(staged, form)
        digest = _digest(form, units, classes, self.fraction, self.seed, staged, targets, split, kept)
        parent = self._origin(digest, splitting.VAL in staged.splits)
        facts = VersionFacts(
            digest=digest,
            kind=form.kind,
            task_kind=form.task_kind,
            shape=form.shape,
            dtype=units.dtype,
            n=len(staged),
            n_train=len(train),
            n_val=len(val),
            n_switched_off=kept.count(False),
            classes=classes,
            class_counts=_class_counts(targets, kept, classes),
            outputs=form.outputs,
            target_shape=form.target_shape,
            target_low=low,
            target_high=high,
            target_max_length=longest,
            program=None if form.program is None else str(form.program),
            low=staged.spread.low,
            high=staged.spread.high,
            white=units.white,
            dynamic_range=staged.spread.dynamic_range(),
            max_length=max(staged.lengths) if form.is_long else None,
            mean_length=float(np.mean(staged.lengths)),
            sizes=dict(findings.sizes.most_common(_SIZES)),
            reference=_reference(folder, form, targets, train, val, low, high),
            converted=findings.converted,
            quarantined=findings.quarantined,
            n_quarantined=findings.n_quarantined,
            dropped=findings.dropped,
            warnings=findings.warnings,
            validation_fraction=self.fraction,
            validation_seed=self.seed,
            parent=parent,
        )
        _write(folder, facts, staged, targets, train, val, split, kept)
        return facts

    def _sticky(self) -> dict[str, str]:
        before = self.parent
        if before is None or (before.facts.validation_fraction, before.facts.validation_seed) != (
            self.fraction,
            self.seed,
        ):
            return {}
        known = splits_of(before)
        self.split_is_lost = known is None
        return known or {}

    def _origin(self, digest: str, hinted: bool) -> str | None:
        """The version that the one of `digest` grew out of. Says so where that one's split was lost."""
        before = self.parent
        if before is None:
            return None
        if before.facts.digest == digest:
            return before.facts.parent  # it is built again
        if self.split_is_lost and not hinted:
            lost = f"the data version before, {before.facts.digest[:8]}, is damaged, so that the split was"
            text = f"{lost} drawn anew: models of before may have trained on examples to validate on"
            log.warning("%s (%s)", text, before.folder)
            self.findings.warnings.append(text)
        return before.facts.digest


def _counted(examples: Iterable[Example], progress: Progress) -> Iterator[Example]:
    for number, example in enumerate(examples, 1):
        yield example
        if number % _TOLD_EVERY == 0:
            progress(number)


def _positions(split: Sequence[str], kept: Sequence[bool], part: str) -> npt.NDArray[np.int64]:
    chosen = [i for i, (where, use) in enumerate(zip(split, kept, strict=True)) if use and where == part]
    return np.array(chosen, dtype=np.int64)


def _targets(staged: Staged, strata: Sequence[int], form: Form) -> npt.NDArray[Any] | None:
    """Classes (N,) or values (N, K); None where what is to be answered with is on disk already."""
    if form.task_kind == "classification":
        return np.array(strata, dtype=np.int64)
    if form.task_kind == "regression":
        return np.array(staged.targets, dtype=np.float32).reshape(len(staged), form.outputs)
    return None


def _answers(staged: Staged, form: Form) -> tuple[float | None, float | None, int | None]:
    """Lowest and highest number to answer with, and length of the longest answer."""
    if form.target_shape is None:
        return None, None, None
    spread, lengths = staged.answer_spread, staged.answer_lengths
    if form.recovers_itself:
        spread, lengths = staged.spread, staged.lengths
    longest = max(lengths) if form.is_long else None
    # Bytes are measured against all that a byte can be.
    return (0.0, 255.0, longest) if form.kind == "bytes" else (spread.low, spread.high, longest)


def _class_counts(
    targets: npt.NDArray[Any] | None, kept: Sequence[bool], classes: tuple[str, ...] | None
) -> tuple[int, ...] | None:
    if classes is None or targets is None:
        return None
    counts = np.bincount(targets[np.array(kept, dtype=bool)], minlength=len(classes))
    return tuple(int(count) for count in counts)


def _reference(
    folder: Path,
    form: Form,
    targets: npt.NDArray[Any] | None,
    train: npt.NDArray[np.int64],
    val: npt.NDArray[np.int64],
    low: float | None,
    high: float | None,
) -> dict[str, float]:
    if targets is not None:
        return reference.of_values(targets, train, val) if form.task_kind == "regression" else {}
    if form.kind == "image" and low is not None and high is not None:
        return reference.of_images(folder, train, val, low, high)
    return reference.of_steps(folder, train, val, scale=255.0 if form.kind == "bytes" else 1.0)


def _digest(
    form: Form,
    units: Units,
    classes: tuple[str, ...] | None,
    fraction: float,
    seed: int,
    staged: Staged,
    targets: npt.NDArray[Any] | None,
    split: Sequence[str],
    kept: Sequence[bool],
) -> str:
    digest = hashlib.sha256(repr((FORMAT, form, units.dtype, units.white, classes, fraction, seed)).encode())
    if form.target_shape is not None or form.program is not None:
        digest.update(repr((form.identity, form.links, staged.answer_hashes)).encode())
    if targets is not None:
        digest.update(targets.tobytes())
    for row in zip(staged.ids, staged.hashes, split, kept, strict=True):
        digest.update(repr(row).encode())
    return digest.hexdigest()


def _write(
    folder: Path,
    facts: VersionFacts,
    staged: Staged,
    targets: npt.NDArray[Any] | None,
    train: npt.NDArray[np.int64],
    val: npt.NDArray[np.int64],
    split: Sequence[str],
    kept: Sequence[bool],
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for name, array in (("targets", targets), ("train", train), ("val", val)):
        if array is None:
            continue
        with NpyWriter(folder / f"{name}.npy", array.dtype.str, array.shape[1:]) as out:
            out.append(array)
    if targets is None:
        shown: list[str | None] = [""] * len(staged)
    elif facts.classes is not None:
        shown = staged.labels
    else:
        shown = [",".join(map(repr, row)) for row in targets.tolist()]
    columns: dict[str, Sequence[Any]] = {
        "id": staged.ids,
        "content": staged.hashes,
        "label": shown,
        "split": split,
        "kept": kept,
    }
    pq.write_table(pa.table({name: list(column) for name, column in columns.items()}), folder / MANIFEST)
    write_atomically(folder / FACTS, facts.model_dump_json(indent=1))
