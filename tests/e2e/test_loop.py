"""From four tenants' uploads to champions that predict, seen from every side; then what tenants do later."""

from __future__ import annotations

import csv
import io
import json
import math
import shutil
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image
from sqlalchemy import func, select

from easeml_core.ledger.models import Attempt, DecisionRecord, Promotion, Trial, Upload
from easeml_core.naming import TaskName
from tests.e2e import tasks
from tests.e2e.installation import Installation, is_settled, until
from tests.e2e.tasks import Folder

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

# What is promised on a quiet machine is 5 s; a machine that runs other things too may need longer.
ACCEPTED_SECONDS = 60.0
OVER_SECONDS = 900.0

DIGITS, TUMOURS = TaskName("vision", "digits"), TaskName("clinic", "tumours")
DIABETES, SCANS = TaskName("clinic", "diabetes"), TaskName("sensors", "scans")
SLOPPY = TaskName("sloppy", "letters")
TRIALS = {DIGITS: 2, TUMOURS: 3, DIABETES: 2, SCANS: 1}

BAD_SPEC = """\
program: "{input: {[Tensor[8, 8, 1]], []}, output: {[Tensor[3]], []}}"
objective: acuracy
priority: -1
budget: {trials: 0}
colour: blue
"""

PLAIN = """
import json, sys
import mlflow, numpy as np
mlflow.set_tracking_uri(sys.argv[1]); mlflow.set_registry_uri(sys.argv[1])
answers = {}
for model, path in json.loads(sys.argv[2]).items():
    loaded = mlflow.pyfunc.load_model(f"models:/{model}@champion")
    inputs = np.load(path)
    answers[model] = np.asarray(loaded.predict(inputs)).tolist()
assert not [name for name in sys.modules if name.split(".")[0] in ("easeml_core", "training")]
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def folders(installation: Installation) -> dict[TaskName, Folder]:
    out = installation.folder / "tenants"
    made = (
        tasks.digits(
            out,
            str(DIGITS),
            settings="candidates: {include: [SmallCNN, SqueezeNet]}\nbudget: {trials: 2}\n",
        ),
        tasks.tumours(
            out,
            str(TUMOURS),
            settings="objective: balanced_accuracy\n"
            "candidates: {exclude: [MLP, RandomForest]}\n"
            "budget: {trials: 3, device_hours: 1}\n",
        ),
        tasks.diabetes(
            out,
            str(DIABETES),
            settings="candidates: {include: [RidgeRegression, KNN]}\nbudget: {trials: 5}\n",
        ),
        tasks.scans(out, str(SCANS), settings="candidates: {include: [GRU, LSTM]}\nbudget: {trials: 1}\n"),
    )
    return {folder.name: folder for folder in made}


@pytest.fixture(scope="module")
def accepted(installation: Installation, folders: dict[TaskName, Folder]) -> dict[TaskName, float]:
    """Everything submitted, one upload after the other; seconds from an upload's end to the answer."""
    seconds: dict[TaskName, float] = {}
    for number, folder in enumerate(folders.values()):
        if number == 1:
            installation.bucket.write(SLOPPY.key("data", "letters.npz"), b"not an archive")
            installation.bucket.write(SLOPPY.key("task.yaml"), BAD_SPEC.encode())
        sent = installation.submit(folder.name, folder.path)
        uploaded = time.monotonic()
        assert "task.yaml" in sent["sent"]
        installation.wait_status(
            folder.name, lambda status: status["accepted"], ACCEPTED_SECONDS, "to be accepted"
        )
        seconds[folder.name] = time.monotonic() - uploaded
    return seconds


@pytest.fixture(scope="module")
def done(installation: Installation, accepted: dict[TaskName, float]) -> dict[TaskName, dict[str, Any]]:
    """The status of each task when all are over."""
    return {name: installation.wait_over(name, OVER_SECONDS) for name in accepted}


def test_an_upload_is_accepted_soon(accepted: dict[TaskName, float]) -> None:
    assert accepted.keys() == TRIALS.keys()
    for name, seconds in accepted.items():
        # `easeml submit` leaves a _READY marker: there is nothing to wait for until it has settled.
        print(f"{name}: accepted {seconds:.1f} s after the upload")
        assert seconds < ACCEPTED_SECONDS


