"""Finds out what a champion reaches on data other than its own, so that it can be compared there.

Models are loaded and asked in a trainer's process, which brings the `Scorer`; here is all else. A verdict is
written once. A server that is away leaves none, and the next who comes tries again; a model that takes its
process down with it is given up after `max_attempts` tries.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from easeml_core import naming
from easeml_core.errors import TemporaryError
from easeml_core.service.promote import model_problems
from easeml_core.tracking import Tracking

if TYPE_CHECKING:
    from easeml_core.ledger.models import Task
    from easeml_core.ledger.promotions import Standing
    from easeml_core.service.context import Service

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Question:
    """How good `model_version` of the registered `model` is on the validation split of a data version."""

    mlflow_url: str
    model: str
    model_version: str
    objective: str
    version_dir: Path


@dataclass(frozen=True, slots=True)
class Verdict:
    """The score in the objective's unit and the quality in [0, 1], or the reason why there are none."""

    score: float | None = None
    quality: float | None = None
    reason: str = ""


# Raises TemporaryError where MLflow is away.
Scorer = Callable[[Question], Verdict]


def rescore(service: Service, task_id: int, score: Scorer) -> Verdict | None:
    """Have a champion of another data version scored on the present one; None where nothing is to be done.

    Nothing is done either where another process is at it. Raises TemporaryError while MLflow or the ledger
    is away, OperatorError where the data is not there.
    """
    from easeml_core.ledger import promotions, rescores
    from easeml_core.ledger.models import Task
    from easeml_core.ledger.session import try_lock

    ledger = service.ledger
    with ledger.transaction() as session:
        if not try_lock(session, f"easeml.rescore.{task_id}"):
            return None
        task = session.get_one(Task, task_id)
        champion = promotions.standing(session, task)
        if champion is None or not champion.pending or task.data_version_id is None:
            return None
        key = (champion.trial.id, task.data_version_id)
        tries = ledger.repeat(lambda session: rescores.begin(session, *key))
        try:
            if tries > service.settings.max_attempts:
                verdict = Verdict(reason=f"scoring it was begun {tries - 1} times and came to no end")
            else:
                verdict = _judge(service, task, champion, score)
        except TemporaryError:
            ledger.repeat(lambda session: rescores.take_back(session, *key))
            raise
        ledger.repeat(lambda session: rescores.record(session, *key, **asdict(verdict)))
    log.info("the champion of task %d on data version %d: %s", task_id, key[1], verdict)
    return verdict


def _judge(service: Service, task: Task, champion: Standing, score: Scorer) -> Verdict:
    from easeml_core.data import Version, VersionFacts, open_version
    from easeml_core.data.comparable import obstacle
    from easeml_core.ledger.tasks import task_name

    assert task.data_version is not None
    name, versions = task_name(task), service.settings.versions_dir
    now = open_version(naming.version_dir(versions, name, task.data_version.digest))
    # The ledger has the facts, whatever became of the folder.
    facts = VersionFacts.model_validate(champion.trial.data_version.facts)
    before = Version(naming.version_dir(versions, name, facts.digest), facts)
    if (reason := obstacle(before, now)) is not None:
        return Verdict(reason=reason)
    tracking = Tracking(service.settings.resolved_mlflow_url())
    tracking.check()
    if problems := model_problems(tracking, champion.trial):
        return Verdict(reason="; ".join(problems[:5]))
    version = champion.promotion.model_version
    verdict = score(Question(tracking.url, name.model, version, task.objective, now.folder))
    if verdict.quality is not None:
        tags = {f"easeml.quality.{now.facts.digest[:8]}": f"{verdict.quality:.6g}"}
        tracking.tag_version(name.model, version, tags)
    return verdict
