"""How long a device idles between two trials, where that time goes, and what an idle stack costs.

Starts the real stack in a temporary home, uploads small tasks as tenants would, waits for the trials, and
asks Airflow and the trainers when each did what. Run it on an otherwise idle machine:

    python benchmarks/loop.py                # 20 short trials, a table
    python benchmarks/loop.py --json         # the same as JSON, every gap in it
    python benchmarks/loop.py --home DIR     # keep everything for a look afterwards
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.timeline import PARTS, Airflow, read_rounds, summarise
from easeml_core.settings import Settings
from easeml_core.stack import api

TRIALS_PER_TASK = 5
UP_SECONDS = 300.0
WAITED = 4.0  # seconds: a decide step that took longer waited for work that was not there
IDLE_BUDGET = 1.0  # seconds, median
MEMORY_BUDGET = 1.5e9  # bytes PSS


def upload_tasks(bucket: Path, trials: int) -> list[Path]:
    """Put flat-vector tasks of two tenants into the bucket, enough for `trials` short trials."""
    from sklearn import datasets

    loaders = [datasets.load_iris, datasets.load_wine, datasets.load_breast_cancer]
    folders = []
    for number in range(-(-trials // TRIALS_PER_TASK)):
        data = loaders[number % len(loaders)]()
        folder = bucket / f"bench-{number % 2}" / f"task-{number}"
        (folder / "data").mkdir(parents=True)
        header = ",".join([*(f"x{i}" for i in range(data.data.shape[1])), "label"])
        rows = [
            ",".join([*map(repr, map(float, x)), f"c{y}"])
            for x, y in zip(data.data, data.target, strict=True)
        ]
        (folder / "data" / "table.csv").write_text("\n".join([header, *rows]) + "\n")
        inputs, outputs = data.data.shape[1], len(data.target_names)
        (folder / "task.yaml").write_text(
            f"program: '{{input: {{[Tensor[{inputs}]], []}}, output: {{[Tensor[{outputs}]], []}}}}'\n"
            f"budget: {{trials: {min(TRIALS_PER_TASK, trials - number * TRIALS_PER_TASK)}}}\n"
        )
        folders.append(folder)
    return folders


def wait_for(folders: list[Path], console: Console, seconds: float) -> None:
    """Wait until every task's status says that it is over; raises TimeoutError."""
    deadline = time.monotonic() + seconds
    with console.status("") as spinner:
        while True:
            states = [_state(folder) for folder in folders]
            spinner.update(f"tasks: {', '.join(states)}")
            if all(state in ("done", "failed", "rejected", "cancelled") for state in states):
                break
            if time.monotonic() > deadline:
                raise TimeoutError(f"after {seconds:g} s the tasks are: {', '.join(states)}")
            time.sleep(0.5)
    for folder, state in zip(folders, states, strict=True):
        if state != "done":
            raise RuntimeError(f"{folder} is {state}: {(folder / 'status.md').read_text()}")


def _state(folder: Path) -> str:
    path = folder / "status.json"
    return str(json.loads(path.read_text())["state"]) if path.exists() else "uploaded"


def measure(settings: Settings, trials: int, console: Console, seconds: float) -> dict[str, Any]:
    """Run the whole measurement on a stack that is up."""
    info = api.describe(settings)
    time.sleep(5.0)  # the idle stack: nothing uploaded, the start's work done
    idle_bytes = api.status(settings).pss_bytes
    folders = upload_tasks(Path(settings.bucket_url), trials)
    wait_for(folders, console, seconds)
    rounds = read_rounds(Airflow(info), settings, settings.devices[0])
    return {**summarise(rounds, longest_wait=WAITED), "idle_stack_pss_bytes": idle_bytes}


def show(report: dict[str, Any], console: Console) -> None:
    """The report as a table."""
    table = Table(title=f"Device idle between trials: {report['gaps']} gaps of {report['trials']} trials")
    table.add_column("part")
    table.add_column("median, s", justify="right")
    for name in PARTS:
        table.add_row(name, f"{report['median'][name]:.3f}")
    table.add_section()
    table.add_row("idle", f"{report['median']['idle']:.3f}", style="bold")
    table.add_row("idle, 95th percentile", f"{report['p95_idle']:.3f}")
    console.print(table)
    console.print(
        f"idle stack: {report['idle_stack_pss_bytes'] / 1e9:.2f} GB PSS (budget {MEMORY_BUDGET / 1e9:g})"
    )


def main(
    trials: Annotated[int, typer.Option(help="how many short trials")] = 20,
    home: Annotated[Path | None, typer.Option(help="keep everything here; must be empty")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    seconds: Annotated[float, typer.Option(help="give up after so long")] = 600.0,
    check: Annotated[bool, typer.Option(help="exit 1 beyond the budgets")] = False,
) -> None:
    """Measure the loop; see the module's documentation."""
    console = Console(stderr=as_json)
    folder = home or Path(tempfile.mkdtemp(prefix="easeml-bench-", dir="/tmp"))
    settings = Settings(home=folder, devices=("cpu0",), settle_seconds=1.0)
    try:
        api.up(settings, timeout=UP_SECONDS)
        try:
            report = measure(settings, trials, console, seconds)
        finally:
            api.down(settings)
    finally:
        if home is None:
            api.purge(settings)
            shutil.rmtree(folder, ignore_errors=True)
    if as_json:
        print(json.dumps(report, indent=2))
    else:
        show(report, console)
    too_much = report["median"]["idle"] > IDLE_BUDGET or report["idle_stack_pss_bytes"] > MEMORY_BUDGET
    raise typer.Exit(1 if check and too_much else 0)


if __name__ == "__main__":
    typer.run(main)
