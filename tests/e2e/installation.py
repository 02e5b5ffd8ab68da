"""A whole installation in a folder of its own, as its people see it: tenants, operator, Airflow, MLflow."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import httpx
import psutil

from easeml_core.bucket import Bucket
from easeml_core.naming import TaskName
from easeml_core.service import Service
from easeml_core.settings import Settings
from easeml_core.stack import api
from easeml_core.stack.description import StackInfo

EASEML = Path(sys.executable).with_name("easeml")
OVER = frozenset({"done", "failed", "cancelled"})
T = TypeVar("T")


def until(condition: Callable[[], T], seconds: float, what: str | Callable[[], str]) -> T:
    """What `condition` returns as soon as it is true; fails after `seconds`, naming `what` did not happen.

    A server that is being restarted is not an answer: the condition is asked again.
    """
    deadline = time.monotonic() + seconds
    while True:
        problem: Exception | None = None
        try:
            if value := condition():
                return value
        except (httpx.HTTPError, OSError, psutil.Error) as error:
            problem = error
        if time.monotonic() > deadline:
            text = what if isinstance(what, str) else what()
            raise AssertionError(f"not within {seconds:g} s: {text}") from problem
        time.sleep(0.1)


@dataclass
class Airflow:
    """Airflow's REST API, signed in with what `easeml up` printed."""

    info: StackInfo
    _headers: dict[str, str] = field(default_factory=dict)

    def token(self) -> str:
        """A token of the signed-in user."""
        sign_in = {"username": self.info.airflow_user, "password": self.info.airflow_password}
        answer = httpx.post(f"{self.info.airflow_url}/auth/token", json=sign_in, timeout=60)
        return str(answer.raise_for_status().json()["access_token"])

    def ask(self, path: str, method: str = "GET", **options: Any) -> Any:
        """The JSON answer of one request below /api/v2/."""
        if not self._headers:
            self._headers = {"Authorization": f"Bearer {self.token()}"}
        url = f"{self.info.airflow_url}/api/v2/{path}"
        answer = httpx.request(method, url, headers=self._headers, timeout=60, **options)
        return answer.raise_for_status().json()

    def train_run(self, state: str = "success") -> tuple[str, str] | None:
        """(DAG, run) of the latest device run whose train task ended in `state`; None before there is one."""
        found = self.ask(f"dags/~/dagRuns/~/taskInstances?task_id=train&state={state}&order_by=-start_date")
        chosen = [task for task in found["task_instances"] if task["task_id"] == "train"]
        return (chosen[0]["dag_id"], chosen[0]["dag_run_id"]) if chosen else None


@dataclass
class Mlflow:
    """MLflow's REST API."""

    url: str

    def ask(self, path: str, body: Mapping[str, Any] | None = None, **query: str) -> Any:
        """The JSON answer of one request below /api/2.0/mlflow/; POST where there is a body."""
        url = f"{self.url}/api/2.0/mlflow/{path}"
        answer = httpx.post(url, json=body, timeout=60) if body else httpx.get(url, params=query, timeout=60)
        return answer.raise_for_status().json()

    def runs(self, experiment: str | None = None, condition: str = "") -> list[dict[str, Any]]:
        """Runs of an experiment by name, or of all, as MLflow gives them; tags, params, metrics as dicts."""
        found = self.ask("experiments/search", {"max_results": 1000}).get("experiments", [])
        ids = [e["experiment_id"] for e in found if experiment is None or e["name"] == experiment]
        if not ids:
            return []
        body = {"experiment_ids": ids, "filter": condition, "max_results": 1000}
        runs = self.ask("runs/search", body).get("runs", [])
        for run in runs:
            for part in ("tags", "params", "metrics"):
                rows = run["data"].get(part, [])
                run["data"][part] = {row["key"]: row["value"] for row in rows}
        return list(runs)

    def champion(self, model: str) -> dict[str, Any]:
        """The model version that carries the alias `champion`."""
        answer = self.ask("registered-models/alias", name=model, alias="champion")
        return dict(answer["model_version"])


