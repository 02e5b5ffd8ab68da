"""How well the cost model predicts: really trains candidates on small tasks, then asks it.

Each trial is a whole attempt, with a real MLflow server; what it takes is the CPU time of the trainer on one
thread, which is what the clock says where nothing else runs. Then, over many random orders of these trials,
the model learns from the first few and predicts the others. A prediction of 2 s where the truth is 3 s, or of
4.5 s, is off by a factor of 1.5.

    python benchmarks/cost.py                          # train, then the tables (some minutes)
    python benchmarks/cost.py --save trials.json       # and keep what the trials took
    python benchmarks/cost.py --load trials.json       # tables only, of what was kept
"""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import httpx
import typer
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from easeml_core.allocator.cost import CostModel, CostObservation
from easeml_core.service import forecast
from easeml_core.workorder import ORDER_FILE, Outcome, WorkOrder

GOAL = 1.5  # times the truth, median, after LEARNED trials
LEARNED = 3
ORDERS = 300
TASKS: dict[tuple[str, int | None], tuple[str, ...]] = {
    ("cancer", None): ("LogisticRegression", "RandomForest", "KNN", "MLP"),
    ("diabetes", None): ("RidgeRegression", "RandomForest", "SVM", "MLP"),
    ("digits", 300): ("SmallCNN", "SqueezeNet", "AlexNet"),
    ("mnist", 300): ("SmallCNN", "SqueezeNet"),
    ("gunpoint", 100): ("RNN", "GRU"),
}


@dataclass(frozen=True)
class Trial:
    """A trial that really ran: predicted from `work` (FLOPs), took `seconds`."""

    task: str
    candidate: str
    device_kind: str
    work: float
    seconds: float

    def observation(self) -> CostObservation:
        """What the cost model learns from it."""
        return CostObservation(self.candidate, self.device_kind, self.work, self.seconds)


def run_trials() -> list[Trial]:
    """Train every candidate of TASKS with the catalogue's own search."""
    from benchmarks.versions import order_of, version_of
    from easeml_core.data import VersionFacts
    from training.child import prepare_environment

    prepare_environment()
    root = Path(tempfile.mkdtemp(prefix="easeml-cost-"))
    trials = []
    try:
        with mlflow_server(root) as url:
            for candidate in ("KNN", "MLP"):  # loads what a standby has loaded
                _train(order_of(root, candidate, version_of(root, "cancer"), mlflow_url=url, max_epochs=1))
            for (data, most), candidates in TASKS.items():
                version = version_of(root, data, most)
                facts = VersionFacts.model_validate_json((version / "version.json").read_text())
                sizes = forecast.sizes_of(facts.model_dump())
                for candidate in candidates:
                    seconds = _train(order_of(root, candidate, version, mlflow_url=url))
                    kind = forecast.device_kind("cpu0", candidate)
                    work = forecast.work_of(candidate, sizes, gpu=False)
                    trials.append(Trial(version.name, candidate, kind, work, seconds))
                    print(f"{version.name} {candidate}: {seconds:.2f} s", file=sys.stderr)
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return trials


def _train(order: WorkOrder) -> float:
    """CPU seconds of one attempt."""
    from training.trial import run_attempt

    folder = Path(order.checkpoint_dir).parent
    order.write(folder / ORDER_FILE)
    begun = time.process_time()
    result = run_attempt(folder)
    if result.outcome is not Outcome.SUCCEEDED:
        raise RuntimeError(f"{order.candidate} on {order.task}: {result.outcome}, {result.reason}")
    return time.process_time() - begun


@contextmanager
def mlflow_server(root: Path) -> Iterator[str]:
    """A server on loopback, its database and artifacts below `root`."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--workers", "1", "--backend-store-uri", f"sqlite:///{root}/mlflow.db"]
    command += ["--artifacts-destination", str(root / "artifacts")]
    server = subprocess.Popen(
        command,
        env={**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + 120
        while True:
            with suppress(httpx.HTTPError):
                if httpx.get(f"{url}/health", timeout=2).status_code == 200:
                    break
            if time.monotonic() > deadline or server.poll() is not None:
                raise RuntimeError("MLflow did not come up")
            time.sleep(0.2)
        yield url
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def off_by(trials: Sequence[Trial], learned: int, orders: int = ORDERS) -> list[float]:
    """By which factors predictions are off after `learned` trials, over random orders of them."""
    factors = []
    for seed in range(orders):
        drawn = random.Random(seed).sample(list(trials), len(trials))
        model = CostModel.fit([trial.observation() for trial in drawn[:learned]])
        for trial in drawn[learned:]:
            predicted = model.predict(trial.candidate, trial.device_kind, trial.work)
            factors.append(math.exp(abs(math.log(predicted / trial.seconds))))
    return factors


def main(
    save: Annotated[Path | None, typer.Option(help="keep what the trials took")] = None,
    load: Annotated[Path | None, typer.Option(help="do not train; use what was kept")] = None,
) -> None:
    """Train, predict, print, and end with 1 where the goal is missed."""
    trials = run_trials() if load is None else [Trial(**row) for row in json.loads(load.read_text())]
    if save is not None:
        save.write_text(json.dumps([asdict(trial) for trial in trials], indent=1) + "\n")
    console = Console()
    known = CostModel.fit([trial.observation() for trial in trials])
    table = Table("task", "candidate", "GFLOP", "took s", "before any trial", "knowing all")
    for trial in trials:
        guesses = [
            model.predict(trial.candidate, trial.device_kind, trial.work) for model in (CostModel(), known)
        ]
        table.add_row(
            trial.task,
            trial.candidate,
            f"{trial.work / 1e9:.1f}",
            f"{trial.seconds:.2f}",
            *(f"{guess:.2f}" for guess in guesses),
        )
    console.print(table)
    medians = {}
    summary = Table("trials learned from", "median off by", "9 of 10 within")
    for learned in range(min(9, len(trials) - 1)):
        factors = sorted(off_by(trials, learned))
        medians[learned] = statistics.median(factors)
        summary.add_row(str(learned), f"{medians[learned]:.2f}x", f"{factors[int(0.9 * len(factors))]:.2f}x")
    console.print(summary)
    print(f"load of the machine while it ran: {os.getloadavg()[0]:.1f}")
    raise typer.Exit(int(medians[LEARNED] > GOAL))


if __name__ == "__main__":
    typer.run(main)
