from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from easeml_airflow.executor import WORKER_LOG, _output_to_a_file


@pytest.fixture
def worker_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EASEML_HOME", str(tmp_path))
    return tmp_path / "logs" / WORKER_LOG


def test_a_worker_can_write_after_its_schedulers_pipe_is_gone(worker_log: Path) -> None:
    """The worker's first line waits until the reader of the scheduler's pipe has gone, as in a kill."""
    go_read, go_write = os.pipe()
    with _output_to_a_file():
        worker = subprocess.Popen(
            ["sh", "-c", "read line; echo said afterwards; echo to both >&2"], stdin=go_read
        )
    os.write(go_write, b"the pipe is gone\n")
    assert worker.wait(10) == 0
    assert worker_log.read_text() == "said afterwards\nto both\n"
    for descriptor in (go_read, go_write):
        os.close(descriptor)


def test_our_own_output_stays_where_it_was(worker_log: Path) -> None:
    before = [os.fstat(number) for number in (1, 2)]
    with pytest.raises(RuntimeError), _output_to_a_file():
        raise RuntimeError
    after = [os.fstat(number) for number in (1, 2)]
    assert [(s.st_dev, s.st_ino) for s in before] == [(s.st_dev, s.st_ino) for s in after]


def test_the_log_does_not_grow_for_ever(worker_log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("easeml_airflow.executor._LARGEST_LOG", 10)
    worker_log.parent.mkdir(parents=True)
    worker_log.write_text("much too long a log\n")
    with _output_to_a_file():
        subprocess.run(["echo", "new"], check=True)
    assert worker_log.read_text() == "new\n"
