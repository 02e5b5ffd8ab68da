"""Processes of ours, known by pid *and* start time, and the sessions they lead.

A pid alone may name another process by the time it is used; with its start time it cannot. Every trainer
leads a session of its own, so that ending the session ends whatever the trainer started.
"""

from __future__ import annotations

import os
import select
import signal
import time
from contextlib import suppress

import psutil


def start_time(pid: int) -> float | None:
    """When process `pid` started (seconds since the epoch), or None where there is none."""
    try:
        return psutil.Process(pid).create_time()
    except psutil.Error:
        return None


def is_alive(pid: int, started: float) -> bool:
    """Whether that very process still runs. A zombie does not: it only waits for its parent."""
    try:
        process = psutil.Process(pid)
        if abs(process.create_time() - started) > 0.05:
            return False
        if process.status() != psutil.STATUS_ZOMBIE:
            return True
    except psutil.Error:
        return False
    # Our own child, started without standby: nobody else will reap it.
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    return False


def wait(pid: int, started: float, timeout: float) -> bool:
    """Wait until the process has ended, at most `timeout` seconds; says whether it has.

    A pid file descriptor wakes at the very moment of the end, for children and strangers alike.
    """
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        if not is_alive(pid, started):  # after opening, so that the descriptor is surely of this process
            return True
        select.select([descriptor], [], [], max(timeout, 0.0))
    finally:
        os.close(descriptor)
    return not is_alive(pid, started)


def session_members(leader: int) -> list[int]:
    """Pids of all processes of the session that `leader` leads or led, zombies left out."""
    members = []
    for pid in psutil.pids():
        with suppress(ProcessLookupError, PermissionError, psutil.Error):
            if os.getsid(pid) == leader and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                members.append(pid)
    return members


def end_session(leader: int, started: float, grace: float) -> None:
    """End a whole session: SIGTERM, `grace` seconds, then SIGKILL until nothing of it is left.

    The leader may be gone already while others of its session live on; the kernel does not give its pid
    to anyone as long as they do. A process that merely has the same pid by now is left alone.
    """
    now = start_time(leader)
    if now is not None and abs(now - started) > 0.05:
        return
    _signal(session_members(leader), signal.SIGTERM)
    deadline = time.monotonic() + grace
    while (left := session_members(leader)) and (remaining := deadline - time.monotonic()) > 0:
        if leader in left:
            wait(leader, started, min(remaining, 0.5))
        else:
            time.sleep(0.02)
    give_up = time.monotonic() + 10.0  # a process stuck in the kernel cannot be waited for without end
    while (left := session_members(leader)) and time.monotonic() < give_up:
        _signal(left, signal.SIGKILL)
        time.sleep(0.02)
    is_alive(leader, started)  # reaps it where it was our child


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
