"""What a stack with these settings consists of: endpoints, keys, server, programs. It starts nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from easeml_core.allocator import make_policy
from easeml_core.hardware import check_devices
from easeml_core.settings import Settings
from easeml_core.stack import databases, environment, postgres
from easeml_core.stack.environment import Endpoints
from easeml_core.stack.keys import AIRFLOW_USER, Keys, load_keys
from easeml_core.stack.layout import Layout
from easeml_core.stack.ports import HOST, choose_ports
from easeml_core.stack.programs import Program, build_programs


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything `up` needs to know before it starts something."""

    layout: Layout
    endpoints: Endpoints
    urls: Mapping[str, str]
    keys: Keys
    server: postgres.Server | None
    programs: tuple[Program, ...]
    airflow_environment: Mapping[str, str]
    airflow_user: str = AIRFLOW_USER

    @property
    def names(self) -> frozenset[str]:
        """Names of the programs."""
        return frozenset(program.name for program in self.programs)


def make_plan(settings: Settings, layout: Layout, *, running: bool) -> Plan:
    """The plan for these settings; picks ports and makes keys that are missing.

    Raises OperatorError when a port is taken, a folder is missing or the database can't be placed, for a GPU
    that is not there and a policy that nobody knows.
    """
    make_policy(settings.policy)
    check_devices(settings.devices)
    keys = load_keys(layout.secrets)
    wanted = {"airflow": settings.airflow_port}
    if not settings.mlflow_url:
        wanted["mlflow"] = settings.mlflow_port
    ports = choose_ports(layout, wanted, running=running)
    server = None
    if settings.database_url:
        urls = databases.external_urls(settings.database_url)
    else:
        server = postgres.place(layout)
        names = (databases.LEDGER, databases.AIRFLOW, databases.MLFLOW)
        urls = {name: server.url(name, keys.database_password) for name in names}
    endpoints = Endpoints(
        database_url=urls[databases.LEDGER],
        airflow_database_url=urls[databases.AIRFLOW],
        mlflow_database_url=urls[databases.MLFLOW],
        airflow_url=f"http://{HOST}:{ports['airflow']}",
        mlflow_url=settings.mlflow_url or f"http://{HOST}:{ports['mlflow']}",
    )
    return Plan(
        layout,
        endpoints,
        urls,
        keys,
        server,
        build_programs(settings, layout, endpoints, keys, server),
        environment.airflow_environment(settings, layout, endpoints, keys),
    )