def test_a_bad_task_is_refused_with_all_its_problems_and_stops_nobody(
    installation: Installation, accepted: dict[TaskName, float]
) -> None:
    status = installation.wait_status(
        SLOPPY, lambda status: status["state"] == "rejected", ACCEPTED_SECONDS, "to be refused"
    )
    assert not status["accepted"]
    fields = {problem["field"] for problem in status["problems"]}
    assert {"objective", "priority", "budget.trials", "colour"} <= fields
    assert all(problem["message"] and problem["line"] for problem in status["problems"])
    text = installation.bucket.read(SLOPPY.key("status.md")).decode()
    assert all(field.rpartition(".")[2] in text for field in fields)
    # It is the next upload that went on, although this one was refused meanwhile.
    assert all(installation.status(name)["accepted"] for name in accepted)
    refused = installation.tenant("validate", _copy_of_bucket(installation, SLOPPY), code=1)
    assert {problem["field"] for problem in refused["problems"]} >= fields


def _copy_of_bucket(installation: Installation, name: TaskName) -> Path:
    copy = installation.folder / "copies" / name.tenant
    shutil.copytree(Path(installation.settings.bucket_url) / name.prefix, copy / name.task)
    return copy / name.task


def test_every_task_gets_a_champion_within_its_budget(
    installation: Installation, done: dict[TaskName, dict[str, Any]]
) -> None:
    for name, status in done.items():
        trials = status["trials"]
        told = (name, status["state_reason"], trials)
        assert [trial["state"] for trial in trials] == ["succeeded"] * TRIALS[name], told
        assert len({trial["candidate"] for trial in trials}) == len(trials)
        assert status["state"] == "done"
        assert status["budget"]["used_trials"] == TRIALS[name]
        best = max(trials, key=lambda trial: (trial["quality"], -trial["trial_id"]))
        assert status["champion"]["quality"] == best["quality"]
        costs = sum(trial["cost_seconds"] for trial in trials)
        assert status["budget"]["charged_seconds"] == pytest.approx(costs, abs=0.01)
    assert done[DIABETES]["budget"]["trials"] == 5
    assert "every candidate (2) has been tried" in done[DIABETES]["state_reason"]
    assert "budget of 3 trials is used" in done[TUMOURS]["state_reason"]


def test_every_attempt_is_a_finished_run_in_mlflow(
    installation: Installation, done: dict[TaskName, dict[str, Any]]
) -> None:
    decisions = {row["trial_id"]: row for row in installation.operator("decisions", "-n", 100)}
    for name, status in done.items():
        runs = installation.mlflow.runs(name.experiment)
        for run in runs:
            assert all(math.isfinite(value) for value in run["data"]["metrics"].values())
        parents = {run["info"]["run_id"]: run for run in runs if not _parent(run)}
        assert {run["info"]["status"] for run in parents.values()} == {"FINISHED"}
        # A setting that fell far behind the best one was given up.
        assert {run["info"]["status"] for run in runs} <= {"FINISHED", "KILLED"}
        assert parents.keys() == {trial["mlflow_run_id"] for trial in status["trials"]}
        for trial in status["trials"]:
            data = parents[trial["mlflow_run_id"]]["data"]
            decision = decisions[trial["trial_id"]]
            wanted = {
                "tenant": name.tenant,
                "task": name.task,
                "template": status["template"],
                "candidate": trial["candidate"],
                "data_version": status["data"]["digest"],
                "decision": str(decision["decision"]),
                "device": trial["device"],
                "trial": str(trial["trial_id"]),
                "attempt": "1",
                "outcome": "succeeded",
            }
            assert {key: data["tags"][f"easeml.{key}"] for key in wanted} == wanted
            assert data["tags"]["mlflow.note.content"] == decision["reason"]
            assert data["metrics"]["quality"] == pytest.approx(trial["quality"])
            assert data["metrics"]["cost_seconds"] == pytest.approx(trial["cost_seconds"])
            children = [run for run in runs if _parent(run) == trial["mlflow_run_id"]]
            assert len(children) == int(data["params"]["settings"]) > 1
            # The trial's score is the best of its settings' scores.
            assert max(run["data"]["metrics"]["quality"] for run in children) <= trial["quality"] + 1e-9


def _parent(run: dict[str, Any]) -> str | None:
    found: str | None = run["data"]["tags"].get("mlflow.parentRunId")
    return found


