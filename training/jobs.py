"""What a trainer process can be asked to do: train an attempt, promote a champion, predict."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from easeml_core.errors import EasemlError, TenantError
from easeml_core.workorder import RESULT_FILE, write_atomically
from training.trial import run_attempt, setup_logging

log = logging.getLogger("training")


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
    answer = _answer(jobs[kind], json.loads(order_path.read_text()))
    write_atomically(order_path.parent / RESULT_FILE, json.dumps(answer, allow_nan=False))
    return 0 if answer["ok"] else 1


def promote(order: dict[str, Any]) -> dict[str, Any]:
    """Bring the champion of task `task_id` up to date; the answer says what became of it."""
    from dataclasses import asdict

    from easeml_core.service import Service
    from easeml_core.service.promote import promote as promote_task
    from easeml_core.settings import Settings

    settings = Settings(**order["settings"]) if "settings" in order else Settings()
    promotion = promote_task(Service(settings), int(order["task_id"]))
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
