"""The steps of a device's run, as a test calls them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from easeml_airflow.operators import SettleOperator, TrainModelOperator
from sqlalchemy import select

from easeml_core.ledger.models import Trial
from easeml_core.service import Service


class FileStore:
    """Airflow's per-task store, which outlives a try: here, a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def get(self, key: str) -> Any:
        return json.loads(self.path.read_text()).get(key) if self.path.exists() else None

    def set(self, key: str, value: Any) -> None:
        self.path.write_text(json.dumps({key: value}))


def train_step(assignment: dict[str, Any]) -> TrainModelOperator:
    return TrainModelOperator(task_id="train", assignment=assignment)


def settle_step(assignment: dict[str, Any], trained: dict[str, Any] | None) -> str | None:
    operator = SettleOperator(task_id="settle", assignment=assignment, trained=trained)
    return operator.execute({})


def trial_of(service: Service) -> Trial:
    with service.ledger.transaction() as session:
        return session.scalars(select(Trial)).one()


def attempt_folder(assignment: dict[str, Any]) -> Path:
    return Path(assignment["order_path"]).parent
