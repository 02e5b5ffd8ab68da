"""Promotion: from the ledger's best trial to the alias, through damaged stores and growing data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris

from easeml_core.data import Limits, Version, build_version, open_version
from easeml_core.errors import OperatorError, TemporaryError
from easeml_core.ledger import models as tables
from easeml_core.ledger import tasks
from easeml_core.ledger.promotions import champion, promotion_due
from easeml_core.naming import TaskName, version_dir
from easeml_core.service import Service, maintain, trainer
from easeml_core.service.promote import promote
from easeml_core.service.rescore import Question, Verdict, rescore
from easeml_core.settings import Settings
from easeml_core.spec import load_spec
from easeml_core.tracking import Tracking
from tests.airflow.standby import until
from tests.data.uploads import vector
from training import jobs
from training.predict import load_model
from training.rescore import score_champion
from training.trial import run_attempt

SPEC = load_spec(vector(4, 3))
FLOWERS, KINDS = (part[np.random.default_rng(0).permutation(150)] for part in load_iris(return_X_y=True))


class Board:
    """A task in the ledger, and trials that really ran."""

    def __init__(self, service: Service, name: TaskName, make_order: Callable[..., Path]) -> None:
        self.service, self.name, self.make_order = service, name, make_order
        self.version: Version | None = None
        self.feed(90)

    def feed(self, count: int) -> None:
        """Give the task the first `count` flowers, as intake does."""
        upload = self.service.settings.home / f"upload-{count}"
        (upload / "data").mkdir(parents=True)
        np.savez(upload / "data" / "flowers.npz", x=FLOWERS[:count], y=KINDS[:count])
        versions = self.service.settings.versions_dir
        facts = build_version(
            upload, SPEC, parent=self.version, limits=Limits(), versions_dir=versions, name=self.name
        )
        with self.service.ledger.transaction() as session:
            task = tasks.register_task(session, self.name, SPEC, default_trials=10)
            self.version_id = tasks.add_version(session, task, SPEC, facts).id
            self.task_id = task.id
        self.version = open_version(version_dir(versions, self.name, facts.digest))

    def succeed(self, candidate: str, quality: float) -> int:
        """A trial with a real model, whose quality is set so that the order is known."""
        result = run_attempt(
            self.make_order(
                candidate,
                "vector",
                search={},
                experiment=self.name.experiment,
                version_dir=self.version.folder,
            ).parent
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

    def set_quality(self, trial_id: int, quality: float) -> None:
        with self.service.ledger.transaction() as session:
            trial = session.get_one(tables.Trial, trial_id)
            trial.quality = trial.score = quality

    def rescore(self) -> Verdict | None:
        return rescore(self.service, self.task_id, score_champion)

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


def test_a_champion_of_earlier_data_is_scored_on_the_new_split_before_it_is_compared(
    board: Board, mlflow_url: str
) -> None:
    board.succeed("LogisticRegression", 0.99)
    first = promote(board.service, board.task_id)
    assert first is not None
    assert board.rescore() is None, "it was measured on this very data"
    board.feed(150)
    newer = board.succeed("KNN", 0.01)
    assert promote(board.service, board.task_id) is None, "nobody knows yet which one is better"
    verdict = board.rescore()
    assert verdict is not None
    version = board.version
    assert version is not None
    model = load_model(mlflow_url, board.name.model, first.model_version)
    right = model.predict(np.asarray(version.inputs[version.val])).argmax(1) == version.targets[version.val]
    assert verdict.score == verdict.quality == pytest.approx(right.mean())
    assert board.rescore() is None, "it is known now"
    tags = Tracking(mlflow_url).client.get_model_version(board.name.model, first.model_version).tags
    assert tags[f"easeml.quality.{version.facts.digest[:8]}"] == f"{verdict.quality:.6g}"

    for quality in (0.01, verdict.quality):
        board.set_quality(newer, quality)
        assert promote(board.service, board.task_id) is None, "only what is strictly better replaces it"
    board.set_quality(newer, verdict.quality + 0.01)
    promotion = promote(board.service, board.task_id)
    assert promotion is not None
    assert promotion.trial_id == newer
    said = f"better than LogisticRegression of the earlier data version with {verdict.score:.4g}"
    assert promotion.reason.endswith(f"{said} on the present one")
    with board.service.ledger.transaction() as session:
        assert promotion_due(session, session.get_one(tables.Task, board.task_id)) is None
    found = Tracking(mlflow_url).champion(board.name.model)
    assert found is not None
    assert found.version == promotion.model_version


def test_a_champion_that_cannot_be_scored_gives_way_with_the_reason(board: Board, artifacts: Path) -> None:
    champion = board.succeed("LogisticRegression", 0.99)
    promote(board.service, board.task_id)
    with board.service.ledger.transaction() as session:
        uri = str(session.get_one(tables.Trial, champion).model_uri)
    next(artifacts.rglob(f"{uri.removeprefix('models:/')}/artifacts/model.skops")).unlink()
    board.feed(150)
    newer = board.succeed("KNN", 0.01)
    verdict = board.rescore()
    assert verdict is not None
    assert (verdict.quality, verdict.reason) == (None, "model.skops is missing in the artifact store")
    promotion = promote(board.service, board.task_id)
    assert promotion is not None
    assert promotion.trial_id == newer
    assert promotion.reason.endswith(
        "LogisticRegression of the earlier data version cannot be scored on it: "
        "model.skops is missing in the artifact store"
    )


def test_scoring_is_repeated_after_a_kill_or_an_outage_but_not_for_ever(
    board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    board.succeed("KNN", 0.99)
    promote(board.service, board.task_id)
    board.feed(150)
    newer = board.succeed("LogisticRegression", 0.5)

    def away(_: Question) -> Verdict:
        assert board.rescore() is None, "somebody is at it"
        raise TemporaryError("MLflow does not answer")

    class KilledError(BaseException):
        pass

    def killed(_: Question) -> Verdict:
        raise KilledError

    tries = board.service.settings.max_attempts
    for scorer, error in [(away, TemporaryError)] * (tries + 1) + [(killed, KilledError)] * tries:
        with pytest.raises(error):
            rescore(board.service, board.task_id, scorer)
        assert promote(board.service, board.task_id) is None
    verdict = board.rescore()
    assert verdict == Verdict(reason=f"scoring it was begun {tries} times and came to no end")
    promotion = promote(board.service, board.task_id)
    assert promotion is not None
    assert promotion.trial_id == newer


def test_a_feed_has_the_champion_scored_though_nothing_was_trained_on_it_yet(
    board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    champion = board.succeed("KNN", 0.99)
    promote(board.service, board.task_id)
    asked: list[tuple[str, dict[str, Any]]] = []
    monkeypatch.setattr(trainer, "start_job", lambda kind, order, *_: asked.append((kind, order)) or Path())
    assert maintain.sweep(board.service).rescoring == []
    board.feed(150)
    assert maintain.sweep(board.service).rescoring == [str(board.name)]
    [(kind, order)] = asked
    assert kind == "promote"
    assert jobs.promote({**order, "settings": board.service.settings.model_dump(mode="json")}) == {
        "promoted": None
    }
    told = json.loads(board.service.bucket.read(board.name.key("status.json")))["champion"]
    assert (told["trial_id"], told["quality"], told["on_current_data"]) == (champion, 0.99, False)
    assert 0.5 < told["current_quality"] < 0.99
    text = board.service.bucket.read(board.name.key("status.md")).decode()
    assert f"on the present one it has accuracy {told['current_score']:.4f}" in text
    assert maintain.sweep(board.service).rescoring == []


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


def test_jobs_promote_and_predict_in_a_process_of_their_own(board: Board, tmp_path: Path) -> None:
    settings = board.service.settings
    order = {"mlflow_url": settings.mlflow_url, "model": board.name.model}
    order |= {"inputs": str(tmp_path / "in.npy"), "output": str(tmp_path / "out.npy")}
    np.save(tmp_path / "in.npy", FLOWERS[:7].astype(np.float32))
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
    assert answer["metadata"]["classes"] == ["0", "1", "2"]
    assert np.load(tmp_path / "out.npy").sum(1) == pytest.approx(1.0)
    assert list((settings.work_dir / "jobs").iterdir()) == []

    # And unattended, as between two trials, here after a feed: nobody waits, and it leaves nothing behind.
    board.feed(150)
    better = board.succeed("LogisticRegression", 1.0)
    folder = trainer.start_job("promote", {"task_id": board.task_id}, settings, 200)
    until(lambda: not folder.exists(), 200)
    assert board.champion()[0] == better  # type: ignore[index]
    status = json.loads(board.service.bucket.read(board.name.key("status.json")))
    assert "better than KNN of the earlier data version with" in status["champion"]["reason"]
    # A failed one stays to be looked at, but for its order, which may hold keys.
    folder = trainer.start_job("promote", {"task_id": 10**6}, settings, 200)
    until((folder / "exit.json").exists, 200)
    assert not json.loads((folder / "result.json").read_text())["ok"]
    assert not (folder / "order.json").exists()
