"""The local stack for callers: `up`, `down`, `status`, `logs`, `purge`.

>>> from easeml_core.settings import Settings
>>> from easeml_core.stack import api
>>> info = api.up(Settings(home="/tmp/easeml-home"))  # doctest: +SKIP
>>> info.airflow_url  # doctest: +SKIP
'http://127.0.0.1:41873'
>>> api.down(Settings(home="/tmp/easeml-home"))  # doctest: +SKIP
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from easeml_core.errors import OperatorError
from easeml_core.settings import Settings
from easeml_core.stack import health, memory, postgres, starting, stopping
from easeml_core.stack import logs as log_files
from easeml_core.stack.description import ProgramStatus, StackInfo, StackStatus, read_description
from easeml_core.stack.environment import Endpoints
from easeml_core.stack.files import locked, write_private
from easeml_core.stack.layout import Layout
from easeml_core.stack.plan import Plan, make_plan
from easeml_core.stack.starting import Progress
from easeml_core.stack.supervisor import State, Supervisor

SUPERVISORD = "supervisord"


def _silent(_: str) -> None:
    return None


def up(settings: Settings, progress: Progress = _silent, timeout: float = 180.0) -> StackInfo:
    """Start the stack, or what of it does not run as set, and wait until all of it works.

    Safe to repeat; a second caller waits for the first. `progress` is told each step in words; `timeout`
    is in seconds. Raises OperatorError when a port is taken or a program fails (with the end of its log);
    a stack that was down is then down again.
    """
    layout = Layout.of(settings.home)
    layout.create()
    deadline = time.monotonic() + timeout
    with locked(layout.lock):
        supervisor = Supervisor(layout)
        if supervisor.pid() is None:
            stopping.clear(layout)  # what outlived its supervisor still holds the ports that are ours
        was_up = supervisor.pid() is not None and layout.stack.exists()
        plan = make_plan(settings, layout, running=was_up)
        try:
            starting.start(plan, supervisor, progress, deadline)
        except BaseException:
            if not was_up:
                stopping.stop(layout, supervisor, _silent)
            raise
        info = _info(plan, supervisor)
        write_private(layout.stack, info.for_file())
    return info


def down(settings: Settings, progress: Progress = _silent) -> None:
    """Stop the stack in order; afterwards no process of it is left. Safe when it is down already."""
    layout = Layout.of(settings.home)
    if not layout.run.is_dir():
        return
    with locked(layout.lock):
        stopping.stop(layout, Supervisor(layout), progress)


def purge(settings: Settings) -> None:
    """Stop the stack and delete the embedded database, also where it lies outside the home."""
    down(settings)
    postgres.discard(Layout.of(settings.home))


def status(settings: Settings) -> StackStatus:
    """What runs, since when, how well, and how much memory it takes. Starts and waits for nothing."""
    layout = Layout.of(settings.home)
    supervisor = Supervisor(layout)
    said = read_description(layout)
    states: dict[str, State] = {}
    pid = supervisor.pid()
    if pid is not None and supervisor.answers():
        states = supervisor.states()
    well: set[str] = set()
    if said and states:
        endpoints = Endpoints(said["database_url"], "", "", said["airflow_url"], said["mlflow_url"])
        well = health.healthy(
            layout, endpoints, frozenset(name for name, state in states.items() if state.pid)
        )
    programs = [_status(layout, state, state.name in well) for state in states.values()]
    if pid is not None:
        programs.insert(0, _status(layout, State(SUPERVISORD, "RUNNING", pid, 0.0, ""), True, children=False))
    return StackStatus(
        home=layout.home,
        running=pid is not None,
        mlflow_url=said.get("mlflow_url", ""),
        airflow_url=said.get("airflow_url", ""),
        airflow_user=said.get("airflow_user", ""),
        programs=tuple(programs),
    )


def describe(settings: Settings) -> StackInfo:
    """URLs and sign-in of the running stack, secrets included; raises OperatorError when it is down."""
    layout = Layout.of(settings.home)
    said = read_description(layout)
    if not said:
        raise OperatorError(f"no stack runs under {layout.home}: run `easeml up`")
    from easeml_core.stack.keys import load_keys

    return StackInfo(
        **{**said, "home": layout.home}, airflow_password=load_keys(layout.secrets).airflow_password
    )


def logs(settings: Settings, program: str, *, lines: int = 50, follow: bool = False) -> Iterator[str]:
    """Lines of one program's log (`supervisord` included); with `follow` for ever.

    Raises OperatorError for a program that has no log, naming those that have one.
    """
    layout = Layout.of(settings.home)
    path = layout.log(program)
    if not path.exists():
        known = sorted(found.stem for found in layout.logs.glob("*.log"))
        raise OperatorError(
            f"no log of {program!r} under {layout.logs}; there are: {', '.join(known) or 'none'}"
        )
    return log_files.follow(path, lines) if follow else iter(log_files.tail(path, lines))


def _info(plan: Plan, supervisor: Supervisor) -> StackInfo:
    return StackInfo(
        home=plan.layout.home,
        database_url=plan.endpoints.database_url,
        mlflow_url=plan.endpoints.mlflow_url,
        airflow_url=plan.endpoints.airflow_url,
        airflow_user=plan.airflow_user,
        airflow_password=plan.keys.airflow_password,
        pids={name: state.pid for name, state in supervisor.states().items()},
    )


def _status(layout: Layout, state: State, well: bool, *, children: bool = True) -> ProgramStatus:
    return ProgramStatus(
        name=state.name,
        state=state.state,
        pid=state.pid,
        uptime_seconds=round(time.time() - state.started, 1) if state.pid and state.started else 0.0,
        pss_bytes=memory.memory(state.pid, children=children) if state.pid else 0,
        healthy=well,
        log=str(layout.log(state.name)),
    )
