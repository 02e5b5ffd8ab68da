"""From what Airflow, the trainers and the work folders wrote: where a device's time went between two trials.

Idle time is from the end of one trial's computing to the start of the next one's on the same device. It is
cut at moments that one clock dated, in this order, so that the parts add up to it:

=========== =========================================================================================
log         score, model and metrics of the ended trial into MLflow, up to its result
scheduling  up to the step that goes on: Airflow's scheduler, its API, forking its process. The train
            step that watched the trial does, at once; of a trial that was shorter than scheduling, it is
            still to come. Where it could not, this is all the time spent between steps
settle      up to the trial's end in the ledger
decide      from there up to the next work order
interpreter from the order to the trainer's process
imports     from there to a trainer that has imported what it needs (forked from the standby: nothing)
data        seeding, opening the data version and the MLflow run's log, up to computing
=========== =========================================================================================

Opening the MLflow run takes none of it: the trainer does so while it computes.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import httpx
from sqlalchemy import select

from easeml_core import naming
from easeml_core.ledger.models import Attempt
from easeml_core.service import Service
from easeml_core.settings import Settings
from easeml_core.stack.description import StackInfo

PARTS = ("log", "scheduling", "settle", "decide", "interpreter", "imports", "data")


class Airflow:
    """The few questions to Airflow's REST API that a benchmark asks."""

    def __init__(self, info: StackInfo) -> None:
        self._client = httpx.Client(base_url=info.airflow_url, timeout=30.0)
        answer = self._client.post(
            "/auth/token", json={"username": info.airflow_user, "password": info.airflow_password}
        )
        answer.raise_for_status()
        self._client.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"

    def get(self, path: str, **parameters: Any) -> Any:
        """The JSON at `/api/v2/<path>`."""
        answer = self._client.get(f"/api/v2/{path}", params=parameters)
        answer.raise_for_status()
        return answer.json()

    def task_instances(self, dag_id: str) -> list[dict[str, Any]]:
        """Every task instance of every run of a DAG."""
        found: list[dict[str, Any]] = []
        while True:
            page = self.get(
                f"dags/{dag_id}/dagRuns/~/taskInstances", limit=100, offset=len(found), order_by="id"
            )
            found += page["task_instances"]
            if not page["task_instances"] or len(found) >= page["total_entries"]:
                return found

    def xcom(self, dag_id: str, run_id: str, task_id: str) -> Any:
        """What a task returned."""
        path = f"dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/xcomEntries/return_value"
        value = self.get(path)["value"]
        return json.loads(value) if isinstance(value, str) else value


@dataclass(frozen=True, slots=True)
class Span:
    """Start and end, seconds since the epoch."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        """How long."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Round:
    """One run of a device's DAG that trained something. Moments are seconds since the epoch."""

    trial_id: int
    candidate: str
    decide: Span
    train: Span
    settle: Span | None  # where the train step did not settle it
    ordered: float  # its work order was written
    claimed: float  # the trainer's process had taken it
    begun: float  # and had imported what it needs
    computing: Span
    ended: float  # its result was written
    settled: float  # the ledger knew it
    timings: Mapping[str, float]  # seconds, of the trainer's own steps


def read_rounds(airflow: Airflow, settings: Settings, device: str) -> list[Round]:
    """The device's rounds in order; runs that found nothing to train are left out."""
    dag_id = naming.allocate_dag_id(device)
    runs: dict[str, dict[str, dict[str, Any]]] = {}
    for instance in airflow.task_instances(dag_id):
        runs.setdefault(instance["dag_run_id"], {})[instance["task_id"]] = instance
    settled = _settled(settings)
    rounds = []
    for run_id, tasks in runs.items():
        if tasks["train"]["state"] != "success":
            continue
        folder = Path(airflow.xcom(dag_id, run_id, "decide")["order_path"]).parent
        result = json.loads((folder / "result.json").read_bytes())
        if result["outcome"] != "succeeded":
            continue
        order = json.loads((folder / "order.json").read_bytes())
        timings = result["timings"]
        rounds.append(
            Round(
                trial_id=result["trial_id"],
                candidate=order["candidate"],
                ordered=_written(folder / "order.json"),
                claimed=_written(folder / "trainer.json"),
                begun=timings["begun_at"],
                computing=Span(timings["train_begun_at"], timings["train_ended_at"]),
                ended=_written(folder / "result.json"),
                settled=settled[result["trial_id"], result["attempt"]],
                timings=timings,
                decide=_span(tasks["decide"]),
                train=_span(tasks["train"]),
                settle=_span(tasks["settle"]) if tasks["settle"]["state"] == "success" else None,
            )
        )
    return sorted(rounds, key=lambda round_: round_.train.start)


def idle_parts(before: Round, after: Round) -> dict[str, float]:
    """Where the time between two rounds' computing went; `idle` is their sum."""
    going_on = max(before.ended, before.train.start)
    if before.settle is None:  # the train step handed the device over
        settle, decide = before.settled - going_on, after.ordered - before.settled
    else:
        settle, decide = before.settle.seconds, after.ordered - after.decide.start
    parts = {
        "log": before.ended - before.computing.end,
        "scheduling": after.ordered - before.ended - settle - decide,
        "settle": settle,
        "decide": decide,
        "interpreter": after.claimed - after.ordered,
        "imports": after.begun - after.claimed,
        "data": after.computing.start - after.begun,
    }
    return {"idle": after.computing.start - before.computing.end, **parts}


def summarise(rounds: Sequence[Round], *, longest_wait: float) -> dict[str, Any]:
    """Medians and 95th percentiles; gaps in which `decide` waited `longest_wait` or more had no work."""
    gaps = [
        {"trial": after.trial_id, "candidate": after.candidate, **idle_parts(before, after)}
        for before, after in itertools.pairwise(rounds)
    ]
    counted = [gap for gap in gaps if gap["decide"] < longest_wait]
    if len(counted) < 2:
        raise RuntimeError(f"{len(counted)} gaps between trials are too few to say anything")
    columns = {name: [gap[name] for gap in counted] for name in ("idle", *PARTS)}
    return {
        "trials": len(rounds),
        "gaps": len(counted),
        "median": {name: median(values) for name, values in columns.items()},
        "p95": {name: quantiles(values, n=20, method="inclusive")[-1] for name, values in columns.items()},
        "each": gaps,
        "rounds": [asdict(round_) for round_ in rounds],
    }


def _settled(settings: Settings) -> dict[tuple[int, int], float]:
    """When the ledger learnt of each attempt's end."""
    query = select(Attempt.trial_id, Attempt.number, Attempt.ended_at).where(Attempt.ended_at.is_not(None))
    with Service(settings).ledger.transaction() as session:
        return {(trial, number): at.timestamp() for trial, number, at in session.execute(query)}


def _written(path: Path) -> float:
    return path.stat().st_mtime


def _span(instance: Mapping[str, Any]) -> Span:
    start, end = (datetime.fromisoformat(instance[name]) for name in ("start_date", "end_date"))
    return Span(start.timestamp(), end.timestamp())
