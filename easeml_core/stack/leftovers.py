"""Processes of this home that no supervisor looks after any more: found, and ended.

Airflow and PostgreSQL overwrite the memory of their environment with their titles, so a process is known
by where it came from: the session of one of this home's supervisors (or `EASEML_STACK` in its environment
where that can be read), and a working directory inside this home. A killed scheduler leaves its workers
behind; those that run a task are left alone until it has ended.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil

from easeml_core.stack.files import read_json, write_private
from easeml_core.stack.layout import STACK_VARIABLE, Layout

SCHEDULER = "scheduler"


def record_session(layout: Layout, session: int) -> None:
    """Remember a supervisor's session id; forgets those with no process left."""
    living = {os.getsid(process.pid) for process in _readable()}
    known = [old for old in read_json(layout.sessions, []) if old in living and old != session]
    write_private(layout.sessions, [*known, session])


def find(layout: Layout) -> list[psutil.Process]:
    """Every process of this home's stack, supervisors included; never ourselves or our ancestors."""
    sessions = set(read_json(layout.sessions, []))
    folders = (layout.home, layout.postgres.resolve())
    spared = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    return [
        process
        for process in _readable()
        if process.pid not in spared and _is_ours(process, layout.home, sessions, folders)
    ]


def group(layout: Layout, leaders: Iterable[int]) -> list[psutil.Process]:
    """Processes of this home in the process groups of these (former) main processes."""
    wanted = set(leaders)
    found = []
    for process in find(layout):
        try:
            if os.getpgid(process.pid) in wanted:
                found.append(process)
        except ProcessLookupError:
            continue
    return found


def end(processes: Iterable[psutil.Process], patience: float = 5.0) -> None:
    """TERM, and after `patience` seconds KILL."""
    processes = list(processes)
    signal_all(processes, signal.SIGTERM)
    _, alive = psutil.wait_procs(processes, timeout=patience)
    signal_all(alive, signal.SIGKILL)
    psutil.wait_procs(alive, timeout=patience)


def signal_all(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    """Send a signal to each process that is still there."""
    for process in processes:
        try:
            process.send_signal(number)
        except psutil.NoSuchProcess:
            continue


def clear_program(layout: Layout, name: str) -> None:
    """Before a program starts again: end what its earlier runs left, and note the new main process (us)."""
    path = layout.started(name)
    earlier = [int(line) for line in path.read_text().split()] if path.exists() else []
    left = group(layout, earlier)
    if name == SCHEDULER:
        signal_all(idle_workers(left), signal.SIGKILL)
        if left := [process for process in left if process.is_running()]:
            _start_sweeper()
    else:
        # A server's child may hold its port, a database process its shared memory.
        signal_all(left, signal.SIGKILL)
        psutil.wait_procs(left, timeout=5)
    leaders = {os.getpgid(process.pid) for process in left if process.is_running()} & set(earlier)
    path.write_text("\n".join(map(str, [*leaders, os.getpid()])))


def idle_workers(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those of a killed scheduler's processes that run nothing: no parent among them and no child."""
    pids = {process.pid for process in processes}
    idle = []
    for process in processes:
        try:
            if process.ppid() not in pids and not process.children():
                idle.append(process)
        except psutil.NoSuchProcess:
            continue
    return idle


def _start_sweeper() -> None:
    # By a child that ends at once: the scheduler that we become must find no child it does not know.
    if (child := os.fork()) == 0:
        subprocess.Popen(
            (sys.executable, "-m", "easeml_core.stack.sweep"),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        os._exit(0)
    os.waitpid(child, 0)


def _readable() -> Iterator[psutil.Process]:
    for process in psutil.process_iter(["pid"]):
        try:
            if process.status() != psutil.STATUS_ZOMBIE:
                yield process
        except psutil.NoSuchProcess:
            continue


def _is_ours(process: psutil.Process, home: Path, sessions: set[int], folders: tuple[Path, ...]) -> bool:
    try:
        if process.name() == "postgres":
            # A database process starts a session of its own; its data folder is this home's alone.
            return Path(process.cwd()).is_relative_to(folders[-1])
        if os.getsid(process.pid) in sessions:
            return any(Path(process.cwd()).is_relative_to(folder) for folder in folders)
        return process.environ().get(STACK_VARIABLE) == str(home)
    except (psutil.NoSuchProcess, psutil.AccessDenied, ProcessLookupError):
        return False
