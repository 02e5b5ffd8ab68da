"""Where `channels_last`, half precision and torch.compile pay: time of one training step with and without.

The variants take turns, step by step, and the median counts; what the first step takes, which compiles, is
told beside it.

    python benchmarks/speed.py                     # on one CPU thread
    python benchmarks/speed.py --device gpu0 --threads 8
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.versions import order_of, version_of
from easeml_core.data import open_version
from easeml_core.naming import CandidateName
from training import device as devices
from training.examples import Examples
from training.feed import Feed
from training.models import build_network
from training.speed import Speed

CASES = (("SmallCNN", "mnist"), ("ResNet-18", "digits"), ("ResNet-18", "photos"), ("GRU", "gunpoint"))
# Format of the weights, precision, compiled.
VARIANTS = (
    (torch.contiguous_format, "float32", False),
    (torch.channels_last, "float32", False),
    (torch.channels_last, "bfloat16", False),
    (torch.channels_last, "float32", True),
)


def stepper(
    candidate: str,
    examples: Examples,
    batch: int,
    device: torch.device,
    variant: tuple[torch.memory_format, str, bool],
) -> Callable[[], float]:
    """What makes a training step of `candidate` and gives its seconds."""
    layout, precision, compiled = variant
    torch.manual_seed(0)
    network = build_network(CandidateName.parse(candidate), examples, {}).to(device, memory_format=layout)
    forward = Speed(device, precision, compiled).forward(network)
    optimiser = torch.optim.AdamW(network.parameters(), fused=True)
    x, y = next(iter(Feed(examples, device).batches([examples.version.train[:batch]])))

    def step() -> float:
        begun = time.perf_counter()
        optimiser.zero_grad(set_to_none=True)
        network.training_loss(x, y, forward).backward()
        optimiser.step()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter() - begun

    return step


def main(
    device: Annotated[str, typer.Option(help="cpu0, gpu0 …")] = "cpu0",
    steps: Annotated[int, typer.Option(help="of each variant")] = 20,
    threads: Annotated[int, typer.Option(help="CPU threads")] = 1,
    only: Annotated[str, typer.Option(help="one candidate")] = "",
) -> None:
    """Measure and print the table."""
    devices.use_threads(threads)
    root, where = Path(tempfile.mkdtemp(prefix="easeml-speed-")), devices.resolve(device)
    table = Table(
        "candidate", "data", "plain ms", "channels_last", "and bfloat16", "and compiled", "compiling s"
    )
    try:
        for candidate, data in CASES:
            if only not in ("", candidate):
                continue
            torch.compiler.reset()  # else sizes that differ from the last case's are compiled as unknown
            version = version_of(root, data)
            order = order_of(root, candidate, version)
            examples = Examples(open_version(version))
            made = [stepper(candidate, examples, order.batch_size, where, variant) for variant in VARIANTS]
            first = [step() for step in made]
            took = [[step() for step in made] for _ in range(steps)]
            plain, *others = (statistics.median(column) for column in zip(*took, strict=True))
            ratios = (f"{other / plain:.2f} ×" for other in others)
            table.add_row(candidate, data, f"{1000 * plain:.1f}", *ratios, f"{first[-1]:.0f}")
    finally:
        shutil.rmtree(root, ignore_errors=True)
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
