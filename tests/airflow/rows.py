"""A leased trial in the ledger, and its work order on disk, without deciding anything."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from easeml_core import naming
from easeml_core.ledger import trials
from easeml_core.ledger.models import Candidate, DataVersion, Task, TaskState, Tenant, Trial, TrialState
from easeml_core.service import Service
from easeml_core.settings import Settings
from easeml_core.workorder import ORDER_FILE, WorkOrder

DIGEST = "0" * 64


def lease_trial(service: Service, settings: Settings, device: str = "cpu0") -> dict[str, object]:
    """Lease the first attempt of a new trial of `clinic/tumours`; the fields of its assignment."""
    with service.ledger.transaction() as session:
        session.add(Tenant(id="clinic"))
        session.flush()
        task = Task(tenant_id="clinic", name="tumours", state=TaskState.OPEN)
        session.add(task)
        session.flush()
        version = DataVersion(task_id=task.id, digest=DIGEST, n_train=8, n_val=2, facts={})
        candidate = Candidate(task_id=task.id, name="KNN")
        session.add_all([version, candidate])
        session.flush()
        task.data_version_id = version.id
        return _lease(session, settings, candidate, device)


def lease_next(service: Service, settings: Settings, name: str, device: str = "cpu0") -> dict[str, object]:
    """Lease a trial of one more candidate of the same task; refused while the device is taken."""
    with service.ledger.transaction() as session:
        candidate = Candidate(task_id=session.scalars(select(Task.id)).one(), name=name)
        session.add(candidate)
        session.flush()
        return _lease(session, settings, candidate, device)


def _lease(session: Session, settings: Settings, candidate: Candidate, device: str) -> dict[str, object]:
    trial = Trial(
        task_id=candidate.task_id,
        candidate_id=candidate.id,
        data_version_id=session.scalars(select(DataVersion.id)).one(),
        state=TrialState.PLANNED,
        attempt=0,
        predicted_seconds=1.0,
        reserved_seconds=1.0,
    )
    session.add(trial)
    session.flush()
    trials.lease(session, trial, device, settings.lease_seconds)
    trial_id = trial.id
    folder = naming.attempt_dir(settings.work_dir, trial_id, 1)
    folder.mkdir(parents=True)
    order = WorkOrder(
        trial_id=trial_id,
        attempt=1,
        tenant="clinic",
        task="tumours",
        template="vector-classification",
        candidate=candidate.name,
        version_dir=str(settings.versions_dir),
        version_digest=DIGEST,
        objective="accuracy",
        device=device,
        seed=1,
        limit_seconds=600.0,
        leash_seconds=60.0,
        checkpoint_dir=str(naming.checkpoint_dir(settings.work_dir, trial_id)),
        mlflow_url="http://127.0.0.1:9",
        experiment="clinic/tumours",
    )
    order.write(folder / ORDER_FILE)
    return {"trial_id": trial_id, "attempt": 1, "order_path": str(folder / ORDER_FILE)}
