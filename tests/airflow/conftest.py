"""An Airflow of our own for these tests: its home is set before the first import of Airflow."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

REPO = Path(__file__).resolve().parents[2]


def _import_airflow() -> None:
    """Airflow reads AIRFLOW_HOME once, at import. The rest goes into its file, not into the environment,
    where it would reach every process that later tests start."""
    home = Path(tempfile.mkdtemp(prefix="easeml-airflow-", dir="/tmp"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    (home / "airflow.cfg").write_text(
        f"""[core]
load_examples = False
dags_folder = {REPO / "dags"}
plugins_folder = {REPO / "plugins"}
[database]
sql_alchemy_conn = sqlite:///{home / "airflow.db"}
"""
    )
    before = os.environ.get("AIRFLOW_HOME")
    os.environ["AIRFLOW_HOME"] = str(home)
    try:
        import airflow.settings  # noqa: F401
    finally:
        if before is None:
            del os.environ["AIRFLOW_HOME"]
        else:
            os.environ["AIRFLOW_HOME"] = before


_import_airflow()

from tests.airflow.rows import lease_trial  # noqa: E402
from tests.airflow.standby import ScriptedStandby  # noqa: E402
from tests.airflow.steps import FileStore  # noqa: E402


@pytest.fixture
def environment(settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service's settings as the environment of an Airflow task."""
    monkeypatch.setenv("EASEML_HOME", str(settings.home))
    for name in settings.model_fields_set - {"home"}:
        value = getattr(settings, name)
        monkeypatch.setenv(
            f"EASEML_{name.upper()}", ",".join(value) if isinstance(value, tuple) else str(value)
        )


@pytest.fixture
def standby(settings) -> Iterator[ScriptedStandby]:
    """Answers at the standby's socket and starts real, scripted trainers."""
    with ScriptedStandby(settings.run_dir) as standby:
        yield standby


@pytest.fixture
def assignment(service, settings) -> dict[str, object]:
    """A leased first attempt of a trial, as the decide step hands it on."""
    return lease_trial(service, settings)


@pytest.fixture
def quick_renewals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leases are renewed, and cancellation is noticed, twenty times a second."""
    monkeypatch.setattr("easeml_airflow.hooks.RENEW_SECONDS", 0.05)


@pytest.fixture
def context(tmp_path: Path) -> dict[str, Any]:
    return {"task_state_store": FileStore(tmp_path / "store.json")}
