"""What a free device trains next: the one place where trials are planned and leased.

One decision at a time over all devices (an advisory lock): no two devices pick the same candidate or
overrun a budget. Decision, trial and lease are one transaction; the work order, read from the ledger alone,
is written after it, so that a kill in between only means writing it again.

A device idles meanwhile, so the usual case takes one transaction on one connection.
"""

from __future__ import annotations

import gc
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from sqlalchemy.orm import Session

from easeml_core.allocator import choose_with_ladder
from easeml_core.allocator.fairness import make_fair
from easeml_core.allocator.seen import seen
from easeml_core.allocator.types import Decision, Nothing, Scored
from easeml_core.errors import OperatorError, TemporaryError
from easeml_core.hardware import check_devices
from easeml_core.ledger import decisions, devices, lifecycle, tasks, trials
from easeml_core.ledger.models import Attempt, Lease, Task, TaskState, Trial, TrialState
from easeml_core.ledger.session import lock
from easeml_core.service import forecast, orders, settle
from easeml_core.service.context import Service
from easeml_core.service.request import Situation, build_request
from easeml_core.settings import Settings
from easeml_core.workorder import WorkOrder

# Deadlines pass and leases expire without announcing themselves: look again this often.
LOOK_SECONDS = 5.0
# Checkpoints of a larger candidate with its optimiser's state, and the log.
FREE_DISK_BYTES = 512 * 1024**2
ALLOCATION_LOCK = "easeml.allocate"


@dataclass(frozen=True, slots=True)
class Assignment:
    """The attempt a device holds a lease for, and the path of its work order."""

    trial_id: int
    attempt: int
    order_path: str

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready; `Assignment(**d)` reads it back."""
        return asdict(self)


def decide(service: Service, device: str, wait_seconds: float | None = None) -> Assignment | None:
    """Give `device` an attempt to run, or None where nothing can be started within `wait_seconds`.

    Comes back with the same assignment where the device holds one that has not begun. While the device's
    trial runs there is nothing for it to do. `wait_seconds` defaults to the setting; new work wakes it up.
    Raises OperatorError for a device that is not configured or that this host, which serves it, does not
    have; TemporaryError with too little disk space or without the ledger.
    """
    settings = service.settings
    if device not in settings.devices:
        raise OperatorError(f"{device} is not one of the devices: {', '.join(settings.devices)}")
    check_devices([device])
    _check_disk(settings)
    deadline = time.monotonic() + (settings.decide_wait_seconds if wait_seconds is None else wait_seconds)
    assignment = _look(service, device)
    while assignment is None and time.monotonic() < deadline:
        with service.ledger.listening() as listener:
            # Again, for what came before anybody listened.
            assignment = _look(service, device)
            if assignment is None:
                listener.wait(min(max(deadline - time.monotonic(), 0.0), LOOK_SECONDS))
    return assignment


@dataclass(frozen=True, slots=True)
class _Found:
    """What one transaction came to: an order to hand out, tasks that look over, leases to give up first."""

    order: WorkOrder | None = None
    over: tuple[int, ...] = ()
    expired: bool = False


def _look(service: Service, device: str) -> Assignment | None:
    """One attempt at a decision. Gives up expired leases and closes tasks that are over."""
    found = service.ledger.repeat(lambda session: _assign(session, service.settings, device))
    if found.expired:
        settle.expire(service)
        found = service.ledger.repeat(lambda session: _assign(session, service.settings, device))
    order = found.order
    path = None if order is None else orders.write_order(service.settings, order)
    for task_id in found.over:

        def close(session: Session, task_id: int = task_id) -> None:
            task = trials.locked_task(session, task_id)
            lifecycle.review(session, task, service.settings.max_failures, nothing_fits=True)

        service.ledger.repeat(close)
    return None if order is None else Assignment(order.trial_id, order.attempt, str(path))


def _assign(session: Session, settings: Settings, device: str) -> _Found:
    """Lease something to `device`, in one transaction."""
    lock(session, ALLOCATION_LOCK)
    if trials.expired(session):
        return _Found(expired=True)
    attempt, over = _choose(session, settings, device)
    if attempt is None:
        return _Found(over=over)
    return _Found(orders.build_order(session, settings, attempt.trial_id, attempt.number), over)


def _choose(session: Session, settings: Settings, device: str) -> tuple[Attempt | None, tuple[int, ...]]:
    """The attempt that the device now holds, if any, and the ids of tasks that look over."""
    held = devices.lease_of(session, device)
    if held is not None:
        return _held(session, settings, held), ()
    if session.get(Lease, device) is not None:
        return None, ()  # expired just now: the next look gives it up first
    planned = trials.next_planned(session)
    if planned is not None:
        return trials.lease(session, planned, device, settings.lease_seconds), ()
    situation, answer = propose(session, settings, device)
    if isinstance(answer, Nothing):
        return None, situation.over
    task = trials.locked_task(session, situation.tasks[answer.choice.task].id)
    if not _still_wanted(task, situation, answer):
        return None, situation.over
    return _start(session, settings, device, situation, answer, task), situation.over


def propose(session: Session, settings: Settings, device: str) -> tuple[Situation, Decision | Nothing]:
    """What `device` should train next, by what the ledger says now; writes nothing."""
    make = partial(make_fair, floor=settings.fairness_rounds)
    with _no_collection():
        situation = build_request(session, device, settings.seed)
        return situation, choose_with_ladder(settings.policy, situation.request, make)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Spares the search for garbage: a decision over many tasks makes hundreds of thousands of objects, and
    nearly all live until its end."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _held(session: Session, settings: Settings, held: Lease) -> Attempt | None:
    """The device's own assignment again if it has not begun (a kill after the last decision)."""
    attempt = session.get_one(Attempt, (held.trial_id, held.attempt))
    if attempt.state != TrialState.LEASED:
        return None
    trials.renew(session, held.trial_id, held.attempt, settings.lease_seconds)
    return attempt


