"""What every example script shares: a tenant's folder on one side, held-back examples on the other.

A script lays out two folders under one output folder:

    <out>/<tenant>/<task>/              what the tenant submits: task.yaml and data/
    <out>/held-back/<tenant>/<task>/    inputs/ to predict, and labels.csv or answers.npz, never trained on

The same script gives the same bytes wherever and whenever it runs, so submitting twice is nothing new.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from ruamel.yaml import YAML

from easeml_core import naming
from easeml_core.naming import TaskName

HELD_BACK = "held-back"
LABELS = "labels.csv"
ANSWERS = "answers.npz"
EVERY = "every-candidate"
# Fields of a spec that keep candidates from being tried.
LIMITS = ("candidates", "budget", "stop_when")
SEED = 20180827

IndexArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where one example task lies on disk."""

    name: TaskName
    folder: Path  # what the tenant submits
    inputs: Path  # held-back inputs, to be uploaded under infer/
    labels: Path  # their labels: columns `id`, `label`
    answers: Path  # or, where the answer is no label: arrays `id`, `target`, `baseline`

    @classmethod
    def under(cls, out: Path, name: TaskName) -> Layout:
        """The paths of `name` under the output folder; makes nothing."""
        held = out / HELD_BACK / name.tenant / name.task
        return cls(name, out / name.tenant / name.task, held / "inputs", held / LABELS, held / ANSWERS)

    def without_limits(self, out: Path) -> Path:
        """Copy what the tenant submits under the output folder, so that every candidate is tried.

        The spec of the copy lacks `LIMITS`: no candidate is left out, and training stops when all were tried.
        """
        folder = out / EVERY / self.name.tenant / self.name.task
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.folder, folder)
        spec, yaml = folder / naming.SPEC_FILE, YAML(typ="safe", pure=True)
        yaml.default_flow_style = False
        fields = yaml.load(spec)
        yaml.dump({name: value for name, value in fields.items() if name not in LIMITS}, spec)
        return folder

    def fresh(self, spec: str) -> Path:
        """Empty both folders, write the spec, and return the new, empty data folder."""
        for folder in (self.folder, self.inputs.parent):
            shutil.rmtree(folder, ignore_errors=True)
        data = self.folder / naming.DATA_DIR
        data.mkdir(parents=True)
        self.inputs.mkdir(parents=True)
        (self.folder / naming.SPEC_FILE).write_text(spec, encoding="utf-8")
        return data

    def write_labels(self, labels: Iterable[tuple[str, object]]) -> None:
        """Write the labels of the held-back examples as rows of id and label, in their order."""
        write_csv(self.labels, ("id", "label"), labels)

    def read_labels(self) -> dict[str, str]:
        """Label by example id, as text."""
        with self.labels.open(newline="", encoding="utf-8") as stream:
            return {row["id"]: row["label"] for row in csv.DictReader(stream)}

    def write_answers(
        self, ids: Sequence[str], target: npt.NDArray[np.generic], baseline: npt.NDArray[np.generic]
    ) -> None:
        """Write the images, series or bytes to answer with, and those of the baseline: both `(N, ...)`."""
        np.savez_compressed(self.answers, id=np.array(ids), target=target, baseline=baseline)

    def read_ids(self) -> list[str]:
        """Ids of the held-back examples, in their order."""
        if self.labels.is_file():
            return list(self.read_labels())
        with np.load(self.answers, allow_pickle=False) as arrays:
            return [str(name) for name in arrays["id"]]


@dataclass(frozen=True, slots=True)
class Example:
    """An example task: its name, one line on it, its baseline in words, and what lays it out."""

    name: TaskName
    about: str
    baseline: str
    build: Callable[[Layout], None]

    def lay_out(self, out: Path) -> Layout:
        """Write both folders under `out`, replacing what was there."""
        layout = Layout.under(out, self.name)
        self.build(layout)
        return layout

    def lay_out_once(self, out: Path) -> Layout:
        """Like `lay_out`, but nothing is done where the same code has done it before."""
        layout = Layout.under(out, self.name)
        code = Path(self.build.__code__.co_filename).read_bytes() + Path(__file__).read_bytes()
        stamp, digest = layout.inputs.parent / ".made-by", hashlib.sha256(code).hexdigest()
        if not stamp.is_file() or stamp.read_text() != digest:
            self.build(layout)
            stamp.write_text(digest)
        return layout

    def main(self) -> None:
        """The script's command line: one argument, the output folder."""
        parser = argparse.ArgumentParser(description=self.about)
        parser.add_argument("out", type=Path, help="folder to write to; replaces this task there")
        layout = self.lay_out(parser.parse_args().out)
        truth = layout.labels if layout.labels.is_file() else layout.answers
        print(f"to submit:  {layout.folder}\nheld back:  {layout.inputs}\nthe truth:  {truth}")


def hold_back(labels: npt.NDArray[np.generic], share: float) -> tuple[IndexArray, IndexArray]:
    """Split example numbers into (kept, held back), both ascending, the same share of each class.

    `labels` has shape `(N,)`. A continuous target is split as one class: pass zeros.
    """
    order = np.random.default_rng(SEED).permutation(len(labels))
    held = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        members = order[labels[order] == label]
        held[members[: round(share * len(members))]] = True
    return np.flatnonzero(~held), np.flatnonzero(held)


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a UTF-8 CSV file with one header line."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def write_jsonl(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write one JSON object per line."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """One image, `(H, W)` grey or `(H, W, 3)` in colour, as the bytes of a PNG file."""
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, format="PNG")
    return stream.getvalue()
