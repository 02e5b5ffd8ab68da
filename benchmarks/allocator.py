"""The allocator measured: every policy of the papers and our own, side by side, on tables of known results.

    python benchmarks/allocator.py                       # everything, hours on one core; quick: minutes
    python benchmarks/allocator.py --quick --json        # 5 repeats, the same sections
    python benchmarks/allocator.py --section tables --section scale --repeats 20 --plots docs/images

Protocol, exactly (`easeml_core/replay/protocol.py`, after section 1.9 of the ease.ml paper):

* One repeat draws 10 test tasks with `numpy.random.default_rng(repeat).permutation`; all other tasks are the
  history. Repeats are 0..49; every policy of a repeat sees the same tasks, costs and history.
* A cell of the table is run at most once; cells that are missing in the table are not offered. Costs are the
  table's times, each task's divided by their mean, as the paper does (DEEPLEARNING's compare only within a
  task; section `seconds` takes them as they are); a table without times has costs drawn once from U(0, 1].
  Policies are told the true costs unless a section says otherwise.
* Loss of a task: best quality in its row less best found so far, 0 before any run. It is averaged over the 10
  tasks and plotted against elapsed cost as a share of the summed cost of all cells of the 10 tasks. Area: the
  exact area under the mean over repeats of these step curves. Worst: the maximum over tasks and repeats at
  each share, and the area under that. cost_to: first share where the mean curve is at most the loss.
* HYBRID is the paper's: GREEDY with warm start, beta_t = 2 c* log(pi^2 n K* t^2 / (6 delta)), delta = 0.5,
  s = 10, GP-UCB with costs; prior mean: average over the history, covariance: RBF kernel over the candidates'
  quality vectors on the history, length, variance and noise by log marginal likelihood (`kernels`).
* `easeml` gets the same history and no more. What depends on a table is learned inside the history of each
  repeat. What is left are constants, which were chosen with the areas of these tables in sight: section
  `constants` chooses each anew without the table that it is then measured on (`benchmarks/constants.py`).
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table as Grid

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import figures
from easeml_core.allocator.types import Array, Prior
from easeml_core.replay import Table, read_table
from easeml_core.replay.metrics import Curves
from easeml_core.replay.protocol import SYN, measure, prior_of, report, synthetic

ROOT = Path(__file__).resolve().parents[1]
TABLES = {
    "DEEPLEARNING": "deeplearning_22x9.csv",
    "UCR": "ucr_114x13.csv",
    "179CLASSIFIER": "jmlr2014_179x121.csv",
}
TIMED = ("DEEPLEARNING", "UCR")  # tables with measured times
DEVICES = (1, 2, 4, 8, 16)
MANY = 40  # tasks open at once in section `devices`
FIXED = ("round_robin+most_cited", "round_robin+most_recent")
PAPER = ("hybrid", "greedy", "round_robin", "random")
EI = ("mm_gp_ei", "round_robin+gp_ei", "round_robin+ei_per_second")
OURS, LIMIT = "easeml", "clairvoyant"
# (tasks, arms, trials seen, warm decisions, percentage of its arms that each past task has tried)
SCALES = (
    (1000, 100, 20, 200, 100),
    (1000, 100, 20, 200, 60),
    (1000, 100, 20, 200, 20),
    (10000, 100, 20, 10, 100),
)


@dataclass
class Bench:
    """What a run of the benchmark has to know."""

    folder: Path
    repeats: int
    progress: Progress
    plots: Path | None
    only: tuple[str, ...] = tuple(TABLES)

    def as_they_are(self) -> dict[str, Table]:
        """The public tables asked for; the paper's DEEPLEARNING has no VGG-19."""
        return {name: read_table(self.folder / TABLES[name]).without(["VGG-19"]) for name in self.only}

    def tables(self) -> dict[str, Table]:
        """The same, with times relative to their mean within a task."""
        return {
            name: table.with_relative_costs() if name in TIMED else table
            for name, table in self.as_they_are().items()
        }

    def with_synthetic(self) -> dict[str, Table]:
        """The same and SYN four ways, 60 tasks × 30 models."""
        return self.tables() | {
            f"SYN({sigma:g},{alpha:g})": synthetic(sigma, alpha, tasks=60, models=30) for sigma, alpha in SYN
        }

    def measure(self, title: str, table: Table, policies: Sequence[str], **options: Any) -> dict[str, Curves]:
        """`measure` with a progress bar."""
        job = self.progress.add_task(title, total=self.repeats)
        measured = measure(
            table,
            policies,
            self.repeats,
            progress=lambda done: self.progress.update(job, completed=done),
            **options,
        )
        self.progress.remove_task(job)
        return measured


