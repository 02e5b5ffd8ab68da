"""What the training loop costs over a bare PyTorch loop of the same network, data, optimiser and schedule.

Both train the same initial weights for the same epochs, and evaluate after each. Ours does so with all that
a trial has on: watch and heartbeat, checkpoints, clipping, early stopping, scores; only MLflow is left out,
which is told from the side. The bare loop holds its data as tensors, indexes them, and does nothing else.
They take turns in one process, and the fastest round of each counts: what else a machine does only ever adds.

    python benchmarks/training.py                  # the table
    python benchmarks/training.py --repeats 9      # steadier
"""

from __future__ import annotations

import math
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import numpy.typing as npt
import torch
import typer
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.versions import order_of, version_of
from easeml_core.data import open_version
from easeml_core.naming import CandidateName
from easeml_core.workorder import WorkOrder
from training import device as devices
from training.checkpoint import Checkpoint
from training.examples import Examples, Indices
from training.loop import CLIP_NORM, rate_factor
from training.models import build_network
from training.networks import NetworkTrainee
from training.run_log import Unlogged
from training.search import Search
from training.speed import Speed
from training.watch import Watch

BUDGET = 0.03
# Candidate, data, examples, epochs: a network of each kind; some seconds each on one core. Shorter ones would
# measure what is done once, such as the first copy of the weights.
CASES = (
    ("SmallCNN", "mnist", 1500, 2),
    ("ResNet-18", "digits", 500, 3),
    ("MLP", "cancer", None, 40),
    ("GRU", "gunpoint", None, 10),
)
RATE = 0.003


@dataclass(frozen=True)
class Took:
    """Seconds of one training, by the clock and of the CPU."""

    wall: float
    cpu: float


def timed(work: Callable[[], object]) -> Took:
    """How long `work` takes."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return Took(time.perf_counter() - wall, time.process_time() - cpu)


def ours(order: WorkOrder, examples: Examples, device: torch.device) -> float:
    """Train as a trial does; gives the quality."""
    folder = Path(order.checkpoint_dir).parent
    with Watch(order, folder) as watch:
        search = Search.resume(Checkpoint(order), [{"learning_rate": RATE}])
        search.run(order.max_epochs, NetworkTrainee(order, examples, device, watch, Unlogged()))
        search.checkpoint.clear()
    return search.tried[0].quality or 0.0


def bare(order: WorkOrder, examples: Examples, device: torch.device) -> None:
    """Train as a script would, in the same precision."""
    half = {"bfloat16": torch.bfloat16, "float16": torch.float16}.get(
        Speed(device, order.precision).precision
    )
    version = examples.version
    torch.manual_seed(order.seed)
    network = build_network(CandidateName.parse(order.candidate), examples, {}).to(
        device, memory_format=torch.channels_last
    )
    x, y, val_x, val_y = (
        torch.from_numpy(np.array(part)).to(device)
        for split in (version.train, version.val)
        for part in (_inputs(examples, split), examples.targets(split))
    )
    optimiser = torch.optim.AdamW(network.parameters(), RATE, weight_decay=1e-4, fused=True)
    steps = math.ceil(len(x) / order.batch_size) * order.max_epochs
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: rate_factor(step, steps))
    for _ in range(order.max_epochs):
        network.train()
        for batch in torch.randperm(len(x), device=device).split(order.batch_size):
            if len(batch) == 1:
                continue
            optimiser.zero_grad(set_to_none=True)
            with torch.autocast(device.type, half, enabled=half is not None):
                raw = network.raw(x[batch].float())
            loss = network.loss(raw.float(), y[batch]) / len(batch)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), CLIP_NORM)
            optimiser.step()
            schedule.step()
        network.eval()
        with torch.no_grad():
            answers = torch.cat([network(part.float()) for part in val_x.split(512)])
        (answers.argmax(1) == val_y).float().mean().item()


def _inputs(examples: Examples, split: Indices) -> npt.NDArray[np.generic]:
    """As they are stored, images in bytes; series padded."""
    is_series = examples.facts.kind == "series"
    return examples.inputs(split) if is_series else np.asarray(examples.version.inputs[split])


def measure(order: WorkOrder, repeats: int, device: torch.device) -> tuple[Took, Took]:
    """The fastest rounds of ours and of the bare loop, which change who goes first; one more warms up."""
    examples = Examples(open_version(Path(order.version_dir)))
    loops = [lambda: ours(order, examples, device), lambda: bare(order, examples, device)]
    rounds: tuple[list[Took], list[Took]] = ([], [])
    for number in range(repeats + 1):
        for which in (0, 1) if number % 2 else (1, 0):
            took = timed(loops[which])
            if number:
                rounds[which].append(took)
    mine, other = (Took(min(t.wall for t in took), min(t.cpu for t in took)) for took in rounds)
    return mine, other


def main(
    repeats: Annotated[int, typer.Option(help="rounds that count")] = 5,
    threads: Annotated[int, typer.Option(help="CPU threads")] = 1,
    device: Annotated[str, typer.Option(help="cpu0, gpu0 …")] = "cpu0",
    only: Annotated[str, typer.Option(help="one candidate")] = "",
) -> None:
    """Measure, print the table, and end with 1 where the loop costs more than its budget."""
    devices.use_threads(threads)
    devices.seed_everything(0)
    root = Path(tempfile.mkdtemp(prefix="easeml-training-"))
    table = Table("candidate", "data", "ours CPU s", "bare CPU s", "CPU +%", "wall +%")
    costs = []
    try:
        for candidate, data, most, epochs in CASES:
            if only not in ("", candidate):
                continue
            version = version_of(root, data, most)
            order = order_of(
                root, candidate, version, device=device, max_epochs=epochs, patience=epochs, threads=threads
            )
            mine, other = measure(order, repeats, devices.resolve(device))
            wall, cpu = mine.wall / other.wall - 1, mine.cpu / other.cpu - 1
            costs.append(cpu if device.startswith("cpu") else wall)
            table.add_row(
                candidate,
                version.name,
                f"{mine.cpu:.2f}",
                f"{other.cpu:.2f}",
                f"{100 * cpu:+.1f}",
                f"{100 * wall:+.1f}",
            )
    finally:
        shutil.rmtree(root, ignore_errors=True)
    Console().print(table)
    worst = max(costs)
    print(f"the loop costs {100 * np.mean(costs):+.1f} % on average, {100 * worst:+.1f} % at most")
    raise typer.Exit(int(worst > BUDGET))


if __name__ == "__main__":
    typer.run(main)