@pytest.fixture(scope="module")
def raw_inputs(installation: Installation, folders: dict[TaskName, Folder]) -> dict[TaskName, Path]:
    """The held-back inputs as the arrays that the models take, in the order of their labels."""
    out = installation.folder / "arrays"
    out.mkdir()
    images = [np.asarray(Image.open(folders[DIGITS].inputs / name)) for name in folders[DIGITS].labels]
    cases = np.loadtxt(folders[TUMOURS].inputs / "cases.csv", delimiter=",", skiprows=1, usecols=range(1, 31))
    patients = np.load(folders[DIABETES].inputs / "patients.npz")["x"]
    series = [
        np.array([column.split(",") for column in line.split(":")], dtype=np.float32).T
        for line in (folders[SCANS].inputs / "scans.ts").read_text().splitlines()
        if not line.startswith("@")
    ]
    arrays = {
        DIGITS: np.stack(images)[..., None],
        TUMOURS: cases,
        DIABETES: patients,
        SCANS: np.stack(series),
    }
    for name, array in arrays.items():
        np.save(out / f"{name.model}.npy", array.astype(np.float32))
    return {name: out / f"{name.model}.npy" for name in arrays}


@pytest.fixture(scope="module")
def plain_answers(
    installation: Installation, done: dict[TaskName, Any], raw_inputs: dict[TaskName, Path]
) -> dict[TaskName, np.ndarray]:
    """Each champion's answers in a process that knows MLflow and nothing of ours."""
    wanted = json.dumps({name.model: str(path) for name, path in raw_inputs.items()})
    ran = subprocess.run(
        [sys.executable, "-P", "-c", PLAIN, installation.info.mlflow_url, wanted],
        cwd=installation.folder,
        env={"PATH": "/usr/bin:/bin", "HOME": str(installation.folder), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stderr
    answers = json.loads(ran.stdout.splitlines()[-1])
    return {name: np.array(answers[name.model]) for name in raw_inputs}


def test_champions_load_and_answer_in_a_clean_process(
    plain_answers: dict[TaskName, np.ndarray],
    folders: dict[TaskName, Folder],
    done: dict[TaskName, dict[str, Any]],
) -> None:
    for name, answers in plain_answers.items():
        facts = done[name]["data"]["facts"]
        truth = list(folders[name].labels.values())
        assert answers.shape == (len(truth), facts["outputs"])
        if facts["task_kind"] == "regression":
            values = np.array(truth, dtype=float)
            assert np.corrcoef(values, answers[:, 0])[0, 1] > 0.4
            continue
        assert np.allclose(answers.sum(axis=1), 1, atol=1e-3)
        classes = [facts["classes"][number] for number in answers.argmax(axis=1)]
        right = np.mean([found == label for found, label in zip(classes, truth, strict=True)])
        frequent = max(Counter(truth).values()) / len(truth)
        print(
            f"{name}: {right:.3f} of {len(truth)} held-back examples, {frequent:.3f} by always guessing one"
        )
        assert right > (1 + frequent) / 2, name


def test_mlflow_serves_a_champion(
    installation: Installation, plain_answers: dict[TaskName, np.ndarray], raw_inputs: dict[TaskName, Path]
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = ["models", "serve", "-m", DIGITS_CHAMPION, "--env-manager", "local", "-h", "127.0.0.1"]
    log = (installation.folder / "serve.log").open("wb")
    server = subprocess.Popen(
        [str(Path(sys.executable).with_name("mlflow")), *command, "-p", str(port), "-w", "1"],
        cwd=installation.folder,
        env={
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "HOME": str(installation.folder),
            "MLFLOW_TRACKING_URI": installation.info.mlflow_url,
        },
        stdout=log,
        stderr=log,
    )
    try:
        url = f"http://127.0.0.1:{port}"
        until(lambda: httpx.get(f"{url}/ping", timeout=10).status_code == 200, 240, "mlflow models serve")
        inputs = np.load(raw_inputs[DIGITS])[:3]
        answer = httpx.post(f"{url}/invocations", json={"inputs": inputs.tolist()}, timeout=60)
        predictions = np.array(answer.raise_for_status().json()["predictions"])
        assert np.allclose(predictions, plain_answers[DIGITS][:3], atol=1e-4)
    finally:
        log.close()
        server.terminate()
        server.wait(30)


DIGITS_CHAMPION = DIGITS.champion_uri


def test_the_bucket_and_the_command_line_predict_the_same_as_the_model(
    installation: Installation,
    done: dict[TaskName, dict[str, Any]],
    folders: dict[TaskName, Folder],
    plain_answers: dict[TaskName, np.ndarray],
) -> None:
    for name, folder in folders.items():
        for path in sorted(folder.inputs.iterdir()):
            installation.bucket.write(name.key("infer", "by-bucket", path.name), path.read_bytes())
    for name, folder in folders.items():
        facts = done[name]["data"]["facts"]
        by_command = installation.tenant("infer", name, *sorted(folder.inputs.iterdir()), "--timeout", 300)
        key = name.predictions_key("by-bucket")
        content = until(lambda key=key: installation.bucket.read_if_there(key), 300, f"{key} is there")
        by_bucket = list(csv.DictReader(io.StringIO(content.decode())))
        assert by_bucket == by_command["predictions"]
        assert [row["id"] for row in by_bucket] == list(folder.labels)
        version = installation.mlflow.champion(name.model)["version"]
        assert {row["model_version"] for row in by_bucket} == {version}
        if facts["task_kind"] == "regression":
            found = np.array([[float(row["value"])] for row in by_bucket])
        else:
            names = [f"probability_{label}" for label in facts["classes"]]
            found = np.array([[float(row[column]) for column in names] for row in by_bucket])
            classes = [facts["classes"][number] for number in plain_answers[name].argmax(axis=1)]
            assert [row["class"] for row in by_bucket] == classes
        assert np.allclose(found, plain_answers[name], rtol=1e-4, atol=1e-4)
        asked = {i["request"]: i["state"] for i in installation.status(name)["inferences"]}
        assert asked == {"by-bucket": "done", by_command["request"]: "done"}


def test_the_commands_agree_with_ledger_and_mlflow(
    installation: Installation, done: dict[TaskName, dict[str, Any]]
) -> None:
    devices = installation.operator("devices")
    assert [device["device"] for device in devices] == ["cpu0", "cpu1"]
    with installation.service.ledger.transaction() as session:
        reasons = dict(session.execute(select(DecisionRecord.trial_id, DecisionRecord.reason)).all())
    for name in done:
        status = installation.tenant("status", name)
        board = installation.tenant("leaderboard", name)
        assert board == status["leaderboard"]
        assert [trial["quality"] for trial in board] == sorted((t["quality"] for t in board), reverse=True)
        champion, version = status["champion"], installation.mlflow.champion(name.model)
        assert (version["version"], version["run_id"]) == (
            champion["model_version"],
            champion["mlflow_run_id"],
        )
        assert champion["trial_id"] == board[0]["trial_id"]
        decisions = installation.operator("decisions", "--task", name, "-n", 100)
        assert {row["trial_id"]: row["reason"] for row in decisions} == {
            trial["trial_id"]: reasons[trial["trial_id"]] for trial in status["trials"]
        }
        told = installation.operator("explain", champion["trial"])
        [row] = [row for row in decisions if row["decision"] == told["decision"]]
        for other in told["runners_up"]:
            del other["quality"]  # what it came to since
        assert {key: told[key] for key in row} == row
        assert [attempt["state"] for attempt in told["attempts"]] == ["succeeded"]
        runs = installation.mlflow.runs(name.experiment)
        qualities = {r["info"]["run_id"]: r["data"]["metrics"]["quality"] for r in runs if not _parent(r)}
        assert qualities == pytest.approx({t["mlflow_run_id"]: t["quality"] for t in board})


def _rows(installation: Installation) -> tuple[int, ...]:
    """How many trials, attempts, decisions and promotions there are."""
    with installation.service.ledger.transaction() as session:
        tables = (Trial, Attempt, DecisionRecord, Promotion)
        return tuple(session.scalar(select(func.count()).select_from(table)) or 0 for table in tables)


def test_the_same_bytes_again_are_nothing_new(
    installation: Installation, done: dict[TaskName, dict[str, Any]], folders: dict[TaskName, Folder]
) -> None:
    before = _rows(installation)
    for name in done:
        again = installation.submit(name, folders[name].path)
        assert again["sent"] == []
    # The same bytes written again are a new upload to the bucket, which intake has to look at.
    key = TUMOURS.key("data", "cases.csv")
    installation.bucket.write(key, installation.bucket.read(key))
    listing = installation.bucket.listing(TUMOURS.prefix)
    assert listing is not None

    def seen() -> bool:
        with installation.service.ledger.transaction() as session:
            upload = session.get(Upload, TUMOURS.prefix)
            return upload is not None and upload.done_fingerprint == listing.fingerprint

    until(seen, ACCEPTED_SECONDS, "intake has dealt with the same bytes")
    status = installation.status(TUMOURS)
    assert (status["state"], status["data"]["digest"]) == ("done", done[TUMOURS]["data"]["digest"])
    assert not status["problems"]
    assert _rows(installation) == before


def test_a_feed_makes_a_data_version_and_opens_the_task_again(
    installation: Installation, done: dict[TaskName, dict[str, Any]], folders: dict[TaskName, Folder]
) -> None:
    before = done[TUMOURS]
    more = installation.folder / "more.csv"
    rows = (folders[TUMOURS].inputs / "cases.csv").read_text().splitlines()
    labels = folders[TUMOURS].labels
    more.write_text(
        "\n".join([f"{rows[0]},label", *(f"{row},{labels[row.partition(',')[0]]}" for row in rows[1:])])
    )
    fed = installation.tenant("feed", TUMOURS, more, "--wait", "--timeout", 300)
    assert fed["problems"] == []
    digest = before["data"]["digest"]
    status = installation.wait_status(
        TUMOURS,
        lambda status: status["data"]["digest"] != digest and is_settled(status),
        OVER_SECONDS,
        "to be trained on the new data",
    )
    data = status["data"]
    assert data["n_train"] + data["n_val"] == before["data"]["n_train"] + before["data"]["n_val"] + len(
        labels
    )
    assert data["facts"]["parent"] == digest
    by_version = Counter(trial["data_version"] for trial in status["trials"])
    assert by_version == {digest: 3, data["digest"]: 3}
    assert status["budget"]["used_trials"] == 3
    # The old champion was scored on the new validation split, and stays unless a new model is better there.
    champion, best = status["champion"], status["leaderboard"][0]
    assert champion["current_quality"] >= best["quality"]
    if champion["on_current_data"]:
        assert champion["trial_id"] == best["trial_id"]
        assert "of the earlier data version with" in champion["reason"]
    else:
        assert champion["trial_id"] == before["champion"]["trial_id"]
    version = installation.mlflow.ask(
        "model-versions/get", name=TUMOURS.model, version=before["champion"]["model_version"]
    )["model_version"]
    tags = {tag["key"]: float(tag["value"]) for tag in version["tags"] if "quality" in tag["key"]}
    assert 0.5 < tags[f"easeml.quality.{data['digest'][:8]}"] <= 1
    assert installation.mlflow.champion(TUMOURS.model)["run_id"] == champion["mlflow_run_id"]


def test_a_tenant_pauses_resumes_and_cancels_through_the_bucket(
    installation: Installation, done: dict[TaskName, dict[str, Any]]
) -> None:
    """That a paused task gets no trial shows in that another one is trained meanwhile, from first to last."""
    out = installation.folder / "tenants"
    # 64 × 64 pixels: one setting's epochs take seconds, so there is time to cancel in the middle.
    candidates = "candidates: {include: [NIN, SqueezeNet, SmallCNN, AlexNet, ResNet-18]}\n"
    long = tasks.digits(out, "sensors/long", settings=candidates, side=64, per_class=40)
    short = tasks.diabetes(
        out, "clinic/short", settings="candidates: {include: [RidgeRegression, KNN]}\nbudget: {trials: 2}\n"
    )
    installation.submit(long.name, long.path)
    installation.wait_status(long.name, lambda s: s["running"], OVER_SECONDS, "to run")
    installation.tenant("pause", long.name)
    installation.wait_status(long.name, lambda s: s["state"] == "paused", ACCEPTED_SECONDS, "to pause")
    decided = len(installation.operator("decisions", "--task", long.name))
    assert decided < 5, "there is something left to resume with"

    installation.submit(short.name, short.path)
    installation.wait_over(short.name, OVER_SECONDS)
    assert len(installation.operator("decisions", "--task", long.name)) == decided

    installation.tenant("resume", long.name)
    installation.wait_status(
        long.name,
        lambda s: s["state"] == "open" and any(t["state"] == "running" for t in s["running"]),
        OVER_SECONDS,
        "to go on",
    )
    installation.tenant("cancel", long.name)
    status = installation.wait_status(
        long.name,
        lambda s: s["state"] == "cancelled" and not s["running"],
        ACCEPTED_SECONDS,
        "to be cancelled",
    )
    assert "cancelled" in {trial["state"] for trial in status["trials"]}
    until(
        lambda: all(device["state"] == "free" for device in installation.operator("devices")),
        60,
        "the devices are free",
    )
