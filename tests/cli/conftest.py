"""Fixtures of the command-line tests: a runner without the caller's settings, a bucket, a small task."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from easeml_core.bucket import Bucket

SPEC = 'program: "{input: {[Tensor[2]], []}, output: {[Tensor[2]], []}}"\nbudget: {trials: 3}\n'
ROWS = "a,b,label\n" + "".join(f"{i},{i % 7},{'yes' if i % 2 else 'no'}\n" for i in range(40))

# What users really call their folders.
NASTY = ["plain", "with space", "quo'te\"s", "new\nline", "$(touch x);`id`", "-rf", "übergrößen 日本"]


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """An empty local bucket that `EASEML_BUCKET` names; no other setting of the caller is left."""
    for name in [name for name in os.environ if name.startswith("EASEML_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("EASEML_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("EASEML_BUCKET", str(tmp_path / "bucket"))
    return Bucket(str(tmp_path / "bucket"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small, right task folder."""
    return make_task(tmp_path / "mine")


def make_task(folder: Path, spec: str = SPEC, rows: str = ROWS) -> Path:
    (folder / "data").mkdir(parents=True)
    (folder / "task.yaml").write_text(spec)
    (folder / "data" / "rows.csv").write_text(rows)
    return folder


@pytest.fixture
def easeml() -> Callable[..., Result]:
    """Runs `easeml` with the arguments given; an exception that is not an exit is raised."""
    from easeml_core.cli.main import app

    def run(*arguments: object) -> Result:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


def data_of(result: Result) -> Any:
    """The JSON that a command printed: standard output holds nothing else."""
    return json.loads(result.stdout)
