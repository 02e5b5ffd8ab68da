"""The real stack: up, healthy, each program killed in turn, a killed supervisor, down with nothing left."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psutil
import psycopg2
import pytest

from easeml_core.errors import OperatorError
from easeml_core.settings import Settings
from easeml_core.stack import api, leftovers, programs
from easeml_core.stack.description import StackInfo, StackStatus
from easeml_core.stack.layout import Layout

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
IDLE_BYTES = 1.5e9

SLEEPER = """
from pathlib import Path
import time
from airflow.sdk import DAG, task

with DAG("sleeper", schedule=None, catchup=False):
    @task
    def sleep():
        Path(r"{folder}/started").touch()
        deadline = time.monotonic() + 120
        while not Path(r"{folder}/finish").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
    sleep()
"""


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="easeml-stack-"))
    for name in ("dags", "plugins"):
        (made / name).mkdir()
    (made / "dags/sleeper.py").write_text(SLEEPER.format(folder=made))
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def settings(folder: Path) -> Iterator[Settings]:
    # The home's parent is closed to the database's user, as root's own folder would be.
    (folder / "closed").mkdir(mode=0o700)
    made = Settings(
        home=folder / "closed/home", dags_folder=folder / "dags", plugins_folder=folder / "plugins"
    )
    yield made
    api.purge(made)


@pytest.fixture(scope="module")
def stack(settings: Settings) -> StackInfo:
    return api.up(settings)


def wait_for(what: Callable[[], bool], seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)


def main_pids(status: StackStatus) -> dict[str, int]:
    return {program.name: program.pid for program in status.programs}


def airflow(stack: StackInfo, method: str, path: str, **json: object) -> dict:
    sign_in = {"username": stack.airflow_user, "password": stack.airflow_password}
    token = httpx.post(f"{stack.airflow_url}/auth/token", json=sign_in).raise_for_status().json()
    headers = {"Authorization": f"Bearer {token['access_token']}"}
    url = f"{stack.airflow_url}/api/v2/{path}"
    answer = httpx.request(method, url, json=json or None, headers=headers, timeout=30)
    return answer.raise_for_status().json()


def test_everything_works_and_says_so(settings: Settings, stack: StackInfo) -> None:
    status = api.status(settings)
    assert status.healthy, status
    assert {"postgres", "mlflow", "scheduler", "api-server", "dag-processor", "triggerer"} <= {
        program.name for program in status.programs
    }
    assert settings.resolved_database_url() == stack.database_url
    assert settings.resolved_mlflow_url() == stack.mlflow_url
    found = httpx.post(f"{stack.mlflow_url}/api/2.0/mlflow/experiments/search", json={"max_results": 10})
    assert found.json()["experiments"]


def test_idle_it_takes_at_most_one_and_a_half_gigabytes(settings: Settings, stack: StackInfo) -> None:
    wait_for(lambda: api.status(settings).pss_bytes <= IDLE_BYTES, 60)


def test_airflows_programs_share_what_they_import(settings: Settings, stack: StackInfo) -> None:
    for name in ("scheduler", "triggerer", "dag-processor", "api-server"):
        found = psutil.Process(main_pids(api.status(settings))[name]).memory_full_info()
        assert found.rss - found.uss > 40e6, name


def test_the_dags_are_seen_without_errors(stack: StackInfo) -> None:
    wait_for(lambda: "sleeper" in str(airflow(stack, "GET", "dags")))
    assert airflow(stack, "GET", "importErrors")["total_entries"] == 0


def test_nothing_listens_beyond_loopback(settings: Settings, stack: StackInfo) -> None:
    addresses = {
        connection.laddr.ip
        for process in leftovers.find(Layout.of(settings.home))
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert addresses == {"127.0.0.1"}


def test_the_database_wants_its_password(stack: StackInfo) -> None:
    host = stack.database_url.partition("host=")[2]
    with pytest.raises(psycopg2.OperationalError, match="password"):
        psycopg2.connect(host=host, user="easeml", dbname="easeml", password="guess")
    assert Path(host).stat().st_mode & 0o077 == 0


def test_up_again_changes_nothing_and_callers_wait_for_each_other(
    settings: Settings, stack: StackInfo
) -> None:
    found: list[StackInfo] = []
    threads = [threading.Thread(target=lambda: found.append(api.up(settings))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [stack, stack]


@pytest.mark.parametrize("name", [*programs.PRIORITY])
def test_a_killed_program_comes_back(settings: Settings, stack: StackInfo, name: str) -> None:
    before = main_pids(api.status(settings))
    if name not in before:
        pytest.skip(f"{name} is not part of this checkout")
    psutil.Process(before[name]).kill()

    def healed() -> bool:
        status = api.status(settings)
        return status.healthy and main_pids(status)[name] != before[name]

    wait_for(healed)
    assert main_pids(api.status(settings)).keys() == before.keys()


def test_a_killed_schedulers_worker_finishes_its_task_and_is_swept(
    settings: Settings, stack: StackInfo, folder: Path
) -> None:
    run = airflow(stack, "POST", "dags/sleeper/dagRuns", logical_date=None)["dag_run_id"]
    wait_for((folder / "started").exists)
    scheduler = psutil.Process(main_pids(api.status(settings))["scheduler"])
    workers = scheduler.children(recursive=True)
    busy = [worker for worker in scheduler.children() if worker.children()]
    scheduler.kill()
    # The idle workers go at once, the busy one stays.
    wait_for(lambda: sum(worker.is_running() for worker in workers) <= 2 * len(busy))
    assert all(worker.is_running() for worker in busy)
    (folder / "finish").touch()
    wait_for(lambda: airflow(stack, "GET", f"dags/sleeper/dagRuns/{run}")["state"] == "success")
    wait_for(lambda: not any(worker.is_running() for worker in workers))
    wait_for(lambda: api.status(settings).healthy)


def test_a_killed_supervisor_leaves_no_orphans_and_up_heals(settings: Settings, stack: StackInfo) -> None:
    layout = Layout.of(settings.home)
    old = {process.pid: process for process in leftovers.find(layout)}
    psutil.Process(main_pids(api.status(settings))["supervisord"]).kill()
    wait_for(lambda: not api.status(settings).running)
    again = api.up(settings)
    assert api.status(settings).healthy
    assert not [process for process in old.values() if process.is_running()]
    assert again.airflow_url == stack.airflow_url
    assert again.pids.keys() == stack.pids.keys()


def test_a_changed_setting_restarts_only_what_it_concerns(settings: Settings, stack: StackInfo) -> None:
    before = main_pids(api.status(settings))
    api.up(settings.model_copy(update={"policy": "round_robin"}))
    after = main_pids(api.status(settings))
    assert {name for name in after if after[name] == before[name]} == {"supervisord", "postgres", "mlflow"}


def test_down_interrupts_tasks_and_leaves_nothing(settings: Settings, stack: StackInfo, folder: Path) -> None:
    for name in ("started", "finish"):
        (folder / name).unlink(missing_ok=True)
    airflow(stack, "POST", "dags/sleeper/dagRuns", logical_date=None)
    wait_for((folder / "started").exists)
    layout = Layout.of(settings.home)
    old = leftovers.find(layout)
    assert old
    api.down(settings)
    assert not [process for process in old if process.is_running()]
    assert not leftovers.find(layout)
    assert not layout.stack.exists()
    assert not layout.supervisor_socket.exists()
    api.down(settings)


def test_a_program_that_cannot_start_is_named_with_its_log_and_nothing_stays(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = Layout.of(settings.home)
    data = layout.postgres.resolve() / "data"
    (data / "global").rename(data / "away")
    try:
        with pytest.raises(OperatorError, match=r"postgres keeps ending(.|\n)*pg_control"):
            api.up(settings)
    finally:
        (data / "away").rename(data / "global")
    assert not leftovers.find(layout)
