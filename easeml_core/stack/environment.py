"""The environment of every program of the stack, in one place.

Airflow's values are those measured best for one machine: the scheduler's idle sleep decides the gap
between two trials (0.1 s: about 0.3 s on PostgreSQL, for 10 % of a core), the heartbeats how soon a killed
worker, task or triggerer is noticed.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from easeml_core.errors import OperatorError
from easeml_core.settings import Settings
from easeml_core.stack.keys import AIRFLOW_USER, Keys
from easeml_core.stack.layout import STACK_VARIABLE, Layout
from easeml_core.stack.ports import HOST

REPOSITORY = Path(__file__).resolve().parents[2]
# They reach programs only through `stack.json` (mode 0600), which trainers are not given.
_NOT_PASSED = frozenset({"home", "database_url", "mlflow_url", "airflow_port", "mlflow_port"})
# What an operator's shell may hold that would reconfigure a server behind our back.
_FOREIGN = ("AIRFLOW", "_AIRFLOW", "EASEML_", "MLFLOW_", "_MLFLOW_", "PG", "PYTEST_")
# glibc keeps an arena per thread otherwise: tens of MB per server that only idles.
_ALLOCATOR = {"MALLOC_ARENA_MAX": "2"}
_SECRET_SETTINGS = frozenset({"bucket_options"})


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where the servers of a stack are: database URLs, and HTTP URLs without a final slash."""

    database_url: str
    airflow_database_url: str
    mlflow_database_url: str
    airflow_url: str
    mlflow_url: str


def inherited() -> dict[str, str]:
    """Our own environment without what would reconfigure a server; this Python's programs first."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)}
    kept["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), kept.get("PATH", os.defpath)))
    return kept


def supervisor_environment() -> dict[str, str]:
    """For supervisord and `launch`: where to find this package, and what only a starting process reads."""
    return {"PYTHONPATH": str(REPOSITORY), **_ALLOCATOR}


def preload_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Of Airflow's environment what its own modules read when they are imported."""
    return {name: value for name, value in variables.items() if name.startswith("AIRFLOW_")}


def code_folders(settings: Settings) -> tuple[Path, Path]:
    """The folders of DAGs and plugins: as set, else those beside this package's own checkout.

    Raises OperatorError when one is missing.
    """
    found = []
    for name in ("dags", "plugins"):
        folder = getattr(settings, f"{name}_folder", None) or REPOSITORY / name
        if not folder.is_dir():
            raise OperatorError(f"there is no folder {folder}: set EASEML_{name.upper()}_FOLDER")
        found.append(folder.resolve())
    return found[0], found[1]


def settings_environment(settings: Settings, *, secrets: bool = True) -> dict[str, str]:
    """`EASEML_*` variables that make `Settings()` of a program equal to `settings`."""
    variables = {"EASEML_HOME": str(settings.home)}
    for name, value in settings.model_dump(mode="json", exclude_defaults=True).items():
        if name in _NOT_PASSED or (name in _SECRET_SETTINGS and not secrets):
            continue
        if name == "devices":
            text = ",".join(value)
        else:
            text = value if isinstance(value, str) else json.dumps(value)
        variables[f"EASEML_{name.upper()}"] = text
    return variables


def common(settings: Settings, layout: Layout) -> dict[str, str]:
    """What every Python program of the stack gets; no secrets."""
    _, plugins = code_folders(settings)
    path = [
        str(REPOSITORY),
        str(plugins),
        str(REPOSITORY / "plugins"),
        *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)),
    ]
    return {
        STACK_VARIABLE: str(layout.home),
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(path)),
        "PYTHONUNBUFFERED": "1",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "true",
        "GIT_PYTHON_REFRESH": "quiet",
        **_ALLOCATOR,
    }


def trainer_environment(settings: Settings, layout: Layout, endpoints: Endpoints) -> dict[str, str]:
    """For the standby: knows MLflow but neither the database nor the bucket's keys."""
    return {
        **common(settings, layout),
        **settings_environment(settings, secrets=False),
        "MLFLOW_TRACKING_URI": endpoints.mlflow_url,
    }