def tables(bench: Bench) -> dict[str, Any]:
    """Every policy on every table, with costs; the end-to-end and scheduling figures of the paper."""
    found = {}
    for name, table in bench.tables().items():
        fixed = FIXED if name == "DEEPLEARNING" else ()
        measured = bench.measure(name, table, (OURS, *PAPER, *EI, *fixed, LIMIT))
        found[name] = report(measured)
        if bench.plots:
            figures.curves(measured, bench.plots / f"{name.lower()}.png", name)
    return found


def seconds(bench: Bench) -> dict[str, Any]:
    """The times as they are in the tables: a task of which all trials take long counts for more."""
    return {
        name: report(bench.measure(f"{name}, seconds", table, (OURS, "hybrid", LIMIT)))
        for name, table in bench.as_they_are().items()
        if name in TIMED
    }


def syn(bench: Bench) -> dict[str, Any]:
    """SYN(sigma_M, alpha), four ways."""
    found = {}
    for sigma, alpha in SYN:
        name = f"SYN({sigma:g},{alpha:g})"
        table = synthetic(sigma, alpha)
        found[name] = report(bench.measure(name, table, (OURS, "hybrid", "round_robin", LIMIT)))
    return found


def generator(bench: Bench) -> dict[str, Any]:
    """The same, by a policy that knows the generator: HYBRID's and our area as multiples of its own."""
    from benchmarks.generator import area, covariance_of

    found = {}
    for sigma, alpha in SYN:
        table = synthetic(sigma, alpha)
        name, covariance = f"SYN({sigma:g},{alpha:g})", covariance_of(sigma, alpha, len(table.models))
        known = float(np.mean([area(table, covariance, seed) for seed in range(bench.repeats)]))
        measured = bench.measure(name, table, (OURS, "hybrid"))
        found[name] = {"area": known} | {
            f"{policy} / it": measured[policy].area / known for policy in measured
        }
    return found


def oblivious(bench: Bench) -> dict[str, Any]:
    """Without costs: loss against the share of runs; and HYBRID blind to costs, measured in costs."""
    found = {}
    for name, table in bench.tables().items():
        runs = bench.measure(f"{name}, runs", table.with_cost(1.0), (OURS, "hybrid", "round_robin", LIMIT))
        blind = bench.measure(f"{name}, blind", table, ("hybrid+gp_ucb_oblivious",))
        found[name] = {"share of runs": report(runs), "blind to costs": report(blind)}
    return found


def history(bench: Bench) -> dict[str, Any]:
    """With 0, 10, 50, 100 % of the history; with one that misleads: its columns are shuffled; with ragged
    ones: 60 or 30 % of the cells, or a few of each task, mostly good ones, as a service comes to have."""
    found: dict[str, Any] = {}
    policies = (OURS, "hybrid", "round_robin")
    spoiled = {"misleading": shuffled, "60% of cells": cells(0.6), "30% of cells": cells(0.3), "few": few}
    for name, table in bench.with_synthetic().items():
        found[name] = {
            f"{share:.0%}": report(bench.measure(f"{name}, {share:.0%}", table, policies, share=share))
            for share in (0.0, 0.1, 0.5, 1.0)
        }
        for kind, spoil in spoiled.items():
            found[name][kind] = report(bench.measure(f"{name}, {kind}", table, policies, spoil=spoil))
    return found


