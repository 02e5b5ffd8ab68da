"""Pause, resume and cancel: what a tenant wants of a task, as `control.json` in its folder says.

The file holds a state, not a command, so applying it again changes nothing.
"""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy.orm import Session

from easeml_core.errors import Problem, TenantError
from easeml_core.ledger import lifecycle
from easeml_core.ledger.models import Task, TaskState
from easeml_core.ledger.session import announce
from easeml_core.ledger.tasks import find_task
from easeml_core.naming import CONTROL_FILE, TaskName
from easeml_core.service.context import Service

WANTED = ("open", "paused", "cancelled")


def wanted_state(content: bytes) -> str:
    """The state that the text of a `control.json` asks for; raises TenantError where it asks for none."""
    try:
        wanted = json.loads(content, object_pairs_hook=_no_key_twice)
        if not isinstance(wanted, dict) or not isinstance(wanted.get("state"), str):
            raise ValueError('it must be like {"state": "paused"}')
    except (ValueError, RecursionError) as error:  # JSON and UTF-8 errors are of the first class
        why = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        fix = f'write {{"state": "…"}} with one of {", ".join(WANTED)}'
        raise TenantError([Problem(CONTROL_FILE, f"cannot be read: {why}", fix=fix)]) from None
    state: str = wanted["state"]
    return state


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        if key in made:
            raise ValueError(f"the key {key!r:.60} is there twice")
        made[key] = value
    return made


def apply(service: Service, name: TaskName, wanted: str) -> TaskState:
    """Bring a task to the state its tenant wants, where that means anything; returns the state it is in.

    * `paused`: nothing new starts, what runs goes on. Only an open task pauses.
    * `open`: a paused or cancelled task goes on. One that is over by itself stays so.
    * `cancelled`: nothing new starts, and trainers are stopped (their holders ask `settle.cancelled`).

    Raises TenantError where the task or the wanted state is unknown.
    """
    if wanted not in WANTED:
        raise TenantError(
            [
                Problem(
                    CONTROL_FILE,
                    f"state must be one of {', '.join(WANTED)}; got {wanted!r:.60}",
                    field="state",
                )
            ]
        )
    return service.ledger.repeat(lambda session: _apply(session, name, wanted))


def pause(service: Service, name: TaskName) -> TaskState:
    """Start nothing new for a task until it is resumed."""
    return apply(service, name, "paused")


def resume(service: Service, name: TaskName) -> TaskState:
    """Go on with a paused or cancelled task."""
    return apply(service, name, "open")


def cancel(service: Service, name: TaskName) -> TaskState:
    """Stop a task's trainers and start nothing more; its results and champion stay."""
    return apply(service, name, "cancelled")


def _apply(session: Session, name: TaskName, wanted: str) -> TaskState:
    task = find_task(session, name, lock=True)
    if task is None:
        raise TenantError([Problem(CONTROL_FILE, f"there is no accepted task {name} yet")])
    state = TaskState(task.state)
    if not _changes(task, wanted):
        return state
    reasons = {
        "paused": "paused by its tenant",
        "open": "resumed by its tenant",
        "cancelled": "cancelled by its tenant",
    }
    state = TaskState(wanted)
    lifecycle.set_state(task, state, reasons[wanted])
    if state is TaskState.CANCELLED:
        lifecycle.cancel_planned(session, task, reasons[wanted])
    announce(session)
    return state


def _changes(task: Task, wanted: str) -> bool:
    allowed = {
        "paused": (TaskState.OPEN,),
        "open": (TaskState.PAUSED, TaskState.CANCELLED),
        "cancelled": (TaskState.OPEN, TaskState.PAUSED),
    }
    return task.state in allowed[wanted]
