"""The stack's databases: their URLs, their creation, and their schemas."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

import sqlalchemy as sa

from easeml_core.errors import OperatorError
from easeml_core.stack import environment
from easeml_core.stack.files import read_json, write_private
from easeml_core.stack.layout import Layout

LEDGER, AIRFLOW, MLFLOW = "easeml", "airflow", "mlflow"


def external_urls(database_url: str) -> dict[str, str]:
    """URLs on a server of one's own: the ledger's as given, and beside it `<name>_airflow`, `<name>_mlflow`.

    Raises OperatorError for anything but PostgreSQL with a database name.
    """
    try:
        url = sa.make_url(database_url)
    except sa.exc.ArgumentError as error:
        raise OperatorError(f"EASEML_DATABASE_URL is no database URL: {error}") from error
    if url.get_backend_name() != "postgresql" or not url.database:
        raise OperatorError(
            "EASEML_DATABASE_URL must look like postgresql+psycopg2://user:password@host/easeml"
        )
    names = {LEDGER: url.database, AIRFLOW: f"{url.database}_airflow", MLFLOW: f"{url.database}_mlflow"}
    return {key: url.set(database=name).render_as_string(hide_password=False) for key, name in names.items()}


def answers(url: str) -> bool:
    """Whether the server behind `url` takes connections (to its `postgres` database)."""
    try:
        with _connect(sa.make_url(url).set(database="postgres")):
            return True
    except sa.exc.OperationalError:
        return False


def create(urls: Iterable[str]) -> None:
    """Create the databases that are missing; raises OperatorError with the SQL to run if we may not."""
    for url in map(sa.make_url, urls):
        try:
            with _connect(url):
                continue
        except sa.exc.OperationalError as error:
            if "does not exist" not in str(error):
                raise OperatorError(f"can't open the database {url.database!r}: {error.orig}") from error
        statement = f'CREATE DATABASE "{url.database}"'
        try:
            with _connect(url.set(database="postgres")) as connection:
                connection.execute(sa.text(statement))
        except sa.exc.DBAPIError as error:
            raise OperatorError(
                f"run this on the database server as its administrator: {statement};"
            ) from error


def migrate(layout: Layout, urls: Mapping[str, str], airflow_environment: Mapping[str, str]) -> None:
    """Bring the ledger's and Airflow's schema up to date, at the same time (MLflow's server does its own).

    Raises OperatorError with the end of the output when Airflow's migration fails.
    """
    from easeml_core.ledger import migrate as migrate_ledger

    with ThreadPoolExecutor(2) as pool:
        jobs = (
            pool.submit(migrate_ledger, urls[LEDGER]),
            pool.submit(_migrate_airflow, layout, urls[AIRFLOW], airflow_environment),
        )
        for job in jobs:
            job.result()


def _migrate_airflow(layout: Layout, url: str, variables: Mapping[str, str]) -> None:
    # `airflow db migrate` takes 3 s even when there is nothing to do.
    version = importlib.metadata.version("apache-airflow")
    known = read_json(layout.schemas, {})
    revision = _revision(url)
    if revision is not None and known.get(AIRFLOW) == [version, revision]:
        return
    done = subprocess.run(
        (sys.executable, "-m", "airflow", "db", "migrate"),
        env={**environment.inherited(), **variables},
        cwd=layout.run,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode != 0:
        raise OperatorError(f"`airflow db migrate` failed:\n{(done.stdout + done.stderr)[-3000:]}")
    write_private(layout.schemas, {**known, AIRFLOW: [version, _revision(url)]})


def _revision(url: str) -> str | None:
    with _connect(sa.make_url(url)) as connection:
        if not sa.inspect(connection).has_table("alembic_version"):
            return None
        found = connection.scalar(sa.text("SELECT version_num FROM alembic_version"))
        return None if found is None else str(found)


def _connect(url: sa.URL) -> sa.Connection:
    engine = sa.create_engine(
        url, poolclass=sa.NullPool, isolation_level="AUTOCOMMIT", connect_args={"connect_timeout": 5}
    )
    return engine.connect()
