"""On a GPU: trains every image candidate in half precision on 28×28 images, kills one and resumes it, and
measures images per second against a bare PyTorch loop. Short, for a machine that is lent by the minute.

    python benchmarks/gpu.py                      # on gpu0: some minutes
    python benchmarks/gpu.py --tiny               # on the CPU, a few images, one candidate: to try it out

The images are Fashion-MNIST where Debian's `dataset-fashion-mnist` is installed, else random ones of its
size: for speed it makes no difference, and the table says so.
"""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.training import bare, timed, train_watched
from benchmarks.versions import Arrays, order_of, stage
from easeml_core.catalog import models_for
from easeml_core.data import open_version
from easeml_core.workorder import WorkOrder
from training import device as devices
from training.examples import Examples

FASHION = Path("/usr/share/datasets/fashion-mnist")
TINY = ("SmallCNN",)
# A trainer of its own process, which the script kills: training only, as MLflow is not there.
CHILD = """
import sys
from pathlib import Path
from benchmarks.training import train_watched
from easeml_core.data import open_version
from easeml_core.workorder import WorkOrder
from training import device as devices
from training.examples import Examples
order = WorkOrder.read(Path(sys.argv[1]))
devices.seed_everything(order.seed)
print(train_watched(order, Examples(open_version(Path(order.version_dir))), devices.resolve(order.device)))
"""


def images(count: int) -> tuple[Arrays, str]:
    """`count` images (N, 28, 28, 1) with 10 classes, and what they are."""
    packed = [FASHION / f"train-{part}-idx{rank}-ubyte.gz" for part, rank in (("images", 3), ("labels", 1))]
    if all(path.exists() for path in packed):
        pixels, labels = (np.frombuffer(gzip.decompress(path.read_bytes()), np.uint8) for path in packed)
        inputs = pixels[16:].reshape(-1, 28, 28, 1)[:count]
        return (inputs, labels[8:][:count].astype(np.int64)), "Fashion-MNIST"
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 10, count)
    inputs = rng.integers(0, 100, (count, 28, 28, 1)) + 15 * labels[:, None, None, None]
    return (inputs.astype(np.uint8), labels), "random images"


def measured(order: WorkOrder, examples: Examples, device: torch.device) -> tuple[str, ...]:
    """Quality, images per second of our loop and of a bare one, and their ratio."""
    train_watched(order, examples, device)  # warms up: kernels are chosen, memory is taken
    qualities: list[float] = []
    mine = timed(lambda: qualities.append(train_watched(order, examples, device)))
    other = timed(lambda: list(bare(order, examples, device)))
    seen = order.max_epochs * examples.facts.n_train
    speeds = seen / mine.wall, seen / other.wall
    return f"{qualities[0]:.3f}", *(f"{speed:.0f}" for speed in speeds), f"{speeds[0] / speeds[1]:.2f}"


def resumed(order: WorkOrder) -> tuple[bool, float]:
    """Kill a training after its first checkpoint, and resume it.

    Gives whether it was killed in time, and the quality that it ends with.
    """
    killed = _train_apart(order, kill=True) is None
    quality = _train_apart(order, kill=False)
    if quality is None:
        raise RuntimeError(f"training {order.candidate} failed; see above")
    return killed, quality


def _train_apart(order: WorkOrder, *, kill: bool) -> float | None:
    """The quality of a training in a process of its own; None where that was killed, or failed."""
    folder = Path(order.checkpoint_dir)
    path = folder.parent / "order.json"
    order.write(path)
    root = str(Path(__file__).resolve().parents[1])
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path)],
        env={**os.environ, "PYTHONPATH": root},
        stdout=subprocess.PIPE,
        text=True,
    )
    while kill and process.poll() is None:
        if (folder / "setting-0.pt").exists():
            process.kill()
            break
        time.sleep(0.01)
    output, _ = process.communicate()
    return float(output.split()[-1]) if process.returncode == 0 else None


def main(
    tiny: Annotated[bool, typer.Option(help="a few images and one candidate, on the CPU")] = False,
    count: Annotated[int, typer.Option(help="images")] = 60_000,
    epochs: Annotated[int, typer.Option(help="per candidate")] = 2,
    batch: Annotated[int, typer.Option(help="images per step")] = 512,
    precision: Annotated[str, typer.Option(help="auto, float32, bfloat16, float16")] = "auto",
    compiled: Annotated[bool, typer.Option(help="compile our networks")] = False,
) -> None:
    """Train, print the tables, and end with 1 where a resumed training differs from an unbroken one."""
    name = "cpu0" if tiny else "gpu0"
    if tiny:
        count, batch, precision = 120, 24, "bfloat16"
    device = devices.resolve(name)
    devices.seed_everything(0)
    torch.use_deterministic_algorithms(device.type == "cpu", warn_only=True)
    root = Path(tempfile.mkdtemp(prefix="easeml-gpu-"))
    fields = {"device": name, "max_epochs": epochs, "patience": epochs, "batch_size": batch}
    fields |= {"precision": precision, "compiled": compiled}
    hardware = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    console = Console()
    try:
        arrays, what = images(count)
        version = stage(root / "images", *arrays, "image")
        examples = Examples(open_version(version))
        table = Table(
            "candidate", "quality", "images/s", "bare loop", "ours / bare", title=f"{what}, {hardware}"
        )
        for candidate in TINY if tiny else (model.name for model in models_for("image-classification")):
            try:
                row = measured(order_of(root, candidate, version, **fields), examples, device)
            except Exception as error:  # of one candidate, takes nothing from the others
                row = (f"{type(error).__name__}: {error}".splitlines()[0][:60],)
            print(candidate, *row, flush=True)  # also where the time runs out before the table
            table.add_row(candidate, *row)
        console.print(table)
        fields |= {"max_epochs": 4 * epochs, "patience": 4 * epochs}
        whole, broken = (order_of(root, TINY[0], version, **fields) for _ in range(2))
        first = train_watched(whole, examples, device)
        killed, second = resumed(broken)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    how = "killed and resumed" if killed else "too fast to be killed"
    print(f"{TINY[0]} {how}: quality {second:.4f}; unbroken: {first:.4f}")
    # On a GPU some sums are made in another order each time.
    raise typer.Exit(int(abs(second - first) > (1e-6 if device.type == "cpu" else 0.02)))


if __name__ == "__main__":
    typer.run(main)