def _still_wanted(task: Task, situation: Situation, decision: Decision) -> bool:
    # The row was read before it was locked: its tenant may have changed it meanwhile.
    return task.state == TaskState.OPEN and task.data_version_id == situation.versions[decision.choice.task]


def _start(
    session: Session,
    settings: Settings,
    device: str,
    situation: Situation,
    decision: Decision,
    task: Task,
) -> Attempt:
    """Write trial, decision and lease. What the trial may compute is reserved from the task's budget."""
    choice = decision.choice
    trial = Trial(
        task_id=task.id,
        candidate_id=tasks.candidate_id(session, task, choice.arm),
        data_version_id=task.data_version_id,
        state=TrialState.PLANNED,
        attempt=0,
        cost_seconds=0.0,
        predicted_seconds=choice.predicted_cost,
        reserved_seconds=_reserved(settings, device, situation, choice),
    )
    session.add(trial)
    session.flush()
    decisions.record(session, trial, device, decision, seen(situation.request, decision))
    return trials.lease(session, trial, device, settings.lease_seconds)


def _reserved(settings: Settings, device: str, situation: Situation, choice: Scored) -> float:
    """Seconds that a trial may compute, never more than its task has left.

    All that is left of a budget of device time would keep the other devices from the task. So a trial gets an
    equal share for each device that is not at work on the task, or what 99 of 100 such trials take where that
    is more: a prediction may be far off, and a trial that meets its limit is stopped.
    """
    view = next(view for view in situation.request.tasks if view.task == choice.task)
    limits = [settings.trial_limit_seconds, view.remaining_seconds, view.deadline_in]
    if view.remaining_seconds is not None:
        kind = forecast.device_kind(device, choice.arm)
        enough = choice.predicted_cost * situation.costs.margin(choice.arm, kind)
        free = max(len(settings.devices) - len(view.active), 1)
        limits.append(max(enough, view.remaining_seconds / free))
    return min(limit for limit in limits if limit is not None)


def _check_disk(settings: Settings) -> None:
    settings.work_dir.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(settings.work_dir).free
    if free < FREE_DISK_BYTES:
        raise TemporaryError(
            f"{settings.work_dir} has {free / 1e6:.0f} MB free; "
            f"a trial is started with at least {FREE_DISK_BYTES / 1e6:.0f} MB"
        )
