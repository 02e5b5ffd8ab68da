"""Whether each program does its work, not only runs."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping

import httpx

from easeml_core.stack import databases, programs
from easeml_core.stack.environment import Endpoints
from easeml_core.stack.layout import Layout

_TIMEOUT = 5.0
# Airflow's words for its components.
_COMPONENTS = {
    programs.SCHEDULER: "scheduler",
    programs.DAG_PROCESSOR: "dag_processor",
    programs.TRIGGERER: "triggerer",
}


def healthy(layout: Layout, endpoints: Endpoints, names: frozenset[str]) -> set[str]:
    """Those of `names` that answer, or that Airflow says are alive.

    Airflow goes by heartbeats: a component killed a moment ago still counts, so ask supervisord too.
    """
    checks: Mapping[str, Callable[[], bool]] = {
        programs.POSTGRES: lambda: databases.answers(endpoints.database_url),
        programs.MLFLOW: lambda: _get(f"{endpoints.mlflow_url}/health") is not None,
        programs.STANDBY: lambda: _listens(layout),
    }
    found = {name for name, check in checks.items() if name in names and check()}
    airflow = _get(f"{endpoints.airflow_url}/api/v2/monitor/health")
    if airflow is not None:
        report = airflow.json()
        found |= {name for name, word in _COMPONENTS.items() if report[word]["status"] == "healthy"} & names
        if report["metadatabase"]["status"] == "healthy":
            found.add(programs.API_SERVER)
    return found


def _get(url: str) -> httpx.Response | None:
    try:
        answer = httpx.get(url, timeout=_TIMEOUT, trust_env=False)
    except httpx.HTTPError:
        return None
    return answer if answer.status_code == 200 else None


def _listens(layout: Layout) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(_TIMEOUT)
        try:
            probe.connect(str(layout.standby_socket))
        except OSError:
            return False
        return True
