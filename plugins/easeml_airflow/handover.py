"""Hands a device from one trial to the next without waiting for Airflow to schedule the steps in between.

Settling, deciding and starting a trainer take a tenth of a second; scheduling a settle and a decide step for
them takes a whole one, in which the device would idle. So the train step does all that when its trainer has
ended well; the settle step is then skipped, and the next decide step finds the assignment made. Whatever
goes wrong here is left to those two: all of it may be repeated.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk import Context

    from easeml_airflow.hooks import TrainerHook
    from easeml_core.service import Service
    from easeml_core.service.decide import Assignment
    from easeml_core.service.settle import Settlement

log = logging.getLogger(__name__)

# From a trainer's start to the train step that attaches to it, on a busy machine. With the trainer's own
# leash it stays well below a lease: when that expires, nothing of the attempt runs any more.
AHEAD_SECONDS = 20.0


def start_next(service: Service, device: str, wait_seconds: float) -> Assignment | None:
    """Decide what `device` trains next, waiting for work so long, and start its trainer ahead of the train
    step that will attach to it. A trainer that does not come up is that step's to start."""
    from easeml_core.errors import TemporaryError
    from easeml_core.service import decide, trainer

    assignment = decide.decide(service, device, wait_seconds)
    if assignment is not None:
        try:
            trainer.start(Path(assignment.order_path), service.settings, ahead=AHEAD_SECONDS)
        except TemporaryError as error:
            log.warning("not started ahead of the train step: %s", error)
    return assignment


def hand_over(hook: TrainerHook, context: Context) -> bool:
    """Settle the attempt that `hook` watched, start what its device trains next, and follow up.

    False, and nothing is done, after an attempt that was interrupted or that the installation failed. While
    the device's DAG is paused nothing is started: it drains. Raises what settling, deciding and starting
    raise.
    """
    from easeml_core.service import settle, trainer
    from easeml_core.workorder import Outcome

    service, ended = hook.service, hook.assignment
    result = trainer.collect(hook.folder)
    if result.fault or result.outcome is Outcome.INTERRUPTED:
        return False
    settlement = settle.settle(service, ended.trial_id, ended.attempt, result)
    instance = context["ti"]
    if not instance.get_dag(instance.dag_id).is_paused:
        following = start_next(service, hook.order.device, 0.0)
        if following is not None:
            hook.log.info("trial %d has the device now", following.trial_id)
    follow_up(service, settlement)
    return True


def follow_up(service: Service, settlement: Settlement) -> None:
    """Have the champion and the tenant's status follow a settled trial.

    A promotion takes longer than anything else between two trials, the more so where a champion has to be
    scored on new data first, so nobody waits for it: it runs beside the next trial and writes the status
    when it is through. What a crash cuts short there, maintenance
    repeats. Where no promotion is due, the status is written here.
    """
    from easeml_core.service import status, trainer

    if settlement.promote:
        order = {"task_id": settlement.task_id}
        trainer.start_job("promote", order, service.settings, trainer.RESCORE_SECONDS)
    else:
        status.write_status(service, settlement.task_id)
