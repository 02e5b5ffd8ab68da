from __future__ import annotations

from pathlib import Path

import pytest

from easeml_core.errors import OperatorError
from easeml_core.settings import Settings
from easeml_core.stack import environment
from easeml_core.stack.environment import Endpoints
from easeml_core.stack.keys import load_keys
from easeml_core.stack.layout import Layout

ENDPOINTS = Endpoints(
    database_url="postgresql://u:db-secret@/easeml",
    airflow_database_url="postgresql://u:db-secret@/airflow",
    mlflow_database_url="postgresql://u:db-secret@/mlflow",
    airflow_url="http://127.0.0.1:8080",
    mlflow_url="http://127.0.0.1:5000",
)


@pytest.fixture
def settings(layout: Layout) -> Settings:
    return Settings(
        home=layout.home,
        bucket="s3://bucket",
        bucket_options={"key": "k", "secret": 'bucket "secret" %,='},
        devices=("gpu0", "gpu1"),
        lease_seconds=7.5,
        database_url="postgresql://u:db-secret@db/easeml",
    )


def test_programs_see_the_settings_that_up_was_given(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.settings_environment(settings).items():
        monkeypatch.setenv(name, value)
    assert Settings() == settings.model_copy(update={"database_url": ""})


def test_trainers_get_no_secrets(settings: Settings, layout: Layout) -> None:
    text = str(environment.trainer_environment(settings, layout, ENDPOINTS))
    assert "secret" not in text
    assert ENDPOINTS.mlflow_url in text


def test_airflow_talks_to_loopback_only_and_runs_a_task_per_device(
    settings: Settings, layout: Layout
) -> None:
    variables = environment.airflow_environment(settings, layout, ENDPOINTS, load_keys(layout.secrets))
    assert variables["AIRFLOW__API__HOST"] == "127.0.0.1"
    assert variables["AIRFLOW__API__PORT"] == "8080"
    assert variables["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] == "http://127.0.0.1:8080/execution/"
    assert int(variables["AIRFLOW__CORE__PARALLELISM"]) > len(settings.devices)
    assert all(isinstance(value, str) for value in variables.values())


def test_what_the_shell_holds_cannot_reconfigure_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AIRFLOW__CORE__EXECUTOR", "MLFLOW_TRACKING_URI", "EASEML_SEED", "PGHOST"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    kept = environment.inherited()
    assert "x" not in kept.values()
    assert kept["CUDA_VISIBLE_DEVICES"] == "1"


def test_a_missing_dags_folder_says_which_setting_names_it(layout: Layout) -> None:
    settings = Settings(home=layout.home, dags_folder=Path("/nowhere/dags"))
    with pytest.raises(OperatorError, match="EASEML_DAGS_FOLDER"):
        environment.code_folders(settings)
