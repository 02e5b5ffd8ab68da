"""Takes a stack down in order, and makes sure that nothing of it is left."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Collection
from itertools import groupby

import psutil

from easeml_core.errors import OperatorError
from easeml_core.stack import leftovers
from easeml_core.stack.layout import Layout
from easeml_core.stack.programs import PRIORITY, SCHEDULER
from easeml_core.stack.supervisor import Supervisor

# Longer than any program's own patience, after which supervisord kills it.
_STEP_SECONDS = 40.0
# What a task gets to clean up after SIGTERM.
_TASK_SECONDS = 4.0


def stop(layout: Layout, supervisor: Supervisor, progress: Callable[[str], None]) -> None:
    """Stop everything; afterwards no process of this home is left. Safe when little or nothing runs.

    Raises OperatorError if a process survives even SIGKILL.
    """
    if supervisor.pid() is not None:
        if supervisor.answers():
            progress("stopping the programs")
            stop_programs(layout, supervisor, supervisor.states().keys())
        supervisor.shut_down()
    progress("looking for leftovers")
    clear(layout)


def stop_programs(layout: Layout, supervisor: Supervisor, names: Collection[str]) -> None:
    """Stop these programs, those that start last first; programs of one step together."""
    ordered = sorted(names, key=lambda name: -PRIORITY.get(name, 0))
    for _, step in groupby(ordered, key=lambda name: PRIORITY.get(name, 0)):
        stopping = tuple(step)
        scheduler = supervisor.states()[SCHEDULER].pid if SCHEDULER in stopping else 0
        supervisor.stop_programs(stopping)
        if scheduler:
            _end_tasks(scheduler)
        supervisor.wait_stopped(stopping, _STEP_SECONDS)


def clear(layout: Layout) -> None:
    """End every process of this home that is left, and remove what the dead leave lying about."""
    left = leftovers.find(layout)
    databases = [process for process in left if _name(process) == "postgres"]
    leftovers.end(process for process in left if process not in databases)
    # Only after its clients; SIGINT is its fast shutdown, SIGTERM would wait.
    leftovers.signal_all(databases, signal.SIGINT)
    psutil.wait_procs(databases, timeout=10)
    leftovers.end(process for process in databases if process.is_running())
    if survivors := leftovers.find(layout):
        raise OperatorError(f"these processes can't be ended: {', '.join(map(str, survivors))}")
    for path in (layout.supervisor_socket, layout.pid, layout.standby_socket, layout.stack):
        path.unlink(missing_ok=True)


def _end_tasks(scheduler: int) -> None:
    """Interrupt the tasks that run, as Airflow would: the scheduler otherwise waits until they end.

    Its workers' children are the task processes. SIGTERM makes them call `on_kill`, which stops a trainer
    but not every task (one that waits for work goes on waiting); SIGKILL ends those a little later.
    """
    kill_at = time.monotonic() + _TASK_SECONDS
    deadline = kill_at + _TASK_SECONDS
    try:
        process = psutil.Process(scheduler)
        told: set[int] = set()
        while time.monotonic() < deadline and process.is_running():
            workers = process.children()
            tasks = [task for worker in workers for task in worker.children()]
            if not workers:
                return
            if time.monotonic() > kill_at:
                leftovers.signal_all(tasks, signal.SIGKILL)
            else:
                leftovers.signal_all((task for task in tasks if task.pid not in told), signal.SIGTERM)
                told |= {task.pid for task in tasks}
            time.sleep(0.1)
    except psutil.NoSuchProcess:
        return


def _name(process: psutil.Process) -> str:
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return ""
