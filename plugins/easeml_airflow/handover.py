"""Hands a device from one trial to the next without waiting for Airflow to schedule the steps in between.

Settling, deciding and starting a trainer take a tenth of a second; scheduling a settle and a decide step for
them takes a whole one, in which the device would idle. So the train step does all three when its trainer has
ended well, and those two steps come after it, find it done, and do the rest (promotion, status). Whatever
goes wrong here is left to them: each of the three may be repeated.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk import Context

    from easeml_airflow.hooks import TrainerHook
    from easeml_core.service.decide import Assignment

# From a trainer's start to the train step that attaches to it, on a busy machine. With the trainer's own
# leash it stays well below a lease: when that expires, nothing of the attempt runs any more.
AHEAD_SECONDS = 20.0


def hand_over(hook: TrainerHook, context: Context) -> Assignment | None:
    """Settle the attempt that `hook` watched and start what its device trains next; None: nothing now.

    Nothing is started after an attempt that was interrupted or that the installation failed, nor while the
    device's DAG is paused: it drains. Raises what settling, deciding and starting raise.
    """
    from easeml_core.service import decide, settle, trainer
    from easeml_core.workorder import Outcome

    service, ended = hook.service, hook.assignment
    result = trainer.collect(hook.folder)
    if result.fault or result.outcome is Outcome.INTERRUPTED:
        return None
    settle.settle(service, ended.trial_id, ended.attempt, result)
    instance = context["ti"]
    if instance.get_dag(instance.dag_id).is_paused:
        return None
    following = decide.decide(service, hook.order.device, wait_seconds=0.0)
    if following is not None:
        trainer.start(Path(following.order_path), service.settings, ahead=AHEAD_SECONDS)
    return following
