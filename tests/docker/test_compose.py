"""The compose file and the image cannot be run everywhere; what can be checked without Docker is."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from easeml_core.settings import Settings

DOCKER = Path(__file__).parents[2] / "docker"


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    return YAML(typ="safe").load(DOCKER / "compose.yaml")


def _environment_names(compose: dict[str, Any]) -> set[str]:
    return {name for service in compose["services"].values() for name in service.get("environment", {})}


def test_compose_file_follows_the_compose_specification():
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "check_jsonschema",
            "--builtin-schema",
            "vendor.compose-spec",
            str(DOCKER / "compose.yaml"),
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_dockerfile_passes_the_linter():
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([hadolint, str(DOCKER / "Dockerfile")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_dockerfile_copies_only_what_the_repository_has():
    text = (DOCKER / "Dockerfile").read_text()
    sources = [
        name
        for line in re.findall(r"^COPY (?:--\S+ )*(.+)$", text, flags=re.MULTILINE)
        for name in line.split()[:-1]
    ]
    assert len(sources) >= 4
    assert [name for name in sources if not (DOCKER.parent / name).exists()] == []


def test_every_secret_is_named_in_the_example_environment():
    used = set(re.findall(r"\$\{([A-Z0-9_]+)", (DOCKER / "compose.yaml").read_text()))
    offered = set(re.findall(r"^([A-Z0-9_]+)=", (DOCKER / ".env.example").read_text(), flags=re.MULTILINE))
    assert used == offered


def test_every_easeml_variable_is_a_setting(compose: dict[str, Any]):
    own = {"EASEML_QUEUE", "EASEML_WORKER_SLOTS"}  # read by worker.supervisord.conf
    fields = {f"EASEML_{name.upper()}" for name in Settings.model_fields}
    used = {name for name in _environment_names(compose) if name.startswith("EASEML_")}
    assert used - own - fields == set()
    assert own <= set(re.findall(r"%\(ENV_(\w+)\)s", (DOCKER / "worker.supervisord.conf").read_text()))


def test_every_airflow_variable_is_an_option_of_airflow(compose: dict[str, Any]):
    code = (
        "import json; from airflow.configuration import conf; print(json.dumps("
        "{s: list(v['options']) for s, v in conf.configuration_description.items()}))"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    options = json.loads(done.stdout.strip().splitlines()[-1])
    used = [name.split("__")[1:] for name in _environment_names(compose) if name.startswith("AIRFLOW__")]
    celery = {"broker_url", "result_backend"}  # described by the Celery provider, a part of the image only
    unknown = [
        f"{section}.{option}"
        for section, option in ((s.lower(), o.lower()) for s, o in used)
        if option not in options.get(section, []) and not (section == "celery" and option in celery)
    ]
    assert unknown == []


def test_the_standby_starts_without_the_keys_of_its_worker(compose: dict[str, Any]):
    conf = configparser.RawConfigParser()
    conf.read(DOCKER / "worker.supervisord.conf")
    words = shlex.split(conf["program:standby"]["command"])
    python = words.index("python")
    assert words[python:] == ["python", "-m", "training.standby"]
    service = compose["services"]["worker-host-a"]["environment"]
    # the same command, in the worker's environment, with a look at what is left of it
    seen = subprocess.run(
        [*words[:python], sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))"],
        env={**service, "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    left = json.loads(seen.stdout)
    for secret in ("POSTGRES_PASSWORD", "S3_SECRET_KEY", "AIRFLOW_FERNET_KEY", "AIRFLOW_JWT_SECRET"):
        assert any(secret in value for value in service.values())
        assert not any(secret in value for value in left.values())
    assert {"MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "EASEML_MLFLOW_URL"} <= set(left)


def test_each_device_has_a_queue_that_some_worker_serves(compose: dict[str, Any]):
    environment = compose["x-easeml"]["environment"]
    settings = Settings(
        devices=environment["EASEML_DEVICES"],
        device_queues=YAML(typ="safe").load(environment["EASEML_DEVICE_QUEUES"]),
    )
    served = {
        service["environment"]["EASEML_QUEUE"]
        for service in compose["services"].values()
        if "EASEML_QUEUE" in service.get("environment", {})
    }
    assert set(settings.device_queues) == set(settings.devices)
    assert set(settings.device_queues.values()) <= served
    assert environment["AIRFLOW__OPERATORS__DEFAULT_QUEUE"] in served


def test_only_loopback_ports_are_published(compose: dict[str, Any]):
    ports = [port for service in compose["services"].values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)
