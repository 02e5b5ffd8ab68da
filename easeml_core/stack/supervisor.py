"""Talks to this home's supervisord: starts it, asks it, tells it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import xmlrpc.client
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import psutil
from supervisor.xmlrpc import SupervisorTransport

from easeml_core.errors import OperatorError
from easeml_core.stack import environment, leftovers
from easeml_core.stack.layout import STACK_VARIABLE, Layout


@dataclass(frozen=True, slots=True)
class State:
    """What supervisord knows of one program. `state` is supervisord's word (RUNNING, BACKOFF, …);
    `started` is in seconds since the epoch; `pid` is 0 when it does not run."""

    name: str
    state: str
    pid: int
    started: float
    problem: str


class Supervisor:
    """The supervisord of one home."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def pid(self) -> int | None:
        """Its process id, or None when it does not run."""
        try:
            process = psutil.Process(int(self._layout.pid.read_text()))
            # The id may have been given to another process since.
            alive = str(self._layout.conf) in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE
        except (FileNotFoundError, ValueError, psutil.NoSuchProcess):
            return None
        return process.pid if alive else None

    def start(self, variables: dict[str, str], timeout: float = 30.0) -> None:
        """Start it as a daemon and wait until it answers; raises OperatorError when it does not."""
        layout = self._layout
        layout.supervisor_socket.unlink(missing_ok=True)
        layout.pid.unlink(missing_ok=True)
        done = subprocess.run(
            (sys.executable, "-m", "easeml_core.stack.supervisord", "-c", str(layout.conf)),
            cwd=layout.run,
            env={**environment.inherited(), **variables, STACK_VARIABLE: str(layout.home)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        deadline = time.monotonic() + timeout
        while done.returncode == 0 and time.monotonic() < deadline:
            if (pid := self.pid()) is not None and self.answers():
                leftovers.record_session(layout, os.getsid(pid))
                return
            time.sleep(0.02)
        raise OperatorError(f"supervisord did not start:\n{done.stdout}{done.stderr}")

    def answers(self) -> bool:
        """Whether it takes commands."""
        try:
            self._rpc("getState")
        except OSError:
            return False
        return True

    def states(self) -> dict[str, State]:
        """Every program by name."""
        return {
            info["name"]: State(
                info["name"], info["statename"], info["pid"], float(info["start"]), info["spawnerr"]
            )
            for info in self._rpc("getAllProcessInfo")
        }

    def start_programs(self, names: Iterable[str]) -> None:
        """Start those that don't run; returns before they are healthy."""
        states = self.states()
        for name in names:
            if states[name].state not in ("RUNNING", "STARTING", "BACKOFF"):
                self._rpc("startProcess", name, False)

    def stop_programs(self, names: Iterable[str]) -> None:
        """Tell those that run to stop; returns before they have (`wait_stopped`)."""
        states = self.states()
        for name in names:
            if states[name].state in ("RUNNING", "STARTING", "BACKOFF"):
                self._rpc("stopProcess", name, False)

    def wait_stopped(self, names: Iterable[str], timeout: float) -> bool:
        """Whether all of them stopped within `timeout` seconds (it KILLs those past their patience)."""
        names = tuple(names)
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            states = self.states()
            if all(states[name].pid == 0 for name in names):
                return True
            time.sleep(0.05)
        return False

    def shut_down(self, timeout: float = 10.0) -> None:
        """End supervisord itself, and with it whatever it still runs."""
        pid = self.pid()
        if pid is None:
            return
        process = psutil.Process(pid)
        try:
            self._rpc("shutdown")
            process.wait(timeout)
        except (OSError, psutil.TimeoutExpired):
            leftovers.end([process])
        except psutil.NoSuchProcess:
            return

    def _rpc(self, method: str, *arguments: Any) -> Any:
        # One connection per call: they are cheap, and a kept one is not safe between threads.
        transport = SupervisorTransport(None, None, f"unix://{self._layout.supervisor_socket}")
        with xmlrpc.client.ServerProxy("http://localhost", transport=transport) as proxy:
            return getattr(proxy.supervisor, method)(*arguments)