def kernels(bench: Bench) -> dict[str, Any]:
    """HYBRID with each of the paper's kernels."""
    return {
        name: {
            kernel: report(bench.measure(f"{name}, {kernel}", table, ("hybrid",), believe=_prior(kernel)))
            for kernel in ("rbf", "linear", "matern")
        }
        for name, table in bench.tables().items()
    }


def _prior(kernel: str) -> Callable[[Table], Prior]:
    return lambda past: prior_of(past, kernel)


def costs(bench: Bench) -> dict[str, Any]:
    """With predicted costs: off by a factor of e^0.5 (one standard deviation) for each cell, or what a model
    costs on average in the history."""
    told: dict[str, dict[str, Any]] = {"off by e^0.5": {"error": 0.5}, "average": {"average": True}}
    return {
        name: {
            kind: report(bench.measure(f"{name}, {kind}", table, (OURS, "hybrid"), **options))
            for kind, options in told.items()
        }
        for name, table in bench.tables().items()
    }


def devices(bench: Bench) -> dict[str, Any]:
    """Time to 1 % average loss with 1 to 16 devices, 40 tasks open at once."""
    found = {}
    for name, table in bench.tables().items():
        if len(table.tasks) < MANY + 10:
            continue
        times: dict[str, float | None] = {}
        for number in DEVICES:
            measured = bench.measure(f"{name}, {number} devices", table, (OURS,), devices=number, test=MANY)
            times[str(number)] = measured[OURS].cost_to(0.01)
        found[name] = {
            "time": times,
            "speed-up": {k: times["1"] / v if v else None for k, v in times.items()},
        }
    return found


def constants(bench: Bench) -> dict[str, Any]:
    """Leave one table out: each constant chosen on the others, the synthetic ones (60 × 30) included."""
    from benchmarks.constants import left_out

    known = bench.with_synthetic()

    def area(name: str) -> float:
        return bench.measure(name, known[name], (OURS,))[OURS].area

    return left_out(area, list(known))