@dataclass
class Installation:
    """One home under `folder`, its running stack, and the ways in: command line, REST, ledger, bucket."""

    folder: Path
    settings: Settings
    info: StackInfo

    @cached_property
    def airflow(self) -> Airflow:
        """Airflow."""
        return Airflow(self.info)

    @cached_property
    def mlflow(self) -> Mlflow:
        """MLflow."""
        return Mlflow(self.info.mlflow_url)

    @cached_property
    def service(self) -> Service:
        """Ledger and bucket, for looking at them."""
        return Service(self.settings)

    @property
    def bucket(self) -> Bucket:
        """The bucket."""
        return self.service.bucket

    def tenant(self, *arguments: object, code: int = 0) -> Any:
        """What `easeml … --json` prints for a tenant, who knows nothing of the service but the bucket."""
        return self._easeml({"EASEML_BUCKET": self.settings.bucket_url}, arguments, code)

    def operator(self, *arguments: object, code: int = 0) -> Any:
        """What `easeml … --json` prints for the operator of the home."""
        return self._easeml({"EASEML_HOME": str(self.settings.home)}, arguments, code)

    def _easeml(self, variables: Mapping[str, str], arguments: tuple[object, ...], code: int) -> Any:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("EASEML_")}
        done = subprocess.run(
            [str(EASEML), *map(str, arguments), "--json"],
            cwd=self.folder,
            env={**kept, **variables, "HOME": str(self.folder)},
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == code, f"easeml {arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout) if done.stdout else None

    def submit(self, name: TaskName, folder: Path) -> dict[str, Any]:
        """Submit a task's folder as its tenant."""
        return dict(self.tenant("submit", name, folder))

    def status(self, name: TaskName) -> dict[str, Any]:
        """`status.json` of a task; empty before there is one."""
        content = self.bucket.read_if_there(name.key("status.json"))
        return dict(json.loads(content)) if content else {}

    def wait_status(
        self, name: TaskName, condition: Callable[[dict[str, Any]], object], seconds: float, what: str
    ) -> dict[str, Any]:
        """The status of a task once `condition` holds for it."""

        def look() -> dict[str, Any] | None:
            status = self.status(name)
            return status if status and condition(status) else None

        return until(look, seconds, lambda: f"{name}: {what}; its status: {_short(self.status(name))}")

    def wait_over(self, name: TaskName, seconds: float) -> dict[str, Any]:
        """The status of a task that is over and whose champion is its best trial."""
        return self.wait_status(name, is_settled, seconds, "to be over")

    def sweep(self, seconds: float) -> None:
        """Have housekeeping run once, from now on, to its good end."""
        run = self.airflow.ask("dags/easeml_maintain/dagRuns", "POST", json={"logical_date": None})
        path = f"dags/easeml_maintain/dagRuns/{run['dag_run_id']}"
        until(lambda: self.airflow.ask(path)["state"] in ("success", "failed"), seconds, "a sweep has run")
        assert self.airflow.ask(path)["state"] == "success"

    def stack(self) -> dict[str, int]:
        """Process id of each program."""
        return {program.name: program.pid for program in api.status(self.settings).programs}

    def wait_healthy(self, seconds: float = 180) -> None:
        """Wait until every program does its work."""
        until(
            lambda: api.status(self.settings).healthy,
            seconds,
            lambda: f"healthy again: {[p for p in api.status(self.settings).programs if not p.healthy]}",
        )


def is_settled(status: dict[str, Any]) -> bool:
    """Whether a task is over: nothing runs any more and its best model is the champion."""
    champion = status["champion"]
    promoted = champion is not None and champion["successor"] is None
    return status["state"] in OVER and not status["running"] and (promoted or not status["leaderboard"])


def _short(status: dict[str, Any]) -> dict[str, Any]:
    wanted = ("state", "state_reason", "problems", "budget", "running", "champion", "inferences")
    return {key: status.get(key) for key in wanted} | {
        "trials": [(t["candidate"], t["state"], t["reason"]) for t in status.get("trials", ())]
    }
