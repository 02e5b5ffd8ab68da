from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from easeml_core.service import Service, decide, settle
from easeml_core.service.status import write_status

SIGN_IN = "Basic " + base64.b64encode(b"admin:long secret").decode()

RUNS = "/#/experiments/7/runs?workflowType=machine_learning"


@pytest.fixture
def mlflow_url() -> Iterator[str]:
    """A server that knows one experiment and tells it only to `admin`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = "experiments/get-by-name?experiment_name=clinic%2Ftumours" in self.path
            allowed = self.headers.get("Authorization") == SIGN_IN
            self.send_response(200 if known and allowed else 404 if allowed else 401)
            self.end_headers()
            self.wfile.write(json.dumps({"experiment": {"experiment_id": "7"}}).encode())

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def trained(service: Service, add_task: Any, make_result: Any, mlflow_url: str) -> tuple[Service, int]:
    task_id = add_task()
    settings = {"mlflow_url": mlflow_url, "mlflow_public_url": "https://mlflow.example.org/"}
    service = Service(service.settings.model_copy(update=settings))
    a = decide.decide(service, "cpu0", 0.0)
    assert a is not None
    settle.settle(service, a.trial_id, a.attempt, make_result(a.trial_id, a.attempt))
    return service, task_id


def test_a_trial_that_met_its_limit_is_on_the_leaderboard_with_a_remark(
    service: Service, add_task: Any, make_result: Any
) -> None:
    task_id = add_task()
    a = decide.decide(service, "cpu0", 0.0)
    assert a is not None
    said = "computed longer than its limit of 50 s: the best of what it had by then counts"
    result = make_result(a.trial_id, 1, 0.8, reason=said, cost_seconds=50.2)
    assert settle.settle(service, a.trial_id, 1, result).promote
    write_status(service, task_id)
    status = json.loads(service.bucket.read("clinic/tumours/status.json"))
    [best] = status["leaderboard"]
    assert (best["state"], best["quality"], best["reason"]) == ("succeeded", 0.8, said)
    assert status["budget"]["charged_seconds"] == 50.2
    assert f"- {best['trial']}, {said}\n" in service.bucket.read("clinic/tumours/status.md").decode()


def links(service: Service) -> Any:
    return json.loads(service.bucket.read("clinic/tumours/status.json"))["links"]


def test_the_link_leads_where_people_reach_mlflow_and_is_looked_up_signed_in(
    trained: tuple[Service, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    service, task_id = trained
    write_status(service, task_id)
    assert links(service) == {}, "it asks for a sign-in, and there is none"
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "admin")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "long secret")
    write_status(service, task_id)
    assert links(service) == {"experiment": f"https://mlflow.example.org{RUNS}"}
    assert f"https://mlflow.example.org{RUNS}" in service.bucket.read("clinic/tumours/status.md").decode()


def test_without_a_public_address_the_services_own_is_shown(
    trained: tuple[Service, int], monkeypatch: pytest.MonkeyPatch, mlflow_url: str
) -> None:
    service, task_id = trained
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "admin")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "long secret")
    write_status(Service(service.settings.model_copy(update={"mlflow_public_url": ""})), task_id)
    assert links(service) == {"experiment": f"{mlflow_url}{RUNS}"}
