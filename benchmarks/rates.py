"""What the paper's grid of learning rates is worth, against the two rates that networks try here.

Each candidate is searched by successive halving, as a trial does it, over each of the spaces: what the best
setting reaches on the validation split, and the epochs that all settings trained together.

    python benchmarks/rates.py                  # the table, some minutes
    python benchmarks/rates.py --seeds 5        # steadier
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.versions import order_of, version_of
from easeml_core.catalog import Space
from easeml_core.catalog.facts import ADAMW_BAND, PAPER_GRID
from easeml_core.catalog.halving import least_epochs
from easeml_core.data import open_version
from easeml_core.workorder import WorkOrder
from training import device as devices
from training.checkpoint import Checkpoint
from training.examples import Examples
from training.networks import NetworkTrainee
from training.run_log import Unlogged
from training.search import Search
from training.watch import Unwatched

# Candidate, data, examples.
CASES = (
    ("MLP", "cancer", None),
    ("SmallCNN", "digits", 600),
    ("SmallCNN", "mnist", 1500),
    ("GRU", "gunpoint", None),
)
SPACES = {
    "0.003, 0.001": ADAMW_BAND,
    "grid": PAPER_GRID,
    "grid, gradient descent": Space.parse(PAPER_GRID.document() | {"optimizer": "sgd"}),
}


def searched(order: WorkOrder, examples: Examples) -> tuple[float, int]:
    """Quality of the best setting, and the epochs of all."""
    search = Search.resume(Checkpoint(order), Space.parse(order.search).settings(9, order.seed))
    trainee = NetworkTrainee(order, examples, devices.resolve("cpu0"), Unwatched(), Unlogged())
    search.run(order.max_epochs, trainee, least_epochs(examples.facts.n_train, order.batch_size))
    best = 0.0 if search.best is None else search.tried[search.best].quality
    return best or 0.0, sum(tried.epochs for tried in search.tried)


def main(
    seeds: Annotated[int, typer.Option(help="searches of each kind")] = 2,
    threads: Annotated[int, typer.Option(help="CPU threads")] = 1,
) -> None:
    """Search and print the table."""
    devices.use_threads(threads)
    devices.seed_everything(0)
    root = Path(tempfile.mkdtemp(prefix="easeml-rates-"))
    table = Table("candidate", "data", "examples", *SPACES, title="mean best quality (epochs)")
    try:
        for candidate, data, most in CASES:
            version = version_of(root, data, most)
            examples = Examples(open_version(version))
            cells = []
            for name, space in SPACES.items():
                orders = [
                    order_of(root, candidate, version, seed=seed, search=space.document())
                    for seed in range(seeds)
                ]
                found = np.array([searched(order, examples) for order in orders])
                quality, epochs = found.mean(axis=0)
                cells.append(f"{quality:.3f} ({epochs:.0f})")
                print(candidate, data, name, found.tolist(), flush=True)
            table.add_row(candidate, data, str(examples.facts.n_train), *cells)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
