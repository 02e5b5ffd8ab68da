"""Small tasks on real data, each in another form that `data/` may have; seconds per trial on one core."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits

from easeml_core.naming import TaskName
from examples.layout import hold_back, png, write_csv


@dataclass(frozen=True)
class Folder:
    """A tenant's folder to submit, and inputs apart from it whose labels are known."""

    name: TaskName
    path: Path
    inputs: Path
    labels: dict[str, str]  # by example id

    @property
    def data(self) -> Path:
        """Its data folder."""
        return self.path / "data"


def fresh(out: Path, name: str, spec: str) -> Folder:
    """An empty folder with its spec."""
    made = Folder(TaskName.parse(name), out / name, out / "held-back" / name, {})
    made.data.mkdir(parents=True)
    made.inputs.mkdir(parents=True)
    (made.path / "task.yaml").write_text(spec)
    return made


def digits(out: Path, name: str, *, settings: str, per_class: int = 20, side: int = 8) -> Folder:
    """Handwritten digits, a folder of PNGs per class, magnified to `side` pixels; five of each apart."""
    program = f"program: '{{input: {{[Tensor[{side}, {side}, 1]], []}}, output: {{[Tensor[10]], []}}}}'\n"
    made = fresh(out, name, program + settings)
    source = load_digits()
    images = (source.images * 255 / 16).round().astype("uint8")
    images = images.repeat(side // 8, axis=1).repeat(side // 8, axis=2)
    labels = {}
    for label in range(10):
        folder = made.data / str(label)
        folder.mkdir()
        numbers = np.flatnonzero(source.target == label)
        for number in numbers[:per_class]:
            (folder / f"{number:04d}.png").write_bytes(png(images[number]))
        for number in numbers[per_class : per_class + 5]:
            (made.inputs / f"{number:04d}.png").write_bytes(png(images[number]))
            labels[f"{number:04d}.png"] = str(label)
    made.labels.update(sorted(labels.items()))  # as predictions are: by name
    return made


def tumours(out: Path, name: str, *, settings: str) -> Folder:
    """Breast tumours as CSV; one case in five apart."""
    program = 'program: "{input: {[Tensor[30]], []}, output: {[Tensor[2]], []}}"\n'
    made = fresh(out, name, program + settings)
    cases = load_breast_cancer()
    labels = [str(cases.target_names[target]) for target in cases.target]
    kept, held = hold_back(cases.target, 0.2)
    columns = [feature.replace(" ", "_") for feature in cases.feature_names]
    write_csv(
        made.data / "cases.csv",
        ("id", *columns, "label"),
        ((f"case-{i:03d}", *cases.data[i].tolist(), labels[i]) for i in kept),
    )
    write_csv(
        made.inputs / "cases.csv",
        ("id", *columns),
        ((f"case-{i:03d}", *cases.data[i].tolist()) for i in held),
    )
    made.labels.update((f"case-{i:03d}", labels[i]) for i in held)
    return made


def diabetes(out: Path, name: str, *, settings: str) -> Folder:
    """Progression of diabetes as NPZ, a regression; one patient in five apart."""
    program = 'program: "{input: {[Tensor[10]], []}, output: {[Tensor[1]], []}}"\nobjective: r2\n'
    made = fresh(out, name, program + settings)
    patients = load_diabetes(scaled=False)
    x, y = patients.data.astype("float32"), patients.target.astype("float32")
    kept, held = hold_back(np.zeros(len(y)), 0.2)
    np.savez(made.data / "patients.npz", x=x[kept], y=y[kept, None])
    np.savez(made.inputs / "patients.npz", x=x[held])
    made.labels.update((f"patients.npz[{row}]", str(y[number])) for row, number in enumerate(held))
    return made


def scans(out: Path, name: str, *, settings: str) -> Folder:
    """Handwritten digits scanned row by row, as .ts: eight steps of eight values; fifty of them apart."""
    program = 'program: "{input: {[Tensor[8]], [next]}, output: {[Tensor[10]], []}}"\n'
    made = fresh(out, name, program + settings)
    source = load_digits()
    kept, held = range(400), range(400, 450)

    def text(numbers: Iterable[int], labelled: bool) -> str:
        classes = "true 0 1 2 3 4 5 6 7 8 9" if labelled else "false"
        lines = [f"@problemName Scans\n@univariate false\n@dimensions 8\n@classLabel {classes}\n@data"]
        for number in numbers:
            # One dimension after the other: what the scanner saw at one place, from the top row down.
            values = [",".join(f"{value:g}" for value in column) for column in source.images[number].T]
            lines.append(":".join([*values, str(source.target[number])] if labelled else values))
        return "\n".join(lines) + "\n"

    (made.data / "scans.ts").write_text(text(kept, True))
    (made.inputs / "scans.ts").write_text(text(held, False))
    made.labels.update((f"scans.ts#{row}", str(source.target[n])) for row, n in enumerate(held, 1))
    return made
