"""The standby is warm while there is work, and costs next to nothing else."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from easeml_core.service import trainer
from easeml_core.settings import Settings
from easeml_core.workorder import Outcome

COOL_SECONDS = 2.0


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home")


@pytest.fixture
def standby(settings: Settings) -> Iterator[psutil.Popen]:
    """A standby that cools after a second."""
    command = [sys.executable, "-m", "training.standby", "--run-dir", str(settings.run_dir)]
    process = psutil.Popen([*command, "--cool-seconds", str(COOL_SECONDS)], stdout=subprocess.DEVNULL)
    _until(lambda: (settings.run_dir / trainer.SOCKET_FILE).exists() or process.poll() is not None)
    yield process
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    assert not (settings.run_dir / trainer.SOCKET_FILE).exists()


def _until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def _ping(settings: Settings) -> dict[str, Any]:
    with (
        socket.socket(socket.AF_UNIX) as connection,
        trainer.open_socket_folder(settings.run_dir) as folder,
    ):
        connection.settimeout(60)
        connection.connect(f"{folder}/{trainer.SOCKET_FILE}")  # never refused, also while it starts anew
        connection.sendall(b'{"op": "ping"}\n')
        answer: dict[str, Any] = json.loads(connection.makefile().readline())
        return answer


def _has_torch(process: psutil.Popen) -> bool:
    return any("libtorch" in mapping.path for mapping in process.memory_maps())


def test_it_warms_up_when_told_and_cools_when_idle(settings: Settings, standby: psutil.Popen) -> None:
    assert _ping(settings)["warm"] is False
    assert not _has_torch(standby)
    trainer.warm(settings)
    assert _ping(settings)["warm"] is True  # answered once it is
    assert (_has_torch(standby), standby.num_threads()) == (True, 1)

    _until(lambda: not _ping(settings)["warm"])
    assert _ping(settings)["pid"] == standby.pid
    assert not _has_torch(standby)


def test_a_cool_one_warms_up_for_an_order_and_stays_so_while_it_runs(
    settings: Settings, standby: psutil.Popen, make_order: Callable[..., Path]
) -> None:
    search = {"learning_rate": 0.001}
    path = make_order("MLP", "vector", search=search, max_epochs=100_000, patience=100_000)
    ref = trainer.start(path, settings)
    time.sleep(2 * COOL_SECONDS)
    answer = _ping(settings)
    assert (answer["warm"], answer["children"]) == (True, [ref.pid])
    trainer.stop(ref)
    assert trainer.collect(path.parent).outcome is Outcome.INTERRUPTED
    _until(lambda: not _ping(settings)["warm"])


def test_without_one_nothing_is_told(settings: Settings) -> None:
    trainer.warm(settings)
