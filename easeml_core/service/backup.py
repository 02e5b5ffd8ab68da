"""Once a day, a dump of the three databases: ledger, MLflow, Airflow.

`<home>/backups/<date>/<database>.dump` are for `pg_restore` (custom format). A day's folder appears by one
rename, complete. The ledger is dumped first: what it names of MLflow is in MLflow's dump, too.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from easeml_core.errors import OperatorError

if TYPE_CHECKING:
    from sqlalchemy import URL

    from easeml_core.service.context import Service

log = logging.getLogger(__name__)

FOLDER = "backups"
NOTICE = "NOT_MADE.txt"
DUMP_SECONDS = 3600.0
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def back_up(service: Service, today: date | None = None) -> Path | None:
    """Make the backup of `today` (UTC) and drop those beyond the newest `settings.backups`.

    Returns its folder; None where it is there already, another process makes it, backups are off (0), or
    there is no `pg_dump` for the server, which is said once, in the log and in `backups/NOT_MADE.txt`. Raises
    OperatorError with pg_dump's words when a dump fails; nothing half is left as a backup then.
    """
    settings = service.settings
    if settings.backups == 0:
        return None
    folder = settings.home / FOLDER
    target = folder / (today or datetime.now(UTC).date()).isoformat()
    folder.mkdir(mode=0o700, exist_ok=True)
    with _only_one(folder) as mine:
        if not mine or target.exists():
            return None
        url = settings.resolved_database_url()
        version = _server_major(url)
        program = find_program("pg_dump", version)
        if program is None:
            _say_once(folder / NOTICE, version)
            return None
        (folder / NOTICE).unlink(missing_ok=True)
        aside = folder / f".{target.name}"
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(mode=0o700)
        try:
            for database in databases(url):
                _dump(program, database, aside / f"{database.database}.dump")
            aside.rename(target)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        _drop_old(folder, settings.backups)
    return target


def databases(ledger_url: str) -> list[URL]:
    """URLs of ledger, MLflow's and Airflow's database, as far as they are on the ledger's server.

    Beside a ledger they are `<ledger>_mlflow` and `<ledger>_airflow`; beside one called `easeml`, as that of
    the embedded server, also `mlflow` and `airflow`. Others of these names may be somebody else's.
    """
    import sqlalchemy as sa

    from easeml_core.ledger.session import make_engine

    ledger = sa.make_url(ledger_url)
    with make_engine(ledger_url).connect() as connection:
        there = set(connection.scalars(sa.text("SELECT datname FROM pg_database WHERE datallowconn")))
    found = [ledger]
    for other in ("mlflow", "airflow"):
        names = [f"{ledger.database}_{other}", *([other] if ledger.database == "easeml" else [])]
        found += [ledger.set(database=name) for name in names if name in there][:1]
    return found


def find_program(name: str, at_least: int = 0) -> Path | None:
    """A program of PostgreSQL of this major version or a later one: the embedded server's, else that on PATH.

    An earlier `pg_dump` refuses to read a server.
    """
    from easeml_core.stack import postgres

    embedded, on_path = postgres.programs_folder(), shutil.which(name)
    for program in (embedded / name if embedded else None, Path(on_path) if on_path else None):
        if program is not None and program.exists() and _major(program) >= at_least:
            return program
    return None


def _major(program: Path) -> int:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"\b(\d+)(?:\.|devel|beta|rc)", said)
    return int(found[1]) if found else 0


def _server_major(url: str) -> int:
    import sqlalchemy as sa

    from easeml_core.ledger.session import make_engine

    with make_engine(url).connect() as connection:
        return int(connection.scalar(sa.text("SHOW server_version_num"))) // 10000


def connection_environment(url: URL) -> dict[str, str]:
    """How PostgreSQL's programs find a database; not as arguments, for everybody can read those."""
    host = url.query.get("host", url.host)
    values = {
        "PGHOST": host if isinstance(host, str) else None,
        "PGPORT": str(url.port) if url.port else None,
        "PGUSER": url.username,
        "PGPASSWORD": None if url.password is None else str(url.password),
        "PGDATABASE": url.database,
    }
    return {name: value for name, value in values.items() if value}


def _dump(program: Path, url: URL, path: Path) -> None:
    done = subprocess.run(
        [program, "--format=custom", "--no-password", f"--file={path}"],
        env={"PATH": os.environ.get("PATH", os.defpath), **connection_environment(url)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DUMP_SECONDS,
    )
    if done.returncode != 0:
        raise OperatorError(f"{program} of {url.database} failed: {done.stderr.strip()[-1000:]}")
    path.chmod(0o600)


def _drop_old(folder: Path, keep: int) -> None:
    days = sorted(path for path in folder.iterdir() if _DAY.fullmatch(path.name))
    for path in days[:-keep]:
        shutil.rmtree(path, ignore_errors=True)


def _say_once(notice: Path, version: int) -> None:
    text = f"there is no pg_dump of version {version} or later, on PATH or embedded: no backups are made"
    if not notice.exists():
        log.warning(text)
        notice.write_text(f"{text}\n")


@contextmanager
def _only_one(folder: Path) -> Iterator[bool]:
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
