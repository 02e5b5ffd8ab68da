from __future__ import annotations

import os
import re
import shlex
import stat
import subprocess
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from easeml_core.errors import OperatorError
from easeml_core.ledger import Ledger, reports
from easeml_core.ledger.session import make_engine
from easeml_core.service import Service, backup, decide, settle

GUIDE = Path(__file__).parents[2] / "docs/operator.md"


@pytest.fixture
def siblings(database_url: str) -> Iterator[list[str]]:
    """MLflow's and Airflow's database beside the ledger, with a table each."""
    ledger = sa.make_url(database_url)
    names = [f"{ledger.database}_{other}" for other in ("mlflow", "airflow")]
    for name in names:
        run(ledger, f'CREATE DATABASE "{name}"')
        run(ledger.set(database=name), f"CREATE TABLE t AS SELECT '{name}' AS name")
    yield names
    for name in names:
        run(ledger, f'DROP DATABASE "{name}" WITH (FORCE)')


def run(url: sa.URL, statement: str) -> None:
    text = url.render_as_string(hide_password=False)
    with make_engine(text).connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text(statement))


def days(service: Service) -> list[str]:
    return sorted(path.name for path in (service.settings.home / "backups").iterdir() if path.is_dir())


def test_three_databases_are_dumped_once_a_day_and_old_days_dropped(
    service: Service, siblings: list[str]
) -> None:
    service = Service(service.settings.model_copy(update={"backups": 2}))
    ledger = sa.make_url(service.settings.database_url).database
    for day in (1, 2, 3):
        folder = backup.back_up(service, date(2026, 11, day))
        assert folder is not None
        assert {path.name for path in folder.iterdir()} == {f"{name}.dump" for name in (ledger, *siblings)}
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700, "they hold tenants' data"
        assert backup.back_up(service, date(2026, 11, day)) is None
    assert days(service) == ["2026-11-02", "2026-11-03"]


def test_backups_can_be_off(service: Service) -> None:
    assert backup.back_up(Service(service.settings.model_copy(update={"backups": 0}))) is None
    assert not (service.settings.home / "backups").exists()


def test_a_dump_that_fails_leaves_no_backup_and_is_said(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = sa.make_url(service.settings.database_url)
    monkeypatch.setattr(backup, "databases", lambda _: [url, url.set(database="nowhere")])
    with pytest.raises(OperatorError, match=r"pg_dump of nowhere failed: .*does not exist"):
        backup.back_up(service)
    assert days(service) == []


def test_without_pg_dump_it_is_said_once(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("easeml_core.stack.postgres.programs_folder", lambda: None)
    monkeypatch.setenv("PATH", "/nowhere")
    assert backup.back_up(service) is None
    assert backup.back_up(service) is None
    said = [record.message for record in caplog.records if record.name == backup.__name__]
    assert len(said) == 1
    assert re.match(r"there is no pg_dump of version \d+ or later", said[0])
    assert days(service) == []
    monkeypatch.undo()
    assert backup.back_up(service) is not None
    assert not (service.settings.home / "backups" / backup.NOTICE).exists()


def test_the_recipe_of_the_operators_guide_brings_a_ledger_back(
    service: Service, add_task: Any, make_result: Any, tmp_path: Path
) -> None:
    add_task()
    a = decide.decide(service, "cpu0", 0.0)
    assert a is not None
    settle.settle(service, a.trial_id, a.attempt, make_result(a.trial_id, a.attempt, 0.75))
    url = sa.make_url(service.settings.database_url)
    with service.ledger.transaction() as session:
        before = reports.tenants(session)
    made = backup.back_up(service)
    assert made is not None
    # The ledger is lost.
    run(url.set(database="postgres"), f'DROP DATABASE "{url.database}" WITH (FORCE)')

    section = GUIDE.read_text().split("\n## Backups\n")[1].split("\n## ")[0]
    (recipe,) = [block for block in re.findall(r"```\n(.*?)```", section, re.S) if "pg_restore" in block]
    script = tmp_path / "restore.sh"
    # The test's ledger has a name of its own; there is neither a service to stop nor one to start.
    lines = [line for line in recipe.splitlines() if not re.match(r"(easeml|export) ", line)]
    text = "\n".join(lines).replace("for name in easeml mlflow airflow", f"for name in {url.database}")
    script.write_text(f"set -eu\n{text}\n")
    programs = backup.find_program("pg_restore")
    assert programs is not None
    done = subprocess.run(
        ["bash", str(script)],
        env={
            "PATH": f"{programs.parent}:{os.defpath}",
            "EASEML_HOME": str(service.settings.home),
            "DAY": made.name,
            **backup.connection_environment(url.set(database="postgres")),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, shlex.quote(done.stdout + done.stderr)
    with Ledger(service.settings.database_url).transaction() as session:
        assert reports.tenants(session) == before
    assert decide.decide(service, "cpu0", 0.0) is not None, "it goes on where it was"
