"""What the scheduler imports ahead of the tasks it forks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from easeml_airflow import listeners

REPO = Path(__file__).resolve().parents[2]


def test_everything_named_can_be_imported_and_is_light(tmp_path: Path) -> None:
    code = (
        f"import sys, json; sys.path[:0] = [{str(REPO)!r}, {str(REPO / 'plugins')!r}]\n"
        "from easeml_airflow import listeners\n"
        "print(json.dumps([listeners.warm(), sorted({n.partition('.')[0] for n in sys.modules})]))"
    )
    out = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "AIRFLOW_HOME": str(tmp_path), "EASEML_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    missing, roots = json.loads(out.splitlines()[-1])
    assert missing == []
    assert not {"torch", "torchvision", "mlflow", "sklearn", "pandas", "pyarrow", "PIL"} & set(roots)


def test_only_the_scheduler_itself_warms_up(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(listeners, "warm", lambda: calls.append("warm"))

    class Job:  # what Airflow hands over: the component's job, or a marker in a task
        pass

    class TaskRunnerMarker:
        pass

    for program in ("triggerer", "scheduler"):
        monkeypatch.setattr("sys.argv", ["airflow", program])
        listeners.on_starting(TaskRunnerMarker())
        assert calls == []
        if program == "triggerer":
            listeners.on_starting(Job())
            assert calls == []
    listeners.on_starting(Job())
    assert calls == ["warm"]
