from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from supervisor.options import ServerOptions

from easeml_core.settings import Settings
from easeml_core.stack import conf, databases
from easeml_core.stack.environment import Endpoints
from easeml_core.stack.keys import load_keys
from easeml_core.stack.layout import Layout
from easeml_core.stack.programs import PRIORITY, Program, build_programs

SECRET = "db-secret"
ENDPOINTS = Endpoints(
    *(f"postgresql://u:{SECRET}@/{name}" for name in ("easeml", "airflow", "mlflow")),
    airflow_url="http://127.0.0.1:8080",
    mlflow_url="http://127.0.0.1:5000",
)


@pytest.fixture(params=["plain", "two words", "quo'te\""])
def odd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Layout]:
    made = Layout.of(tmp_path / request.param)
    made.create()
    yield made
    if made.supervisor_socket.parent != made.run:
        shutil.rmtree(made.supervisor_socket.parent)


def programs_of(layout: Layout, **settings: str) -> tuple[Program, ...]:
    made = Settings(home=layout.home, **settings)  # type: ignore[arg-type]
    return build_programs(made, layout, ENDPOINTS, load_keys(layout.secrets), None)


def test_supervisord_reads_it_as_meant_wherever_the_home_is(odd: Layout) -> None:
    programs = programs_of(odd)
    odd.conf.write_text(conf.render(odd, programs))
    options = ServerOptions()
    options.realize(args=["-c", str(odd.conf), "-n"])
    options.process_config(do_usage=False)
    found = {group.name: group.process_configs[0] for group in options.process_group_configs}
    assert found.keys() == {program.name for program in programs}
    for program in programs:
        config = found[program.name]
        assert config.stdout_logfile == str(odd.log(program.name))
        assert config.stopsignal == program.stop_signal
        assert not config.stopasgroup
        assert not config.autostart
        assert config.autorestart
    assert options.pidfile == str(odd.pid)


def test_it_holds_no_secrets(layout: Layout) -> None:
    keys = load_keys(layout.secrets)
    text = conf.render(layout, programs_of(layout))
    for secret in (SECRET, keys.fernet_key, keys.jwt_secret, keys.airflow_password):
        assert secret not in text


def test_passwords_are_in_no_process_list(layout: Layout) -> None:
    keys = load_keys(layout.secrets)
    for program in programs_of(layout):
        words = " ".join(program.command)
        assert SECRET not in words
        assert keys.database_password not in words


def test_the_database_outlives_its_clients_and_the_api_server_airflow() -> None:
    clients = {name: place for name, place in PRIORITY.items() if name != "postgres"}
    assert PRIORITY["postgres"] < min(clients.values())
    assert PRIORITY["api-server"] < min(PRIORITY[n] for n in ("scheduler", "triggerer", "dag-processor"))


def test_a_program_restarts_only_for_what_concerns_it(layout: Layout) -> None:
    one = {program.name: program.fingerprint for program in programs_of(layout)}
    assert one == {program.name: program.fingerprint for program in programs_of(layout)}
    other = {program.name: program.fingerprint for program in programs_of(layout, policy="fcfs")}
    assert one["mlflow"] == other["mlflow"]
    assert one["scheduler"] != other["scheduler"]


def test_no_tracking_server_of_our_own_beside_anothers(layout: Layout) -> None:
    names = {program.name for program in programs_of(layout, mlflow_url="http://mlflow.example")}
    assert "mlflow" not in names


def test_databases_on_a_server_of_ones_own_have_names_of_their_own() -> None:
    urls = databases.external_urls("postgresql+psycopg2://me:p%40ss@db:5433/lab?sslmode=require")
    assert urls["easeml"] == "postgresql+psycopg2://me:p%40ss@db:5433/lab?sslmode=require"
    assert urls["airflow"] == "postgresql+psycopg2://me:p%40ss@db:5433/lab_airflow?sslmode=require"
    assert urls["mlflow"] == "postgresql+psycopg2://me:p%40ss@db:5433/lab_mlflow?sslmode=require"


@pytest.mark.parametrize("url", ["sqlite:///x.db", "postgresql://host", "nonsense"])
def test_only_postgresql_with_a_database_is_accepted(url: str) -> None:
    from easeml_core.errors import OperatorError

    with pytest.raises(OperatorError, match="EASEML_DATABASE_URL"):
        databases.external_urls(url)
