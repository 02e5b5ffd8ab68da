"""Benchmarks run, and measure what they say; their figures depend on the machine."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks import constants

ROOT = Path(__file__).parents[2]


def run(script: str, *options: str) -> str:
    """What a script printed; it may miss its goal here (1), but not break."""
    command = [sys.executable, str(ROOT / "benchmarks" / script), *options]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode in (0, 1), done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout


@pytest.mark.timeout(600)
def test_the_gpu_script_runs_tiny_on_the_cpu_and_resumes_exactly() -> None:
    lines = run("gpu.py", "--tiny").splitlines()
    assert any("│ SmallCNN" in line for line in lines)
    said = lines[-1].replace(";", "").split()
    assert said[:2] == ["SmallCNN", "killed"] or said[1:3] == ["too", "fast"]
    assert said[said.index("quality") + 1] == said[-1], "resumed as unbroken"


def test_the_cost_table_is_of_what_the_trials_took(tmp_path: Path) -> None:
    trials = [("MLP", 1e12, 9.3), ("GRU", 2e12, 17.7), ("RNN", 4e12, 34.3), ("NIN", 3e12, 26.0)]
    trials.append(("VGG-16", 8e12, 67.7))  # 1 s, and as fast as the default says
    rows = [
        {"task": "t", "candidate": name, "device_kind": "cpu/torch", "work": work, "seconds": seconds}
        for name, work, seconds in trials
    ]
    (tmp_path / "trials.json").write_text(json.dumps(rows))
    text = run("cost.py", "--load", str(tmp_path / "trials.json"))
    after_three = next(line for line in text.splitlines() if line.startswith("│ 3 "))
    assert 1.0 <= float(after_three.split("│")[2].strip(" x")) < 1.1


def test_a_constant_is_chosen_without_the_table_it_is_measured_on(monkeypatch: pytest.MonkeyPatch) -> None:
    now = {"value": 1}

    @contextmanager
    def set_to(value: int) -> Iterator[None]:
        now["value"] = value
        yield
        now["value"] = 1

    monkeypatch.setattr(constants, "GRID", {"c": (set_to, (1, 2))})
    # 2 is much better on the first table alone, and a little worse on the others.
    areas = {"first": {1: 1.0, 2: 0.1}, "second": {1: 1.0, 2: 1.2}, "third": {1: 1.0, 2: 1.2}}
    found = constants.left_out(lambda table: areas[table][now["value"]], list(areas))
    assert found["c"]["first"] == {"chosen": "1", "area ÷ ours": 1.0}
    assert found["c"]["second"] == {"chosen": "2", "area ÷ ours": 1.2}
