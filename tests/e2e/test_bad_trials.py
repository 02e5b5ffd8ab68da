"""Trials that go wrong in every way: each fails alone and says why, while another tenant is served."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import pytest

from easeml_core.naming import TaskName
from easeml_core.stack.layout import Layout
from easeml_core.stack.programs import STANDBY
from easeml_core.stack.supervisor import Supervisor
from tests.e2e import misbehaving_standby, tasks
from tests.e2e.installation import Installation, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1800)]

WRONG = "wrong"
FINE = TaskName("patient", "tumours")
# Past its limit a hanging trial gets half a minute to react and a frozen one a whole one, then it is ended.
LIMIT_SECONDS = 5.4
OVER_SECONDS = 900.0
SWEEP_SECONDS = 300.0
IMAGES = "candidates: {{include: [{model}]}}\nbudget: {{trials: 1, device_hours: {hours}}}\n"


@pytest.fixture(scope="module")
def standby(installation: Installation) -> Iterator[None]:
    """The misbehaving standby in place of the installation's own."""
    layout = Layout.of(installation.settings.home)
    supervisor = Supervisor(layout)
    until(
        lambda: all(d["state"] == "free" for d in installation.operator("devices")), 300, "devices are free"
    )
    supervisor.stop_programs([STANDBY])
    assert supervisor.wait_stopped([STANDBY], 60)
    known = json.loads(layout.program(STANDBY).read_text())
    log = (installation.folder / "misbehaving.log").open("wb")
    process = subprocess.Popen(
        [sys.executable, "-m", misbehaving_standby.__name__],
        env=known["environment"],
        cwd=known["folder"],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
    )
    try:
        until(
            lambda: layout.standby_socket.exists() or process.poll(), 300, "the misbehaving standby listens"
        )
        assert process.poll() is None, (installation.folder / "misbehaving.log").read_text()
        yield
    finally:
        log.close()
        process.terminate()
        process.wait(60)
        supervisor.start_programs([STANDBY])
        installation.wait_healthy()


@pytest.fixture(scope="module")
def over(installation: Installation, standby: None) -> dict[str, dict[str, Any]]:
    """Statuses of all tasks when they are over and tidied up: one per misbehaviour, and one that does no
    wrong."""
    out = installation.folder / "wrong"
    hours = LIMIT_SECONDS / 3600
    folders = [
        tasks.digits(out, f"{WRONG}/hangs", settings=IMAGES.format(model="SmallCNN", hours=hours)),
        tasks.digits(out, f"{WRONG}/freezes", settings=IMAGES.format(model="SmallCNN", hours=hours)),
        tasks.tumours(out, f"{WRONG}/raises", settings=""),
        tasks.tumours(out, str(FINE), settings="candidates: {exclude: [MLP]}\nbudget: {trials: 4}\n"),
        tasks.diabetes(
            out, f"{WRONG}/exits", settings="candidates: {include: [RidgeRegression]}\nbudget: {trials: 1}\n"
        ),
        tasks.digits(out, f"{WRONG}/diverges", settings=IMAGES.format(model="SmallCNN", hours=1)),
        tasks.digits(out, f"{WRONG}/hungers", settings=IMAGES.format(model="VGG-16", hours=1)),
    ]
    for folder in folders:
        installation.submit(folder.name, folder.path)
    statuses = {str(folder.name): installation.wait_over(folder.name, OVER_SECONDS) for folder in folders}
    installation.sweep(SWEEP_SECONDS)
    return statuses


@pytest.mark.parametrize(
    ("task", "state", "reason"),
    [
        ("raises", "failed", "ArithmeticError: this candidate cannot count"),
        ("exits", "failed", "the trainer ended without a result (exit status 0)"),
        ("hangs", "failed", "computed longer than its limit of 5.4 s"),
        ("freezes", "failed", "limit"),
        ("diverges", "diverged", "every setting diverged"),
        ("hungers", "failed", "out of memory (peak "),
    ],
)
def test_a_trial_fails_with_its_reason_and_alone(
    installation: Installation, over: dict[str, dict[str, Any]], task: str, state: str, reason: str
) -> None:
    status = over[f"{WRONG}/{task}"]
    assert status["state"] == "failed"
    for trial in status["trials"]:
        assert (trial["state"], trial["attempt"]) == (state, 1), trial
        assert reason in trial["reason"]
        assert trial["cost_seconds"] > 0
    assert reason in status["state_reason"]
    assert status["champion"] is None
    text = installation.bucket.read(f"{WRONG}/{task}/status.md").decode()
    assert "Failed trials" in text
    assert reason in text
    runs = installation.mlflow.runs(f"{WRONG}/{task}")
    assert runs or task in ("exits", "freezes")  # perhaps before MLflow had answered
    assert {run["info"]["status"] for run in runs} <= {"FAILED", "KILLED", "FINISHED"}, "none is left open"


def test_a_tenant_whose_every_trial_fails_does_not_slow_another(
    installation: Installation, over: dict[str, dict[str, Any]]
) -> None:
    fine = over[str(FINE)]
    assert [trial["state"] for trial in fine["trials"]] == ["succeeded"] * 4
    assert fine["state"] == "done"
    failing = over[f"{WRONG}/raises"]
    assert len(failing["trials"]) == installation.settings.max_failures
    assert "the last 5 trials ended as “failed”" in failing["state_reason"]

    # Who was given a device, in order, from the moment both wanted one until one of them was over.
    wanted = {str(FINE), f"{WRONG}/raises"}
    decisions = [d for d in reversed(installation.operator("decisions", "-n", 1000)) if d["task"] in wanted]
    first = max(next(i for i, d in enumerate(decisions) if d["task"] == name) for name in wanted)
    last = min(max(i for i, d in enumerate(decisions) if d["task"] == name) for name in wanted)
    order = [d["task"] for d in decisions[first - 1 : last + 1]]
    longest = max(len(list(turns)) for name, turns in groupby(order) if name != str(FINE))
    assert longest <= 3, order


def test_the_machinery_counts_none_of_it_as_its_own_fault(
    installation: Installation, over: dict[str, dict[str, Any]]
) -> None:
    dags = installation.airflow.ask("dags?dag_id_pattern=easeml_")["dags"]
    assert not [dag["dag_id"] for dag in dags if dag["is_paused"]]
    found = installation.airflow.ask("dags/~/dagRuns/~/taskInstances?state=failed&limit=100")
    assert found["task_instances"] == []
