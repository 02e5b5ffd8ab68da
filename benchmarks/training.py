"""What the training loop costs over a bare PyTorch loop that makes the same training, and how long it waits
for data.

Both train the same initial weights on the same batches with the same random numbers, and evaluate after each
epoch: they end with the same score, which is checked. Ours does so with all that a trial has on: watch and
heartbeat, checkpoints, clipping, early stopping, scores; only MLflow is left out, which is told from the
side. The bare loop holds its data as tensors, indexes or pads them, and does nothing else.

They take turns at every batch in one process, so that whatever else the machine does slows down both.

    python benchmarks/training.py                  # the table
    python benchmarks/training.py --repeats 9      # steadier
"""

from __future__ import annotations

import math
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import torch
import typer
from rich.console import Console
from rich.table import Table
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.versions import order_of, version_of
from easeml_core.data import open_version
from easeml_core.naming import CandidateName
from easeml_core.workorder import WorkOrder
from training import device as devices
from training.checkpoint import Checkpoint
from training.examples import Examples, Indices, batches
from training.feed import Batch, Feed
from training.loop import CLIP_NORM, EVALUATED, rate_factor, seed_of
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
    ("GRU", "gunpoint-cut", None, 10),
    ("seq2seq-attention", "clinic/pressure", None, 10),
    ("Tree-LSTM", "archive/functions", None, 2),
)
RATE = 0.003


@dataclass(frozen=True)
class Took:
    """Seconds by the clock and of the CPU."""

    wall: float = 0.0
    cpu: float = 0.0

    @classmethod
    def now(cls) -> Took:
        """What both clocks say."""
        return cls(time.perf_counter(), time.process_time())

    def __add__(self, other: Took) -> Took:
        return Took(self.wall + other.wall, self.cpu + other.cpu)

    def __sub__(self, other: Took) -> Took:
        return Took(self.wall - other.wall, self.cpu - other.cpu)


def timed(work: Callable[[], object]) -> Took:
    """How long `work` takes."""
    begun = Took.now()
    work()
    return Took.now() - begun


class Turns(Watch):
    """Lets another training make a step wherever this one asks whether it may go on.

    `away` is what the other one took, and what handing over did.
    """

    def __init__(self, order: WorkOrder, folder: Path, other: Iterator[float]) -> None:
        super().__init__(order, folder)
        self.away = self.others = Took()
        self.other_score = math.nan
        self._other, self._random = other, torch.get_rng_state()

    def check(self) -> None:
        """As a watch does; then it is the other one's turn."""
        super().check()
        self.hand_over()

    def hand_over(self) -> bool:
        """Let the other one make its next step, with its own random numbers; whether there was one."""
        begun, mine = Took.now(), torch.get_rng_state()
        torch.set_rng_state(self._random)
        stepping = Took.now()
        score = next(self._other, None)
        self.others += Took.now() - stepping
        self._random = torch.get_rng_state()
        torch.set_rng_state(mine)
        self.away += Took.now() - begun
        self.other_score = self.other_score if score is None else score
        return score is not None


class TimedFeed(Feed):
    """Notes how long the training waits for its batches."""

    waited = Took()

    def batches(self, plan: Iterable[Indices]) -> Iterator[Batch]:
        """The same batches."""
        feeding = super().batches(plan)
        while True:
            begun = Took.now()
            batch = next(feeding, None)
            self.waited += Took.now() - begun
            if batch is None:
                return
            yield batch


def ours(order: WorkOrder, trainee: NetworkTrainee) -> list[float]:
    """Train as a trial does; gives the quality after each epoch."""
    search = Search.resume(Checkpoint(order), [{"learning_rate": RATE}])
    search.run(order.max_epochs, trainee)
    search.checkpoint.clear()
    return search.tried[0].curve


def train_watched(order: WorkOrder, examples: Examples, device: torch.device) -> float:
    """`ours`, with a watch of its own; gives the best quality."""
    with Watch(order, Path(order.checkpoint_dir).parent) as watch:
        return max(ours(order, NetworkTrainee(order, examples, device, watch, Unlogged())))


