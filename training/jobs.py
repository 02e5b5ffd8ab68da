"""What a trainer process can be asked to do: train an attempt, promote a champion, predict."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from easeml_core.errors import EasemlError, TenantError
from easeml_core.workorder import RESULT_FILE, write_atomically
from training.trial import run_attempt, setup_logging

log = logging.getLogger("training")

PROMOTE_SECONDS = 120.0  # what is left of a job once it holds its task's lock and only waits for servers
UNATTENDED_NICENESS = 10  # nobody waits for it, while a device may be waiting for the next decision


def perform(kind: str, order_path: Path) -> int:
    """Do the order in this process; gives its exit status. Its answer is in `result.json` beside it."""
    setup_logging()
    if kind == "train":
        run_attempt(order_path.parent)
        return 0
    jobs: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {"promote": promote, "predict": predict}
    if kind not in jobs:
        log.error("there is no job of kind %r; there are train, %s", kind, ", ".join(jobs))
        return 2
    order = json.loads(order_path.read_text())
    if unattended := order.get("unattended_seconds"):
        os.nice(UNATTENDED_NICENESS)
        order_path.unlink()  # it may hold keys, and a failed job's folder stays for a while
        signal.setitimer(signal.ITIMER_REAL, unattended)  # then SIGALRM ends us: a lock is held by nobody
    answer = _answer(jobs[kind], order)
    if unattended and answer["ok"]:
        shutil.rmtree(order_path.parent, ignore_errors=True)
    else:
        write_atomically(order_path.parent / RESULT_FILE, json.dumps(answer, allow_nan=False))
    return 0 if answer["ok"] else 1


def promote(order: dict[str, Any]) -> dict[str, Any]:
    """Bring the champion of task `task_id` up to date, then its status; says what became of it.

    One of an earlier data version is scored on the present one first: that may take long, and promotion holds
    a lock. The status comes last, with the champion in place.
    """
    from dataclasses import asdict

    from easeml_core.service import Service
    from easeml_core.service.promote import promote as promote_task
    from easeml_core.service.rescore import rescore
    from easeml_core.service.status import write_status
    from easeml_core.settings import Settings
    from training.rescore import score_champion

    settings = Settings(**order["settings"]) if "settings" in order else Settings()
    service, task_id = Service(settings), int(order["task_id"])
    try:
        rescore(service, task_id, score_champion)
        if order.get("unattended_seconds"):
            signal.setitimer(signal.ITIMER_REAL, PROMOTE_SECONDS)
        promotion = promote_task(service, task_id)
    finally:
        write_status(service, task_id)
    return {"promoted": None if promotion is None else asdict(promotion)}


def predict(order: dict[str, Any]) -> dict[str, Any]:
    """Answer inputs with a champion: see `training.predict`."""
    from training.predict import predict_files

    return predict_files(order)


def _answer(job: Callable[[dict[str, Any]], dict[str, Any]], order: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"ok": True, "value": job(order)}
    except TenantError as error:
        problems = [problem.as_dict() for problem in error.problems]
        return {"ok": False, "error": "TenantError", "message": str(error), "problems": problems}
    except EasemlError as error:
        return {"ok": False, "error": type(error).__name__, "message": str(error)}
    except Exception as error:
        log.exception("the job failed")
        return {"ok": False, "error": type(error).__name__, "message": str(error)}
