"""Brings a planned stack up, step by step: database, schemas, servers, until all are healthy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from easeml_core.errors import OperatorError
from easeml_core.stack import conf, databases, environment, health, postgres, stopping
from easeml_core.stack.files import read_json, write_private
from easeml_core.stack.keys import AIRFLOW_USER
from easeml_core.stack.logs import tail
from easeml_core.stack.plan import Plan
from easeml_core.stack.programs import API_SERVER, POSTGRES, SCHEDULER, STANDBY
from easeml_core.stack.supervisor import Supervisor

Progress = Callable[[str], None]
# A program that ended so often before it was healthy will not become so.
_MAX_RESTARTS = 3


def start(plan: Plan, supervisor: Supervisor, progress: Progress, deadline: float) -> None:
    """Start or repair; what already runs as planned is left alone. `deadline` is on the monotonic clock.

    Raises OperatorError, with the end of the log, when a program doesn't become healthy.
    """
    layout = plan.layout
    changed = {
        program.name
        for program in plan.programs
        if read_json(layout.program(program.name), {}).get("fingerprint") != program.fingerprint
    }
    running = supervisor.pid() is not None and supervisor.answers()
    preload = environment.preload_environment(plan.airflow_environment)
    if running and (plan.names != supervisor.states().keys() or read_json(layout.preload, {}) != preload):
        progress("restarting everything: other programs are wanted, or Airflow's own settings changed")
        stopping.stop(layout, supervisor, progress)
        running = False
    elif running and changed:
        progress(f"restarting {', '.join(sorted(changed))}: the settings changed")
        stopping.stop_programs(layout, supervisor, changed)
    for program in plan.programs:
        write_private(layout.program(program.name), program.as_dict(layout))
    if not running:
        progress("starting the supervisor")
        stopping.clear(layout)
        write_private(layout.airflow / "passwords.json", {AIRFLOW_USER: plan.keys.airflow_password})
        write_private(layout.preload, preload)
        layout.conf.touch(mode=0o600)
        layout.conf.write_text(conf.render(layout, plan.programs))
        supervisor.start(environment.supervisor_environment())
    if plan.server is not None:
        progress("starting PostgreSQL")
        postgres.initialise(plan.server, plan.keys.database_password)
        # The standby imports torch meanwhile; it needs no database.
        supervisor.start_programs(plan.names & {POSTGRES, STANDBY})
        wait_healthy(plan, supervisor, {POSTGRES}, progress, deadline)
    if not running or changed:
        progress("preparing the databases")
        databases.create(plan.urls.values())
        databases.migrate(layout, plan.urls, plan.airflow_environment)
    # The scheduler last: the tasks that it starts at once talk to the api-server, and fail without it.
    supervisor.start_programs(program.name for program in plan.programs if program.name != SCHEDULER)
    wait_healthy(plan, supervisor, {API_SERVER}, progress, deadline)
    supervisor.start_programs({SCHEDULER})
    wait_healthy(plan, supervisor, plan.names, progress, deadline)


def wait_healthy(
    plan: Plan, supervisor: Supervisor, names: Iterable[str], progress: Progress, deadline: float
) -> None:
    """Wait until each of these programs runs and does its work."""
    wanted = frozenset(names)
    said: frozenset[str] = frozenset()
    seen: dict[str, set[int]] = {name: set() for name in wanted}
    while True:
        states = supervisor.states()
        for name in wanted:
            seen[name].add(states[name].pid)
            if states[name].state == "FATAL" or len(seen[name] - {0}) > _MAX_RESTARTS:
                raise _failure(plan, name, "keeps ending")
        runs = frozenset(name for name in wanted if states[name].pid)
        waiting = wanted - health.healthy(plan.layout, plan.endpoints, runs)
        if not waiting:
            return
        if waiting != said:
            progress(f"waiting for {', '.join(sorted(waiting))}")
            said = waiting
        if time.monotonic() > deadline:
            raise _failure(plan, min(waiting), "is not healthy in time")
        time.sleep(0.1)


def _failure(plan: Plan, name: str, what: str) -> OperatorError:
    log = plan.layout.log(name)
    lines = "\n".join(f"  {line}" for line in tail(log, 25))
    return OperatorError(f"{name} {what}; the end of {log}:\n{lines}")
