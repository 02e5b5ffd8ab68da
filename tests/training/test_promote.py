"""Promotion: from the ledger's best trial to the alias, through a store that may be damaged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from easeml_core.errors import OperatorError
from easeml_core.ledger import models as tables
from easeml_core.ledger.promotions import champion
from easeml_core.naming import TaskName
from easeml_core.service import Service, maintain, trainer
from easeml_core.service.promote import promote
from easeml_core.settings import Settings
from easeml_core.tracking import Tracking
from easeml_core.workorder import WorkOrder
from tests.airflow.standby import until
from training.trial import run_attempt


class Board:
    """A task in the ledger, and trials that really ran."""

    def __init__(self, service: Service, name: TaskName, make_order: Callable[..., Path]) -> None:
        self.service, self.name, self.make_order = service, name, make_order
        with service.ledger.transaction() as session:
            session.add(tables.Tenant(id=name.tenant))
            session.flush()
            task = tables.Task(tenant_id=name.tenant, name=name.task, state="open", objective="accuracy")
            session.add(task)
            session.flush()
            self.task_id = task.id
        self.new_version("1" * 64)

    def new_version(self, digest: str) -> None:
        with self.service.ledger.transaction() as session:
            version = tables.DataVersion(task_id=self.task_id, digest=digest, n_train=1, n_val=1, facts={})
            session.add(version)
            session.flush()
            session.get_one(tables.Task, self.task_id).data_version_id = version.id
            self.version_id = version.id

    def succeed(self, candidate: str, quality: float) -> int:
        """A trial with a real model, whose quality is set so that the order is known."""
        result = run_attempt(
            self.make_order(candidate, "vector", search={}, experiment=self.name.experiment).parent
        )
        result = result.model_copy(update={"quality": quality, "score": quality})
        with self.service.ledger.transaction() as session:
            row = (
                session.query(tables.Candidate).filter_by(task_id=self.task_id, name=candidate).one_or_none()
            )
            if row is None:
                row = tables.Candidate(task_id=self.task_id, name=candidate)
                session.add(row)
                session.flush()
            trial = tables.Trial(
                task_id=self.task_id,
                candidate_id=row.id,
                data_version_id=self.version_id,
                state="succeeded",
                predicted_seconds=1.0,
                reserved_seconds=1.0,
                quality=quality,
                score=quality,
                result=result.model_dump(mode="json"),
                mlflow_run_id=result.mlflow_run_id,
                model_uri=result.model_uri,
            )
            session.add(trial)
            session.flush()
            return trial.id

    def champion(self) -> tuple[int, str] | None:
        with self.service.ledger.transaction() as session:
            row = champion(session, self.task_id)
            return None if row is None else (row.trial_id, row.model_version)


@pytest.fixture
def board(settings: Settings, mlflow_url: str, make_order: Callable[..., Path], tmp_path: Path) -> Board:
    (settings.home / "bucket").mkdir()
    service = Service(settings.model_copy(update={"mlflow_url": mlflow_url}))
    name = TaskName("clinic", "t" + "".join(c for c in tmp_path.name.lower() if c.isalnum())[-30:])
    return Board(service, name, make_order)


def test_a_champion_is_replaced_only_by_a_strictly_better_model(board: Board, mlflow_url: str) -> None:
    tracking = Tracking(mlflow_url)
    assert promote(board.service, board.task_id) is None
    first = board.succeed("KNN", 0.7)
    promotion = promote(board.service, board.task_id)
    assert promotion is not None
    assert (promotion.trial_id, promotion.quality) == (first, 0.7)
    assert board.champion() == (first, promotion.model_version)
    assert promote(board.service, board.task_id) is None  # again: nothing to do
    board.succeed("LogisticRegression", 0.7)
    assert promote(board.service, board.task_id) is None  # not strictly better
    found = tracking.champion(board.name.model)
    assert found is not None
    assert found.version == promotion.model_version

    # A new data version: the old champion stays until something succeeded there, then gives way.
    board.new_version("2" * 64)
    assert promote(board.service, board.task_id) is None
    newer = board.succeed("KNN", 0.4)
    promotion = promote(board.service, board.task_id)
    assert promotion is not None
    assert promotion.trial_id == newer
    assert "new data version" in promotion.reason
    found = tracking.champion(board.name.model)
    assert found is not None
    assert found.version == promotion.model_version


def test_a_promotion_killed_halfway_is_completed_by_the_next(
    board: Board, mlflow_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = board.succeed("KNN", 0.7)

    class KilledError(BaseException):
        pass

    def killed(*_: object) -> None:
        raise KilledError

    for step in ("register", "set_champion"):
        with monkeypatch.context() as patch:
            patch.setattr(Tracking, step, killed)
            with pytest.raises(KilledError):
                promote(board.service, board.task_id)
    with monkeypatch.context() as patch:
        patch.setattr("easeml_core.ledger.promotions.record_promotion", killed)
        with pytest.raises(KilledError):
            promote(board.service, board.task_id)
    assert board.champion() is None
    promotion = promote(board.service, board.task_id)
    assert promotion is not None
    assert promotion.trial_id == trial
    versions = Tracking(mlflow_url).client.search_model_versions(f"name = '{board.name.model}'")
    assert [str(version.version) for version in versions] == [promotion.model_version]


def test_a_damaged_model_is_refused_with_the_reason_and_the_next_best_taken(
    board: Board, artifacts: Path
) -> None:
    good, better = board.succeed("KNN", 0.6), board.succeed("LogisticRegression", 0.9)
    with board.service.ledger.transaction() as session:
        uri = session.get_one(tables.Trial, better).model_uri
    assert uri is not None
    next(artifacts.rglob(f"{uri.removeprefix('models:/')}/artifacts/model.skops")).unlink()
    promotion = promote(board.service, board.task_id)
    assert promotion is not None
    assert promotion.trial_id == good
    assert "model.skops is missing" in promotion.refused[0]
    with pytest.raises(OperatorError, match=r"model\.skops is missing"):
        promote(board.service, board.task_id)
    # Maintenance finds it again and again, says so, and does the rest of its work.
    report = maintain.sweep(board.service)
    assert f"promotion of {board.name}" in [problem.split(":")[0] for problem in report.problems]
    assert report.promoted == []
    assert board.service.bucket.read(board.name.key("status.json"))
    assert board.champion() == (good, promotion.model_version)


def test_jobs_promote_and_predict_in_a_process_of_their_own(
    board: Board, make_order: Callable[..., Path], tmp_path: Path
) -> None:
    from easeml_core.data import open_version
    from easeml_core.errors import TemporaryError

    settings = board.service.settings
    order = {"mlflow_url": settings.mlflow_url, "model": board.name.model}
    order |= {"inputs": str(tmp_path / "in.npy"), "output": str(tmp_path / "out.npy")}
    path = make_order("KNN", "vector")
    version = open_version(WorkOrder.read(path).version_dir)
    np.save(tmp_path / "in.npy", version.inputs[:7])
    with pytest.raises(TemporaryError, match="no champion"):
        trainer.run_job("predict", order, settings, 200)
    trial = board.succeed("KNN", 0.7)
    answer = trainer.run_job("promote", {"task_id": board.task_id}, settings, 200)
    assert answer["promoted"]["trial_id"] == trial
    status = json.loads(board.service.bucket.read(board.name.key("status.json")))
    assert status["champion"]["trial_id"] == trial, "who reads that it is done finds its champion"
    answer = trainer.run_job("predict", order, settings, 200)
    assert answer["model_version"] == board.champion()[1]  # type: ignore[index]
    assert answer["n"] == 7
    assert answer["metadata"]["classes"] == ["ant", "bee", "cat"]
    assert np.load(tmp_path / "out.npy").sum(1) == pytest.approx(1.0)
    assert list((settings.work_dir / "jobs").iterdir()) == []

    # And unattended, as between two trials: nobody waits for it, and it leaves nothing behind.
    better = board.succeed("LogisticRegression", 0.8)
    folder = trainer.start_job("promote", {"task_id": board.task_id}, settings, 200)
    until(lambda: not folder.exists(), 200)
    assert board.champion()[0] == better  # type: ignore[index]
    # A failed one stays to be looked at, but for its order, which may hold keys.
    folder = trainer.start_job("promote", {"task_id": 10**6}, settings, 200)
    until((folder / "exit.json").exists, 200)
    assert not json.loads((folder / "result.json").read_text())["ok"]
    assert not (folder / "order.json").exists()
