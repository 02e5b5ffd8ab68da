"""How long a device idles between two trials, where that time goes, and what an idle stack costs.

Starts the real stack in a temporary home, uploads small tasks as tenants would, waits for the trials, and
asks Airflow and the trainers when each did what. Then it stops the warm standby and does some more trials,
each in a fresh interpreter, to show what the standby is good for. Run it on an otherwise idle machine:

    python benchmarks/loop.py                # 20 short trials and 6 cold ones, as tables
    python benchmarks/loop.py --json         # the same as JSON, every gap in it
    python benchmarks/loop.py --home DIR     # keep everything for a look afterwards
"""

from __future__ import annotations

import json
import os
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
from easeml_core.stack.layout import Layout
from easeml_core.stack.supervisor import Supervisor

TRIALS_PER_TASK = 5
STANDBY = "standby"
UP_SECONDS = 300.0
WAITED = 4.0  # seconds: a decide step that took longer waited for work that was not there
IDLE_BUDGET = 1.0  # seconds, median
MEMORY_BUDGET = 1.5e9  # bytes PSS


def upload_tasks(bucket: Path, trials: int, prefix: str) -> list[Path]:
    """Put flat-vector tasks of two tenants into the bucket, enough for `trials` short trials."""
    from sklearn import datasets

    loaders = [datasets.load_iris, datasets.load_wine, datasets.load_breast_cancer]
    folders = []
    for number in range(-(-trials // TRIALS_PER_TASK)):
        data = loaders[number % len(loaders)]()
        folder = bucket / f"bench-{number % 2}" / f"{prefix}-{number}"
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


def measure(settings: Settings, warm: int, cold: int, console: Console, seconds: float) -> dict[str, Any]:
    """Run the whole measurement on a stack that is up; `warm` and `cold` are numbers of trials."""
    info, bucket = api.describe(settings), Path(settings.bucket_url)
    time.sleep(5.0)  # the idle stack: nothing uploaded, the start's work done
    idle = {program.name: program.pss_bytes for program in api.status(settings).programs}
    load = [os.getloadavg()[0]]
    wait_for(upload_tasks(bucket, warm, "warm"), console, seconds)
    load.append(os.getloadavg()[0])
    rounds = read_rounds(Airflow(info), settings, settings.devices[0])
    report = {"warm": summarise(rounds, longest_wait=WAITED)}
    if cold:
        Supervisor(Layout.of(settings.home)).stop_programs([STANDBY])
        wait_for(upload_tasks(bucket, cold, "cold"), console, seconds)
        known = {round_.trial_id for round_ in rounds}
        rounds = read_rounds(Airflow(info), settings, settings.devices[0])
        later = [round_ for round_ in rounds if round_.trial_id not in known]
        report["cold"] = summarise(later, longest_wait=WAITED)
    # Others on the machine lengthen everything: figures without its load (runnable processes) say little.
    return {**report, "idle_pss_bytes": idle, "load": load, "cores": os.cpu_count()}


def show(report: dict[str, Any], console: Console) -> None:
    """The report as tables."""
    variants = [name for name in ("warm", "cold") if name in report]
    table = Table(title="Device idle between two trials, seconds")
    table.add_column("part")
    for name in variants:
        for measure_ in ("median", "p95"):
            table.add_column(f"{name}, {measure_}", justify="right")
    for part in (*PARTS, "idle"):
        if part == "idle":
            table.add_section()
        cells = [f"{report[name][figure][part]:.3f}" for name in variants for figure in ("median", "p95")]
        table.add_row(part, *cells, style="bold" if part == "idle" else None)
    console.print(table)
    for name in variants:
        console.print(f"{name}: {report[name]['gaps']} gaps between {report[name]['trials']} trials")
    programs = Table(title="Idle stack, MB PSS")
    programs.add_column("program")
    programs.add_column("MB", justify="right")
    for name, size in report["idle_pss_bytes"].items():
        programs.add_row(name, f"{size / 1e6:.0f}")
    programs.add_section()
    total = sum(report["idle_pss_bytes"].values())
    programs.add_row("all", f"{total / 1e6:.0f} of {MEMORY_BUDGET / 1e6:.0f}", style="bold")
    console.print(programs)
    before, after = report["load"]
    console.print(f"load of the machine's {report['cores']} cores: {before:.1f} before, {after:.1f} after")


def main(
    trials: Annotated[int, typer.Option(help="how many short trials")] = 20,
    cold: Annotated[int, typer.Option(help="how many more without the standby; 0: none")] = 6,
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
            report = measure(settings, trials, cold, console, seconds)
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
    memory = sum(report["idle_pss_bytes"].values())
    too_much = report["warm"]["median"]["idle"] > IDLE_BUDGET or memory > MEMORY_BUDGET
    raise typer.Exit(1 if check and too_much else 0)


if __name__ == "__main__":
    typer.run(main)
