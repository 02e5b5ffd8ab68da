"""Whether it pays to shift images at random, and to mirror photographs, while a candidate trains.

Each candidate trains from several seeds with and without, as long as the catalogue says; both times from the
same weights on the same batches. What counts is the best accuracy on the validation split.

    python benchmarks/augmentation.py                  # the table, some minutes
    python benchmarks/augmentation.py --epochs 24      # longer trainings
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.training import ours
from benchmarks.versions import order_of, version_of
from easeml_core.data import open_version
from easeml_core.workorder import WorkOrder
from training import device as devices
from training.examples import Examples, Floats, Indices
from training.feed import Batch, Feed
from training.networks import NetworkTrainee
from training.run_log import Unlogged
from training.watch import Unwatched

# Candidate, data, examples, and whether what is mirrored is still of its class.
CASES = (
    ("SmallCNN", "digits", None, False),
    ("SmallCNN", "mnist", 500, False),
    ("SmallCNN", "photos", None, True),
    ("ResNet-18", "digits", 500, False),
)
SHARE = 1 / 14  # of an image's side, at most, that it is shifted by: a pixel of 8, two of 28


class Varied(Feed):
    """Gives every image of a batch shifted, and perhaps mirrored, in another way each time."""

    def __init__(self, examples: Examples, device: torch.device, seed: int, *, mirrored: bool) -> None:
        super().__init__(examples, device)
        self._random, self._mirrored = np.random.default_rng(seed), mirrored

    def batches(self, plan: Iterable[Indices]) -> Iterator[Batch]:
        """The same batches, varied."""
        for x, y in super().batches(plan):
            yield torch.from_numpy(self._vary(x.numpy())), y

    def _vary(self, images: Floats) -> Floats:
        """`(N, H, W, C)` → the same, what comes in at a border being like the border."""
        count, height, width, _ = images.shape
        most = max(round(SHARE * height), 1)
        padded = np.pad(images, ((0, 0), (most, most), (most, most), (0, 0)), mode="edge")
        down, right = self._random.integers(0, 2 * most + 1, (2, count, 1))
        rows, columns = down + np.arange(height), right + np.arange(width)
        if self._mirrored:
            mirror = self._random.random(count) < 0.5
            columns[mirror] = columns[mirror, ::-1]
        return padded[np.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]


def reached(order: WorkOrder, feed: Feed) -> float:
    """The best accuracy of a training that is fed by `feed`."""
    trainee = NetworkTrainee(order, feed.examples, feed.device, Unwatched(), Unlogged())
    trainee.feed = feed
    return max(ours(order, trainee))


def main(
    epochs: Annotated[int, typer.Option(help="per training; 0: as many as the catalogue says")] = 0,
    seeds: Annotated[int, typer.Option(help="trainings of each kind")] = 5,
    threads: Annotated[int, typer.Option(help="CPU threads")] = 1,
) -> None:
    """Train and print the table."""
    devices.use_threads(threads)
    devices.seed_everything(0)
    device = devices.resolve("cpu0")
    root = Path(tempfile.mkdtemp(prefix="easeml-augmentation-"))
    table = Table(
        "candidate", "data", "examples", "epochs", "as they are", "varied", "difference ± its error"
    )
    try:
        for candidate, data, most, mirrored in CASES:
            version = version_of(root, data, most)
            examples = Examples(open_version(version))
            pairs = []
            for seed in range(seeds):
                order = order_of(root, candidate, version, seed=seed)
                longest = epochs or order.max_epochs
                order = order.model_copy(update={"max_epochs": longest, "patience": longest})
                feeds = Feed(examples, device), Varied(examples, device, seed, mirrored=mirrored)
                pairs.append([reached(order, feed) for feed in feeds])
            plain, varied = np.array(pairs).T
            gain = varied - plain
            table.add_row(
                candidate,
                data,
                str(examples.facts.n_train),
                str(longest),
                f"{plain.mean():.3f}",
                f"{varied.mean():.3f}",
                f"{gain.mean():+.3f} ± {gain.std(ddof=1) / seeds**0.5:.3f}",
            )
    finally:
        shutil.rmtree(root, ignore_errors=True)
    Console().print(table, "mean best accuracy; differences with their standard error", sep="\n")


if __name__ == "__main__":
    typer.run(main)
