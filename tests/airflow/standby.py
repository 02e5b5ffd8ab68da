"""A standby whose trainers do as they are told: real processes with real signals, without torch."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil

SCRIPT = Path(__file__).with_name("scripted_trainer.py")


class ScriptedStandby:
    """Speaks the standby's protocol; `behaviour` names what the trainers it starts do, `started` their pids.

    `promotion` names what promotions do; their orders are kept in `promotions`.

    Like the real one it starts each trainer in a session of its own, writes `trainer.json`, and notes in
    `exit.json` how it ended.
    """

    def __init__(self, run_dir: Path) -> None:
        self.behaviour = "succeed"
        self.promotion = "promote"
        self.started: list[int] = []
        self.promotions: list[dict[str, object]] = []
        self._leaders: list[int] = []
        run_dir.mkdir(parents=True, exist_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # Bound by a relative path: a socket's path may have 107 characters, and pytest's folders are long.
        here = os.open(".", os.O_RDONLY)
        os.chdir(run_dir)
        try:
            self._listener.bind("standby.sock")
        finally:
            os.fchdir(here)
            os.close(here)
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> ScriptedStandby:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for pid in self._leaders:
            for member in members(pid):
                with suppress(ProcessLookupError):
                    os.kill(member, signal.SIGKILL)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rw") as stream:
                request = json.loads(stream.readline())
                process = self._start(request["kind"], Path(request["order"]))
                stream.write(json.dumps({"ok": True, "pid": process.pid}) + "\n")

    def _start(self, kind: str, order: Path) -> subprocess.Popen[bytes]:
        behaviour = self.behaviour if kind == "train" else self.promotion
        with (order.parent / "log.txt").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-S", str(SCRIPT), behaviour, str(order)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={"PYTHONUNBUFFERED": "1"},
            )
        self._leaders.append(process.pid)
        if kind == "train":
            self.started.append(process.pid)
        else:
            self.promotions.append(json.loads(order.read_text()))
        known = {"pid": process.pid, "started": psutil.Process(process.pid).create_time()}
        _write(order.parent / "trainer.json", known)
        threading.Thread(target=_reap, args=(process, order.parent), daemon=True).start()
        return process


def _reap(process: subprocess.Popen[bytes], folder: Path) -> None:
    code = process.wait()
    with suppress(FileNotFoundError):  # the test may be over
        _write(
            folder / "exit.json",
            {"code": code if code >= 0 else None, "signal": -code if code < 0 else None},
        )


def _write(path: Path, value: object) -> None:
    aside = path.with_suffix(".aside")
    aside.write_text(json.dumps(value))
    aside.rename(path)


def members(leader: int) -> list[int]:
    """Living processes of the session that `leader` leads or led."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, ProcessLookupError, PermissionError):
            if os.getsid(process.pid) == leader and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


def until(condition, seconds: float = 20.0):
    """What `condition` returns as soon as it is true; fails after `seconds`."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"did not come true within {seconds:g} s"
        time.sleep(0.01)
    return value


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie that nobody reaps does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
