"""Work orders, written from the ledger alone: after a kill the same order is written again."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from easeml_core import naming
from easeml_core.catalog import MODELS
from easeml_core.ledger.lifecycle import SHORTEST_TRIAL_SECONDS
from easeml_core.ledger.models import Attempt, DecisionRecord, Trial
from easeml_core.ledger.tasks import task_name
from easeml_core.settings import Settings
from easeml_core.workorder import ORDER_FILE, WorkOrder

# A trainer that nobody waits for stops after so long; a restarted worker is back well before.
LEASH_SECONDS = 10.0


def write_order(settings: Settings, order: WorkOrder) -> Path:
    """Write an attempt's order into its folder, atomically; returns the file's path. Safe to repeat.

    An order that says the same already is left alone: its time is that of the decision.
    """
    folder = naming.attempt_dir(settings.work_dir, order.trial_id, order.attempt)
    folder.mkdir(parents=True, exist_ok=True)
    Path(order.checkpoint_dir).mkdir(parents=True, exist_ok=True)
    path = folder / ORDER_FILE
    if not path.exists() or WorkOrder.read(path) != order:
        order.write(path)
    return path


def build_order(session: Session, settings: Settings, trial_id: int, number: int) -> WorkOrder:
    """The order of one attempt, of nothing but the ledger and the settings: after a kill, the same again.

    Its time limit is what the trial reserved, less what it has computed.
    """
    trial = session.get_one(Trial, trial_id)
    attempt = session.get_one(Attempt, (trial_id, number))
    decision = session.scalars(
        select(DecisionRecord).where(DecisionRecord.trial_id == trial_id).order_by(DecisionRecord.id).limit(1)
    ).one()
    spent = session.scalar(
        select(func.coalesce(func.sum(Attempt.seconds), 0.0)).where(
            Attempt.trial_id == trial_id, Attempt.number < number
        )
    )
    name = task_name(trial.task)
    candidate = naming.CandidateName.parse(trial.candidate.name)
    facts = MODELS[candidate.model]
    tags = {
        "tenant": name.tenant,
        "task": name.task,
        "template": trial.task.template,
        "candidate": trial.candidate.name,
        "data_version": trial.data_version.digest,
        "decision": str(decision.id),
        "policy": decision.policy,
        "device": attempt.device,
        "trial": str(trial_id),
        "attempt": str(number),
    }
    return WorkOrder(
        trial_id=trial_id,
        attempt=number,
        tenant=name.tenant,
        task=name.task,
        template=trial.task.template,
        candidate=trial.candidate.name,
        version_dir=str(naming.version_dir(settings.versions_dir, name, trial.data_version.digest)),
        version_digest=trial.data_version.digest,
        objective=trial.task.objective,
        device=attempt.device,
        processes=naming.process_count(attempt.device),
        threads=threads_of(settings, attempt.device),
        seed=trial_seed(settings.seed, trial_id),
        search=facts.search.document(),
        max_settings=facts.max_settings,
        max_epochs=max(facts.epochs, 1),
        batch_size=max(facts.batch_size, 1),
        patience=facts.patience,
        precision=settings.precision,
        compiled=settings.compile_networks,
        limit_seconds=max(trial.reserved_seconds - float(spent or 0.0), SHORTEST_TRIAL_SECONDS),
        leash_seconds=LEASH_SECONDS,
        memory_limit_bytes=settings.trial_memory_bytes,
        checkpoint_dir=str(naming.checkpoint_dir(settings.work_dir, trial_id)),
        mlflow_url=settings.resolved_mlflow_url(),
        experiment=name.experiment,
        tags={f"easeml.{key}": value for key, value in tags.items()},
        note=decision.reason,
    )


def threads_of(settings: Settings, device: str) -> int:
    """This host's cores, shared out among the devices that it serves (those of one queue); at least 1."""
    queues = [settings.device_queues.get(other) for other in settings.devices]
    here = queues.count(settings.device_queues.get(device))
    return max(len(os.sched_getaffinity(0)) // max(here, 1), 1)


def trial_seed(seed: int, trial_id: int) -> int:
    """A seed in [0, 2^31) of a trial's own: the same for all its attempts, so that a resume agrees."""
    digest = hashlib.sha256(f"{seed}/{trial_id}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1
