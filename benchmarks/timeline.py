"""From what Airflow, the trainers and the work folders wrote: where a device's time went between two trials.

Idle time is from the end of one trial's computing to the start of the next one's on the same device. Its
parts, in order (all in seconds):

========== ==========================================================================================
log        model and metrics of the ended trial into MLflow, and the end of its trainer
settle     the settle task at work: result, promotion, status
decide     the decide task at work: the allocator, the lease, the work order
start      from the train task's start to a seeded trainer: its fork from the standby, or a fresh
           interpreter and its imports (the kernel dates a process to the second only, so not told apart)
data       opening the data version
tracking   opening the MLflow run
scheduling the rest: Airflow's scheduler, its API, forking three task processes
========== ==========================================================================================
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

from easeml_core import naming
from easeml_core.settings import Settings
from easeml_core.stack.description import StackInfo

PARTS = ("log", "settle", "decide", "start", "data", "tracking", "scheduling")


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
    """One run of a device's DAG that trained something."""

    trial_id: int
    candidate: str
    decide: Span
    train: Span
    settle: Span
    opened: float  # its MLflow run, the last thing before computing
    timings: Mapping[str, float]  # seconds: data, tracking, train …

    @property
    def computing(self) -> Span:
        """When the trial computed."""
        return Span(self.opened, self.opened + self.timings["train"])


def read_rounds(airflow: Airflow, settings: Settings, device: str) -> list[Round]:
    """The device's rounds in order; runs that found nothing to train are left out."""
    dag_id = naming.allocate_dag_id(device)
    runs: dict[str, dict[str, dict[str, Any]]] = {}
    for instance in airflow.task_instances(dag_id):
        runs.setdefault(instance["dag_run_id"], {})[instance["task_id"]] = instance
    rounds = []
    for run_id, tasks in runs.items():
        if any(tasks[name]["state"] != "success" for name in ("decide", "train", "settle")):
            continue
        folder = Path(airflow.xcom(dag_id, run_id, "decide")["order_path"]).parent
        result = json.loads((folder / "result.json").read_bytes())
        if result["outcome"] != "succeeded":
            continue
        order = json.loads((folder / "order.json").read_bytes())
        spans = {name: _span(tasks[name]) for name in ("decide", "train", "settle")}
        rounds.append(
            Round(
                trial_id=result["trial_id"],
                candidate=order["candidate"],
                opened=(folder / "run.json").stat().st_mtime,
                timings=result["timings"],
                **spans,
            )
        )
    return sorted(rounds, key=lambda round_: round_.train.start)


def idle_parts(before: Round, after: Round) -> dict[str, float]:
    """Where the time between two rounds' computing went; `idle` is their sum."""
    idle = after.computing.start - before.computing.end
    parts = {
        "log": before.train.end - before.computing.end,
        "settle": before.settle.seconds,
        "decide": after.decide.seconds,
        "start": after.opened - after.train.start - after.timings["data"] - after.timings["tracking"],
        "data": after.timings["data"],
        "tracking": after.timings["tracking"],
    }
    parts["scheduling"] = idle - sum(parts.values())
    return {"idle": idle, **parts}


def summarise(rounds: Sequence[Round], *, longest_wait: float) -> dict[str, Any]:
    """Medians over all gaps; gaps in which `decide` waited `longest_wait` or more had no work to give."""
    gaps = [
        {"trial": after.trial_id, "candidate": after.candidate, **idle_parts(before, after)}
        for before, after in itertools.pairwise(rounds)
    ]
    counted = [gap for gap in gaps if gap["decide"] < longest_wait]
    if len(counted) < 2:
        raise RuntimeError(f"{len(counted)} gaps between trials are too few to say anything")
    return {
        "trials": len(rounds),
        "gaps": len(counted),
        "median": {name: median(gap[name] for gap in counted) for name in ("idle", *PARTS)},
        "p95_idle": quantiles((gap["idle"] for gap in counted), n=20, method="inclusive")[-1],
        "each": gaps,
        "rounds": [asdict(round_) for round_ in rounds],
    }


def _span(instance: Mapping[str, Any]) -> Span:
    start, end = (datetime.fromisoformat(instance[name]) for name in ("start_date", "end_date"))
    return Span(start.timestamp(), end.timestamp())
