"""The programs of the stack: what runs, in which order it starts and stops, and how it is told to stop."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from easeml_core.settings import Settings
from easeml_core.stack import environment
from easeml_core.stack.environment import Endpoints
from easeml_core.stack.keys import Keys
from easeml_core.stack.layout import STACK_VARIABLE, Layout
from easeml_core.stack.postgres import Server

POSTGRES = "postgres"
MLFLOW = "mlflow"
STANDBY = "standby"
SCHEDULER = "scheduler"
API_SERVER = "api-server"
DAG_PROCESSOR = "dag-processor"
TRIGGERER = "triggerer"

# Low starts first and stops last; programs of one step stop together. The api-server stops after all
# that talk to it, else they wait for it (12 s measured), and the standby after the tasks that train.
PRIORITY = {
    POSTGRES: 10,
    MLFLOW: 20,
    API_SERVER: 20,
    STANDBY: 30,
    DAG_PROCESSOR: 40,
    TRIGGERER: 40,
    SCHEDULER: 40,
}
# Seconds to stop in before SIGKILL. The api-server has finished its work after one second and then takes
# ten to leave; the others' time is what tasks and triggers get to clean up.
PATIENCE = {
    POSTGRES: 30,
    MLFLOW: 5,
    API_SERVER: 4,
    STANDBY: 10,
    DAG_PROCESSOR: 10,
    TRIGGERER: 12,
    SCHEDULER: 12,
}


@dataclass(frozen=True, slots=True)
class Program:
    """One program. `environment` holds what we set; a `preloaded` one (`python -m MODULE …`) is forked from
    supervisord, which has imported its modules."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    stop_signal: signal.Signals = signal.SIGTERM
    uid: int | None = None
    gid: int | None = None
    folder: Path | None = None
    preloaded: bool = False

    @property
    def patience(self) -> int:
        """Seconds it gets to stop."""
        return PATIENCE[self.name]

    @property
    def priority(self) -> int:
        """Its place in the order of starting."""
        return PRIORITY[self.name]

    @property
    def fingerprint(self) -> str:
        """Changes when the program must be restarted to run as described."""
        parts = (self.command, dict(self.environment), self.uid, self.gid, str(self.folder))
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    def as_dict(self, layout: Layout) -> dict[str, object]:
        """JSON-ready form, read by `launch`."""
        return {
            "command": self.command,
            "environment": {**environment.inherited(), **self.environment},
            "stop_signal": int(self.stop_signal),
            "uid": self.uid,
            "gid": self.gid,
            "folder": str(self.folder or layout.run),
            "preloaded": self.preloaded,
            "fingerprint": self.fingerprint,
        }


def build_programs(
    settings: Settings, layout: Layout, endpoints: Endpoints, keys: Keys, server: Server | None
) -> tuple[Program, ...]:
    """The programs of this home, in starting order. No PostgreSQL without `server`; no MLflow of our own
    when `settings.mlflow_url` names one."""
    programs = []
    if server is not None:
        programs.append(_postgres(server, layout))
    if not settings.mlflow_url:
        programs.append(
            Program(
                MLFLOW,
                (sys.executable, "-m", "easeml_core.stack.mlflow_server", endpoints.mlflow_url),
                environment.mlflow_environment(settings, layout, endpoints),
            )
        )
    airflow = environment.airflow_environment(settings, layout, endpoints, keys)
    for name, arguments in (
        (API_SERVER, ("api-server",)),
        (DAG_PROCESSOR, ("dag-processor",)),
        # Their log servers would listen on every interface; on one machine the files are read directly.
        (TRIGGERER, ("triggerer", "--skip-serve-logs")),
        (SCHEDULER, ("scheduler", "--skip-serve-logs")),
    ):
        programs.append(Program(name, (sys.executable, "-m", "airflow", *arguments), airflow, preloaded=True))
    if importlib.util.find_spec("training.standby") is not None:
        trainer = environment.trainer_environment(settings, layout, endpoints)
        programs.append(Program(STANDBY, (sys.executable, "-m", "training.standby"), trainer))
    return tuple(sorted(programs, key=lambda program: program.priority))


def _postgres(server: Server, layout: Layout) -> Program:
    return Program(
        POSTGRES,
        server.command,
        {STACK_VARIABLE: str(layout.home), "LC_ALL": "C"},
        # Fast shutdown: SIGTERM would wait until every client has left.
        stop_signal=signal.SIGINT,
        uid=server.owner.uid,
        gid=server.owner.gid,
        folder=server.folder,
    )