def bare(order: WorkOrder, examples: Examples, device: torch.device) -> Iterator[float]:
    """Train as a script would, in the same precision; stops after every step to give the last score."""
    half = {"bfloat16": torch.bfloat16, "float16": torch.float16}.get(
        Speed(device, order.precision).precision
    )
    version, everything = examples.version, np.arange(examples.facts.n)
    torch.manual_seed(order.seed)
    network = build_network(CandidateName.parse(order.candidate), examples, {}).to(
        device, memory_format=torch.channels_last
    )
    stored = np.array(version.inputs) if examples.facts.kind in ("image", "vector") else None
    inputs = held(examples.inputs(everything) if stored is None else stored, device)
    targets = held(np.array(examples.targets(everything)), device)
    wanted = targets(version.val)
    optimiser = torch.optim.AdamW(network.parameters(), RATE, weight_decay=1e-4, fused=True)
    plans = [
        batches(version.train, order.batch_size, np.random.default_rng([order.seed, epoch]))
        for epoch in range(order.max_epochs)
    ]
    steps = sum(map(len, plans))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: rate_factor(step, steps))

    def forward(x: Tensor) -> Tensor:
        with torch.autocast(device.type, half, enabled=half is not None):
            answer = network.raw(x)
        return answer.float()

    score = math.nan
    for epoch, plan in enumerate(plans):
        network.train()
        torch.manual_seed(seed_of(order.seed, epoch, 0))
        for batch in plan:
            optimiser.zero_grad(set_to_none=True)
            loss = network.training_loss(inputs(batch).float(), targets(batch), forward) / len(batch)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), CLIP_NORM)
            optimiser.step()
            schedule.step()
            yield score
        network.eval()
        with torch.no_grad():
            parts = np.split(version.val, range(EVALUATED, len(version.val), EVALUATED))
            answers = torch.cat([network(inputs(part).float()) for part in parts])
        if examples.is_classification:
            score = (answers.argmax(1) == wanted).float().mean().item()
        else:
            score = (answers[:, : wanted.shape[1]] - wanted).square().nanmean().item()
        yield score


def held(array: npt.NDArray[Any], device: torch.device) -> Callable[[Indices], Tensor]:
    """What gives the examples at some indices: out of one tensor, or out of one for each example where they
    differ in length (NaN follows the shorter ones)."""
    whole = torch.from_numpy(array).to(device)
    if whole.ndim != 3 or not torch.isnan(whole).any():
        return lambda indices: whole[torch.from_numpy(np.array(indices)).to(device)]
    each = [rows[~torch.isnan(rows).any(1)] for rows in whole]
    return lambda indices: torch.nn.utils.rnn.pad_sequence(
        [each[i] for i in indices.tolist()], batch_first=True, padding_value=math.nan
    )


def measure(order: WorkOrder, examples: Examples) -> tuple[Took, Took, Took]:
    """What our training took, the bare one, and, within ours, waiting for data."""
    device = devices.resolve(order.device)
    with Turns(order, Path(order.checkpoint_dir).parent, bare(order, examples, device)) as turns:
        begun = Took.now()
        trainee = NetworkTrainee(order, examples, device, turns, Unlogged())
        trainee.feed = feed = TimedFeed(examples, device)
        *_, quality = ours(order, trainee)
        mine = Took.now() - begun - turns.away
        while turns.hand_over():
            pass
    if examples.is_classification and abs(quality - turns.other_score) > 1e-6:
        raise RuntimeError(f"{order.candidate}: {quality} with us, {turns.other_score} in the bare loop")
    return mine, turns.others, feed.waited


def main(
    repeats: Annotated[int, typer.Option(help="rounds that count")] = 5,
    threads: Annotated[int, typer.Option(help="CPU threads")] = 1,
    only: Annotated[str, typer.Option(help="one candidate")] = "",
) -> None:
    """Measure, print the medians of the rounds, and end with 1 where the loop costs more than its budget."""
    devices.use_threads(threads)
    devices.seed_everything(0)
    root = Path(tempfile.mkdtemp(prefix="easeml-training-"))
    table = Table("candidate", "data", "ours CPU s", "bare CPU s", "CPU +%", "wall +%", "waits for data %")
    costs = []
    try:
        for candidate, data, most, epochs in CASES:
            if only not in ("", candidate):
                continue
            version = version_of(root, data, most)
            order = order_of(root, candidate, version, max_epochs=epochs, patience=epochs, threads=threads)
            examples = Examples(open_version(version))
            rounds = [measure(order, examples) for _ in range(repeats + 1)][1:]  # the first one warms up
            cpu, wall, waits = (
                statistics.median(shares)
                for shares in zip(
                    *((m.cpu / b.cpu - 1, m.wall / b.wall - 1, w.wall / m.wall) for m, b, w in rounds),
                    strict=True,
                )
            )
            costs.append(cpu)
            table.add_row(
                candidate,
                data,
                *(f"{statistics.median(took[which].cpu for took in rounds):.2f}" for which in (0, 1)),
                f"{100 * cpu:+.1f}",
                f"{100 * wall:+.1f}",
                f"{100 * waits:.1f}",
            )
    finally:
        shutil.rmtree(root, ignore_errors=True)
    Console().print(table)
    worst = max(costs)
    print(f"the loop costs {100 * np.mean(costs):+.1f} % on average, {100 * worst:+.1f} % at most")
    raise typer.Exit(int(worst > BUDGET))


if __name__ == "__main__":
    typer.run(main)
