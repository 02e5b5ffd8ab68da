"""The tenant's commands against a real bucket and a real intake."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from easeml_core.bucket import Bucket
from easeml_core.naming import TaskName
from easeml_core.service import Service
from tests.cli.conftest import NASTY, ROWS, SPEC, data_of, make_task

Easeml = Callable[..., Result]


@pytest.fixture
def served(service: Service, monkeypatch: pytest.MonkeyPatch) -> Service:
    """A service whose settings the commands find, too."""
    monkeypatch.setenv("EASEML_HOME", str(service.settings.home))
    monkeypatch.setenv("EASEML_DATABASE_URL", service.settings.resolved_database_url())
    return service


@contextmanager
def intake(service: Service) -> Iterator[None]:
    """Intake that looks again and again, as the Airflow DAG does, while the block runs."""
    from easeml_core.service.intake import run_intake

    over = threading.Event()
    errors: list[BaseException] = []

    def loop() -> None:
        try:
            while not over.is_set():
                run_intake(service)
                over.wait(0.05)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
    assert errors == []


def test_submit_waits_until_accepted(easeml: Easeml, served: Service, folder: Path) -> None:
    with intake(served):
        result = easeml("submit", "lab/rows", folder, "--wait", "--timeout", 30, "--json")
    answer = data_of(result)
    assert result.exit_code == 0
    assert answer["state"] == "open"
    assert answer["problems"] == []
    assert sorted(answer["sent"]) == ["data/rows.csv", "task.yaml"]
    status = data_of(easeml("status", "lab/rows", "--json"))
    assert status["state"] == "open"
    assert status["data"]["n_train"] + status["data"]["n_val"] == 40
    text = easeml("status", "rows", "--tenant", "lab").stdout
    assert "lab/rows: open" in text
    assert "untried" in text
    assert "no trial has succeeded yet" in easeml("leaderboard", "lab/rows").stdout


def test_rejected_submit_prints_every_problem_and_ends_with_1(
    easeml: Easeml, served: Service, tmp_path: Path
) -> None:
    folder = make_task(tmp_path / "bad", spec=SPEC.replace("Tensor[2]], []}, out", "Tensor[3]], []}, out"))
    with intake(served):
        result = easeml("submit", "lab/rows", folder, "--wait", "--timeout", 30)
        as_json = data_of(easeml("submit", "lab/rows", folder, "--wait", "--timeout", 30, "--json"))
    assert result.exit_code == 1
    assert "rejected" in result.stdout
    assert "data/rows.csv" in result.stdout
    assert as_json["state"] == "rejected"
    assert as_json["problems"]


def test_second_answer_is_about_the_second_upload(easeml: Easeml, served: Service, folder: Path) -> None:
    with intake(served):
        assert easeml("submit", "lab/rows", folder, "--wait", "--timeout", 30).exit_code == 0
        (folder / "data" / "rows.csv").write_text("a,b,label\n1,2,yes\n")
        assert easeml("submit", "lab/rows", folder, "--wait", "--timeout", 30).exit_code == 1
        (folder / "data" / "rows.csv").write_text(ROWS)
        (folder / "task.yaml").write_text("# a comment changes nothing but the file\n" + SPEC)
        assert easeml("submit", "lab/rows", folder, "--wait", "--timeout", 30).exit_code == 0


@pytest.mark.parametrize(
    ("current", "said"),
    [
        ({"current_score": 0.95, "current_reason": ""}, "on the present one it has accuracy 0.9500"),
        (
            {"current_score": None, "current_reason": "its model is damaged"},
            "not known: its model is damaged",
        ),
    ],
)
def test_a_champion_of_earlier_data_says_what_it_reaches_on_the_present(
    easeml: Easeml, served: Service, folder: Path, current: dict[str, Any], said: str
) -> None:
    with intake(served):
        easeml("submit", "lab/rows", folder, "--wait", "--timeout", 30)
    status = data_of(easeml("status", "lab/rows", "--json"))
    status["champion"] = {
        **{"candidate": "SVM", "objective": "accuracy", "score": 0.97, "on_current_data": False},
        **{"model_uri": "models:/lab.rows@champion", "model_version": "2", **current},
    }
    served.bucket.write("lab/rows/status.json", json.dumps(status).encode())
    assert "SVM, accuracy 0.9700" in easeml("status", "lab/rows").stdout
    for command in ("status", "leaderboard"):
        assert said in easeml(command, "lab/rows").stdout


def test_status_says_why_a_trial_failed(easeml: Easeml, served: Service, folder: Path) -> None:
    with intake(served):
        easeml("submit", "lab/rows", folder, "--wait", "--timeout", 30)
    status = data_of(easeml("status", "lab/rows", "--json"))
    status["trials"] = [{"candidate": "SVM", "state": "failed", "reason": "ValueError: [no] fit"}]
    served.bucket.write("lab/rows/status.json", json.dumps(status).encode())
    assert "SVM failed: ValueError: [no] fit" in easeml("status", "lab/rows").stdout


def test_feed_adds_examples_to_an_accepted_task(
    easeml: Easeml, served: Service, folder: Path, tmp_path: Path
) -> None:
    more = tmp_path / "more rows.csv"
    more.write_text(ROWS.replace("\n1,", "\n101,").replace("\n2,", "\n102,"))
    with intake(served):
        easeml("submit", "lab/rows", folder, "--wait", "--timeout", 30)
        before = data_of(easeml("status", "lab/rows", "--json"))["data"]
        result = easeml("feed", "lab/rows", more, "--wait", "--timeout", 30, "--json")
        after = data_of(easeml("status", "lab/rows", "--json"))["data"]
    assert result.exit_code == 0
    assert data_of(result)["sent"] == ["data/more rows.csv"]
    assert after["digest"] != before["digest"]
    assert after["facts"]["n"] > before["facts"]["n"]


def test_feed_refuses_to_overwrite_and_needs_a_task(
    easeml: Easeml, bucket: Bucket, folder: Path, tmp_path: Path
) -> None:
    other = tmp_path / "rows.csv"
    other.write_text("a,b,label\n1,2,yes\n")
    result = easeml("feed", "lab/rows", other)
    assert result.exit_code == 1
    assert "no such task" in result.stderr
    easeml("submit", "lab/rows", folder)
    assert easeml("feed", "lab/rows", other).exit_code == 1
    assert bucket.read("lab/rows/data/rows.csv").decode() == ROWS
    again = easeml("feed", "lab/rows", other, "--replace")
    assert again.exit_code == 0
    assert bucket.read("lab/rows/data/rows.csv") == other.read_bytes()
    assert "1 files sent" in again.stdout
    assert "more files" not in again.stdout, "a feed adds; what else there is stays"


def test_pause_resume_and_cancel_reach_the_task(easeml: Easeml, served: Service, folder: Path) -> None:
    from easeml_core.service.intake import run_intake

    with intake(served):
        easeml("submit", "lab/rows", folder, "--wait", "--timeout", 30)
    for command, state in (("pause", "paused"), ("resume", "open"), ("cancel", "cancelled")):
        assert easeml(command, "lab/rows").exit_code == 0
        run_intake(served)
        run_intake(served)
        assert data_of(easeml("status", "lab/rows", "--json"))["state"] == state


def test_asking_twice_is_news_each_time(easeml: Easeml, bucket: Bucket, folder: Path) -> None:
    easeml("submit", "lab/rows", folder)
    contents = set()
    for _ in range(3):
        assert easeml("pause", "lab/rows").exit_code == 0
        contents.add(bucket.read("lab/rows/control.json"))
    assert len(contents) == 3
    assert {json.loads(content)["state"] for content in contents} == {"paused"}


@pytest.mark.parametrize("command", ["pause", "resume", "cancel", "status", "leaderboard"])
def test_unknown_task_ends_with_1(easeml: Easeml, bucket: Bucket, command: str) -> None:
    result = easeml(command, "lab/nothing", "--json")
    assert result.exit_code == 1
    assert "no such task" in data_of(result)["problems"][0]["message"]
    assert bucket.listing("lab/nothing") is None


@pytest.mark.parametrize(
    "text", ["rows", "Lab/rows", "a/b/c", "lab/..", "../../etc", "lab/rows:x", "é/rows", ""]
)
def test_malformed_task_names_end_with_2(easeml: Easeml, bucket: Bucket, text: str) -> None:
    assert easeml("status", text).exit_code == 2


def test_tenant_option_must_agree(easeml: Easeml, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    assert easeml("status", "other/rows", "--tenant", "lab").exit_code == 2
    monkeypatch.setenv("EASEML_TENANT", "lab")
    result = easeml("status", "rows", "--json")
    assert result.exit_code == 1
    assert data_of(result)["problems"][0]["file"].startswith("lab/rows/")


def test_without_a_service_waiting_ends_with_3(easeml: Easeml, bucket: Bucket, folder: Path) -> None:
    result = easeml("submit", "lab/rows", folder, "--wait", "--timeout", 0, "--json")
    assert result.exit_code == 3
    assert "has not answered" in data_of(result)["error"]
    assert bucket.listing(TaskName("lab", "rows").prefix) is not None


@pytest.mark.parametrize("name", NASTY)
def test_folders_of_any_name(easeml: Easeml, bucket: Bucket, tmp_path: Path, name: str) -> None:
    folder = make_task(tmp_path / name)
    assert easeml("validate", folder).exit_code == 0
    assert easeml("submit", "lab/rows", folder).exit_code == 0
    assert bucket.read("lab/rows/task.yaml").decode() == SPEC


def test_bucket_option_wins_over_the_environment(
    easeml: Easeml, bucket: Bucket, folder: Path, tmp_path: Path
) -> None:
    easeml("submit", "lab/rows", folder, "--bucket", tmp_path / "other bucket")
    assert bucket.listing("lab/rows") is None
    assert Bucket(str(tmp_path / "other bucket")).listing("lab/rows") is not None


BROKEN = [b"", b"[]", b"{}", b"null", b"\xff", b"[" * 60_000, b'{"task": 1}', b'{"task": NaN}']


@pytest.mark.parametrize("content", BROKEN, ids=range(len(BROKEN)))
@pytest.mark.parametrize("command", ["status", "leaderboard"])
def test_a_broken_status_is_said_and_ends_with_1(
    easeml: Easeml, bucket: Bucket, folder: Path, command: str, content: bytes
) -> None:
    easeml("submit", "lab/rows", folder)
    bucket.write("lab/rows/status.json", content)
    result = easeml(command, "lab/rows", "--json")
    assert result.exit_code == 1
    (problem,) = data_of(result)["problems"]
    assert problem["file"] == "lab/rows/status.json"
    assert "is not as the service writes it" in problem["message"]


def test_a_broken_status_does_not_end_the_wait(easeml: Easeml, served: Service, folder: Path) -> None:
    served.bucket.write("lab/rows/status.json", b"")
    with intake(served):
        result = easeml("submit", "lab/rows", folder, "--wait", "--timeout", 30, "--json")
    assert data_of(result)["state"] == "open"


@pytest.mark.parametrize("request_name", ["old.bak", "x.swp", "a.pyc", "thumbs.db", "desktop.ini"])
def test_a_request_that_the_bucket_would_skip_is_refused(
    easeml: Easeml, served: Service, folder: Path, request_name: str
) -> None:
    with intake(served):
        easeml("submit", "lab/rows", folder, "--wait", "--timeout", 30)
    result = easeml("infer", "lab/rows", folder / "data" / "rows.csv", "--request", request_name, "--no-wait")
    assert result.exit_code == 2
    assert request_name in result.stderr
    assert served.bucket.listing(f"lab/rows/infer/{request_name}") is None


def test_predictions_of_a_task_that_is_over_without_a_model_are_not_waited_for(
    easeml: Easeml, served: Service, folder: Path
) -> None:
    infer = ("infer", "lab/rows", folder / "data" / "rows.csv", "--json", "--timeout")
    with intake(served):
        easeml("submit", "lab/rows", folder, "--wait", "--timeout", 30)
        easeml("cancel", "lab/rows")
        refused = easeml(*infer, 60)
    assert refused.exit_code == 1
    (problem,) = data_of(refused)["problems"]
    assert problem["file"] == "lab/rows"
    assert "none is to come: it is cancelled" in problem["message"]
    # What was sent since then may change that, so its answer is waited for.
    (folder / "task.yaml").write_text(SPEC.replace("trials: 3", "trials: 4"))
    easeml("submit", "lab/rows", folder)
    assert "no predictions for lab/rows yet" in easeml(*infer, 0.5).output