def mlflow_environment(settings: Settings, layout: Layout, endpoints: Endpoints) -> dict[str, str]:
    """For the MLflow server; read by `easeml_core.stack.mlflow_server`."""
    return {
        **common(settings, layout),
        "MLFLOW_BACKEND_STORE_URI": endpoints.mlflow_database_url,
        "MLFLOW_ARTIFACTS_DESTINATION": layout.artifacts.as_uri(),
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_SQLALCHEMYSTORE_POOL_SIZE": "2",
        "MLFLOW_SQLALCHEMYSTORE_MAX_OVERFLOW": "10",
    }


def airflow_environment(
    settings: Settings, layout: Layout, endpoints: Endpoints, keys: Keys
) -> dict[str, str]:
    """For every Airflow program."""
    dags, plugins = code_folders(settings)
    url = endpoints.airflow_url
    # Each device's chain runs one task at a time; intake, inference and maintenance share two places
    # beside them. A worker that only waits holds 25 MB.
    parallelism = len(settings.devices) + 2
    sections: Mapping[str, Mapping[str, object]] = {
        "CORE": {
            "DAGS_FOLDER": dags,
            "PLUGINS_FOLDER": plugins,
            "LOAD_EXAMPLES": False,
            "EXECUTOR": "easeml_airflow.executor.SharingLocalExecutor",
            "PARALLELISM": parallelism,
            "DAGS_ARE_PAUSED_AT_CREATION": False,
            "FERNET_KEY": keys.fernet_key,
            "EXECUTION_API_SERVER_URL": f"{url}/execution/",
            "AUTH_MANAGER": "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager",
            "SIMPLE_AUTH_MANAGER_USERS": f"{AIRFLOW_USER}:admin",
            "SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": layout.airflow / "passwords.json",
        },
        "API": {
            "HOST": HOST,
            "PORT": url.rpartition(":")[2],
            "BASE_URL": url,
            "WORKERS": 1,
            "SECRET_KEY": keys.session_key,
        },
        "API_AUTH": {"JWT_SECRET": keys.jwt_secret},
        "DATABASE": {
            "SQL_ALCHEMY_CONN": endpoints.airflow_database_url,
            # Empty: no second, asynchronous engine, which would need asyncpg and which nothing here uses.
            "SQL_ALCHEMY_CONN_ASYNC": "",
        },
        "LOGGING": {
            "BASE_LOG_FOLDER": layout.airflow / "logs",
            "DAG_PROCESSOR_CHILD_PROCESS_LOG_DIRECTORY": layout.airflow / "logs/dag_processor",
        },
        "SCHEDULER": {
            "SCHEDULER_IDLE_SLEEP_TIME": 0.05,
            "TASK_INSTANCE_HEARTBEAT_TIMEOUT": 30,
            "TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": 5,
            # A restarted scheduler takes over what the killed one had queued.
            "ORPHANED_TASKS_CHECK_INTERVAL": 30,
        },
        "WORKERS": {"MIN_HEARTBEAT_INTERVAL": 1},
        "TRIGGERER": {"TRIGGERER_HEALTH_CHECK_THRESHOLD": 8, "JOB_HEARTBEAT_SEC": 2},
        "DAG_PROCESSOR": {"REFRESH_INTERVAL": 10, "PARSING_PROCESSES": 1},
        "USAGE_DATA_COLLECTION": {"ENABLED": False},
    }
    variables = {
        f"AIRFLOW__{section}__{option}": str(value)
        for section, options in sections.items()
        for option, value in options.items()
    }
    return {
        **common(settings, layout),
        **settings_environment(settings),
        **variables,
        "AIRFLOW_HOME": str(layout.airflow),
        "SCARF_ANALYTICS": "false",
        "MLFLOW_TRACKING_URI": endpoints.mlflow_url,
    }