def calibration(bench: Bench) -> dict[str, Any]:
    """Are predictions what they claim to be: coverage of their 50 % and 90 % intervals, by table."""
    from benchmarks.calibration import coverage

    return {name: coverage(table, max(2, bench.repeats // 5)) for name, table in bench.tables().items()}


def scale(bench: Bench) -> list[dict[str, float]]:
    """Decision time and memory, each in a process of its own."""
    found = []
    for sizes in SCALES:
        command = [sys.executable, "-m", "benchmarks.scale", *(str(size) for size in sizes)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        found.append(json.loads(done.stdout))
    return found


def shuffled(past: Table) -> Table:
    """The history with its columns under wrong names: the same wrong ones for all tasks."""
    order = np.random.default_rng(len(past.models)).permutation(len(past.models))
    return Table(past.tasks, past.models, past.quality[:, order], past.cost[:, order])


def cells(share: float) -> Callable[[Table], Table]:
    """A history of which only a share of the cells is known, the same ones in every repeat."""

    def spoil(past: Table) -> Table:
        known = np.random.default_rng(0).random(past.quality.shape) < share
        return Table(past.tasks, past.models, np.where(known, past.quality, np.nan), past.cost)

    return spoil


def few(past: Table) -> Table:
    """A history whose tasks have tried up to 60 % of the models each, those more often that do well."""
    draw = np.random.default_rng(0)
    tasks, models = past.quality.shape
    mean = np.nanmean(past.quality, axis=0)
    appeal = (mean - mean.mean()) / mean.std() + 1.5 * draw.standard_normal((tasks, models))
    tried = np.argsort(np.argsort(-appeal, axis=1), axis=1) < draw.integers(2, 0.6 * models, (tasks, 1))
    return Table(past.tasks, past.models, np.where(tried, past.quality, np.nan), past.cost)


def targets(found: dict[str, Any]) -> dict[str, Any]:
    """The figures that the default policy is held to, as far as their sections were run."""
    made: dict[str, Any] = {}
    if "tables" in found:
        rows = found["tables"]
        over = {name: row["hybrid"]["area"] / row[OURS]["area"] for name, row in rows.items()}
        limit = {name: row[OURS]["area"] / row[LIMIT]["area"] for name, row in rows.items()}
        worst = {name: row["hybrid"]["area_worst"] / row[OURS]["area_worst"] for name, row in rows.items()}
        made["area, HYBRID / ours"] = over | {"geometric mean": _mean(over.values())}
        made["area, ours / clairvoyant"] = limit | {"geometric mean": _mean(limit.values())}
        made["worst-case area, HYBRID / ours"] = worst
        if "DEEPLEARNING" in rows:
            deep = rows["DEEPLEARNING"]
            fixed = min(deep[name]["cost_to"]["0.01"] for name in FIXED)
            made["cost to 1 % on DEEPLEARNING, best fixed order / ours"] = (
                fixed / deep[OURS]["cost_to"]["0.01"]
            )
    if "syn" in found:
        made["SYN area, HYBRID / ours"] = {
            name: row["hybrid"]["area"] / row[OURS]["area"] for name, row in found["syn"].items()
        }
    if "history" in found:
        made["area, ours / ROUNDROBIN"] = {
            f"{name}, {kind}": row[OURS]["area"] / row["round_robin"]["area"]
            for name, kinds in found["history"].items()
            for kind, row in kinds.items()
        }
    if "devices" in found:
        made["1 to 8 devices"] = {name: row["speed-up"]["8"] for name, row in found["devices"].items()}
    if "scale" in found:
        made["decisions"] = found["scale"]
    return made


SECTIONS: dict[str, Callable[[Bench], Any]] = {
    section.__name__: section
    for section in (
        tables,
        seconds,
        syn,
        generator,
        oblivious,
        history,
        kernels,
        costs,
        devices,
        constants,
        calibration,
        scale,
    )
}


def main(
    section: Annotated[list[str] | None, typer.Option(help=f"Any of {', '.join(SECTIONS)}; all.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="5 repeats.")] = False,
    repeats: Annotated[int, typer.Option(min=1, help="Repeats of every replay.")] = 50,
    table: Annotated[list[str] | None, typer.Option(help=f"Any of {', '.join(TABLES)}; all.")] = None,
    folder: Annotated[Path, typer.Option(help="Where the tables are.")] = ROOT.parent / "shared" / "tables",
    plots: Annotated[Path | None, typer.Option(help="Folder to write plots to.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="All figures as one JSON value.")] = False,
) -> None:
    """Run the sections asked for and print what they found."""
    unknown = (set(section or ()) - set(SECTIONS)) | (set(table or ()) - set(TABLES))
    if unknown:
        raise typer.BadParameter(f"no section or table is called {', '.join(sorted(unknown))}")
    found: dict[str, Any] = {}
    with Progress(console=Console(stderr=True)) as progress:
        only = tuple(table or TABLES)
        bench = Bench(folder, 5 if quick else repeats, progress, plots, only)
        for name in section or SECTIONS:
            found[name] = SECTIONS[name](bench)
    found["targets"] = targets(found)
    if as_json:
        print(json.dumps(found, indent=1))
        return
    for name in (*found.get("tables", {}), *found.get("syn", {})):
        _print_table(name, found.get("tables", {}).get(name) or found["syn"][name])
    Console().print_json(data={key: value for key, value in found.items() if key not in ("tables", "syn")})


def _print_table(name: str, rows: dict[str, Any]) -> None:
    grid = Grid(
        "policy", "area", "÷ clairvoyant", "worst", "to 5 %", "to 2 %", "to 1 %", "to 0.5 %", title=name
    )
    for policy, row in sorted(rows.items(), key=lambda item: item[1]["area"]):
        shares = [f"{100 * share:.2f} %" if share else "–" for share in row["cost_to"].values()]
        against = row["area"] / rows[LIMIT]["area"]
        grid.add_row(policy, f"{row['area']:.6f}", f"{against:.2f}", f"{row['area_worst']:.5f}", *shares)
    Console().print(grid)


def _mean(values: Any) -> float:
    logs: Array = np.log(np.array(list(values)))
    return float(np.exp(logs.mean()))


if __name__ == "__main__":
    typer.run(main)
