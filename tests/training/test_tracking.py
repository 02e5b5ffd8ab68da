"""The gateway against a real MLflow server."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from easeml_core.errors import TemporaryError
from easeml_core.tracking import CONFIG_TAG, Tracking, hash_files


@pytest.fixture
def tracking(mlflow_url: str) -> Tracking:
    return Tracking(mlflow_url)


@pytest.fixture
def experiment(tracking: Tracking, request: pytest.FixtureRequest) -> str:
    return tracking.get_or_create_experiment(f"clinic/{request.node.name}")


def test_importing_it_does_not_import_mlflow() -> None:
    code = "import sys, easeml_core.tracking; sys.exit('mlflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_many_at_once_get_one_experiment(tracking: Tracking) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(tracking.get_or_create_experiment, ["clinic/brand-new"] * 8))
    assert len(found) == 1


def test_a_run_is_made_once_per_attempt_and_closes_those_of_earlier_ones(
    tracking: Tracking, experiment: str
) -> None:
    first = tracking.create_run(experiment, "one", trial=1, attempt=1)
    child = tracking.create_run(experiment, "lr", trial=1, attempt=1, parent=first)
    assert tracking.create_run(experiment, "one", trial=1, attempt=1) == first
    second = tracking.create_run(experiment, "two", trial=1, attempt=2)
    assert second not in (first, child)
    assert [tracking.client.get_run(run).info.status for run in (first, child, second)] == [
        "KILLED",
        "KILLED",
        "RUNNING",
    ]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_refused(tracking: Tracking, experiment: str, value: float) -> None:
    run = tracking.create_run(experiment, "r", trial=2, attempt=1)
    with pytest.raises(ValueError, match="finite"):
        tracking.log(run, metrics=[("fine", 1.0, 0), ("loss", value, 0)])
    assert tracking.client.get_run(run).data.metrics == {}


def test_a_long_parameter_is_cut_and_the_configuration_kept_whole(
    tracking: Tracking, experiment: str, tmp_path: Path
) -> None:
    run = tracking.create_run(experiment, "r", trial=3, attempt=1)
    tracking.log(run, params={"long": "x" * 9000, "rate": 0.1})
    tracking.log_config(run, {"long": "x" * 9000})
    data = tracking.client.get_run(run).data
    assert len(data.params["long"]) == 500
    assert data.params["rate"] == "0.1"
    text = Path(tracking.client.download_artifacts(run, "config.json", str(tmp_path))).read_text()
    assert "x" * 9000 in text
    assert hash_files(tmp_path)["config.json"] == data.tags[CONFIG_TAG]


def test_only_runs_without_a_live_owner_are_closed(tracking: Tracking, experiment: str) -> None:
    dead = tracking.create_run(experiment, "dead", trial=10, attempt=1)
    alive = tracking.create_run(experiment, "alive", trial=11, attempt=2)
    foreign = tracking.client.create_run(experiment).info.run_id
    closed = tracking.close_orphans({(11, 2)})
    assert dead in closed
    assert alive not in closed
    assert tracking.client.get_run(foreign).info.status == "RUNNING"
    tracking.finish(alive, "FINISHED")
    assert tracking.client.get_run(alive).info.status == "FINISHED"


def test_a_damaged_store_is_noticed(
    tracking: Tracking, experiment: str, artifacts: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "model"
    (folder / "data").mkdir(parents=True)
    (folder / "MLmodel").write_text("flavors: {}\n")
    (folder / "data" / "model.pt2").write_bytes(os.urandom(1000))
    run = tracking.create_run(experiment, "r", trial=20, attempt=1)
    model = tracking.create_model(experiment, run, {})
    files = tracking.upload_model(model, folder)
    assert files == hash_files(folder)
    uri = f"models:/{model}"
    assert tracking.verify_files(uri, files) == []
    stored = next(artifacts.rglob(f"{model}/artifacts/data/model.pt2"))
    stored.write_bytes(b"something else")
    assert "not the file" in tracking.verify_files(uri, files)[0]
    stored.unlink()
    assert tracking.verify_files(uri, files) == ["data/model.pt2 is missing in the artifact store"]
    assert tracking.verify_files(uri, {}) == ["the result names no files"]


def test_a_version_is_made_once_per_run_and_the_alias_follows(
    tracking: Tracking, experiment: str, tmp_path: Path
) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "MLmodel").write_text("flavors: {}\n")
    versions = []
    for trial in (30, 31):
        run = tracking.create_run(experiment, "r", trial=trial, attempt=1)
        model = tracking.create_model(experiment, run, {})
        tracking.upload_model(model, tmp_path / "m")
        made = [tracking.register("clinic.alias", f"models:/{model}", run, {"q": "1"}) for _ in range(2)]
        assert made[0] == made[1]
        versions.append(made[0])
    assert tracking.champion("clinic.alias") is None
    assert tracking.champion("clinic.nothing") is None
    for version in versions:
        tracking.set_champion(version)
        assert tracking.champion("clinic.alias") == version


def test_a_server_that_is_away_is_temporary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(TemporaryError, match="does not answer"):
        Tracking("http://127.0.0.1:9").get_or_create_experiment("a/b")


def test_a_server_that_hangs_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes connections and never answers: maintenance must not spend MLflow's patience on it."""
    import socket

    monkeypatch.setattr("easeml_core.tracking._SIGN_OF_LIFE_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        tracking = Tracking(f"http://127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(TemporaryError, match="does not answer"):
            tracking.close_orphans(set())
        server.settimeout(5.0)
        server.accept()[0].close()
        server.settimeout(0.2)
        with pytest.raises(TimeoutError):  # nobody else has called
            server.accept()


def test_mlflows_own_patience_is_bounded_for_our_calls() -> None:
    script = (
        "from easeml_core.errors import TemporaryError; from easeml_core.tracking import Tracking\n"
        "try: Tracking('http://127.0.0.1:9').get_or_create_experiment('a/b')\n"
        "except TemporaryError: print('away')\n"
        "from mlflow.environment_variables import MLFLOW_HTTP_REQUEST_MAX_RETRIES as n\n"
        "print(n.get())\n"
    )
    clean = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
    done = subprocess.run(
        [sys.executable, "-c", script], env=clean, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["away", "1"]


def test_the_champion_answers_over_http(make_order: Callable[..., Path], tmp_path: Path) -> None:
    """`mlflow models serve`, in the environment as it is, gives what the trainer gave."""
    import json
    import signal
    import socket
    import time

    import httpx
    import numpy as np

    from easeml_core.data import open_version
    from easeml_core.workorder import WorkOrder
    from training.examples import Examples
    from training.trial import run_attempt

    path = make_order("MLP", "vector", search={"learning_rate": 0.01})
    order = WorkOrder.read(path)
    result = run_attempt(path.parent)
    tracking = Tracking(order.mlflow_url)
    tracking.set_champion(
        tracking.register("clinic.served", str(result.model_uri), str(result.mlflow_run_id), {})
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [
            sys.executable, "-m", "mlflow", "models", "serve", "-m", "models:/clinic.served@champion",
            "--env-manager", "local", "-w", "1", "--host", "127.0.0.1", "--port", str(port),
        ],
        # The command looks for uvicorn beside the interpreter only through PATH.
        env={
            **os.environ,
            "MLFLOW_TRACKING_URI": order.mlflow_url,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        },
        stdout=(tmp_path / "serve.txt").open("w"),
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip
    try:
        examples = Examples(open_version(order.version_dir))
        inputs = examples.inputs(examples.version.val)
        deadline = time.monotonic() + 200
        while True:
            assert server.poll() is None, (tmp_path / "serve.txt").read_text()
            assert time.monotonic() < deadline
            try:
                if httpx.get(f"http://127.0.0.1:{port}/ping", timeout=5).status_code == 200:
                    break
            except httpx.HTTPError:
                time.sleep(0.2)
        body = json.dumps({"inputs": inputs.tolist()})
        headers = {"content-type": "application/json"}
        answer = httpx.post(f"http://127.0.0.1:{port}/invocations", content=body, headers=headers, timeout=60)
        assert answer.status_code == 200, answer.text
        probabilities = np.asarray(answer.json()["predictions"])
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
    assert probabilities.sum(1) == pytest.approx(1.0, abs=1e-5)
    accuracy = (probabilities.argmax(1) == examples.targets(examples.version.val)).mean()
    assert accuracy == pytest.approx(result.score)
