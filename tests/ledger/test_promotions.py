from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from easeml_core.ledger import promotions, reports, rescores
from easeml_core.ledger.models import Candidate, Rescore, Task, Trial
from easeml_core.service import Service
from easeml_core.service.request import build_request


class Board:
    """A task whose data versions and succeeded trials a test makes up."""

    def __init__(self, service: Service, add_task: Any) -> None:
        self.ledger, self.add_task = service.ledger, add_task
        self.task_id = self.go_to("first")

    def go_to(self, digest: str) -> int:
        """Feed the task with a data version, or go back to one."""
        return self.add_task(digest=digest)

    def succeed(self, candidate: str, quality: float) -> int:
        with self.ledger.transaction() as session:
            task = session.get_one(Task, self.task_id)
            row = session.query(Candidate).filter_by(task_id=task.id, name=candidate).one()
            trial = Trial(
                task_id=task.id,
                candidate_id=row.id,
                data_version_id=task.data_version_id,
                state="succeeded",
                predicted_seconds=1.0,
                reserved_seconds=1.0,
                quality=quality,
                score=quality,
            )
            session.add(trial)
            session.flush()
            return trial.id

    def crown(self, trial_id: int) -> None:
        with self.ledger.transaction() as session:
            promotions.record_promotion(session, session.get_one(Trial, trial_id), "1", "best")

    def judge(self, trial_id: int, **verdict: Any) -> None:
        """What a champion reaches on the present data."""
        with self.ledger.transaction() as session:
            version = session.get_one(Task, self.task_id).data_version_id
            rescores.begin(session, trial_id, version)
            rescores.record(session, trial_id, version, **verdict)

    def look(self) -> tuple[int | None, dict[str, Any]]:
        """The trial that is due for promotion, and what is told of the champion."""
        with self.ledger.transaction() as session:
            task = session.get_one(Task, self.task_id)
            due, told = promotions.promotion_due(session, task), reports.champion_report(session, task)
            assert told is not None
            return None if due is None else due.id, told


@pytest.fixture
def board(service: Service, add_task: Any) -> Board:
    return Board(service, add_task)


@pytest.mark.parametrize(
    ("verdict", "is_due"),
    [
        ({"score": 0.7, "quality": 0.7}, False),
        ({"score": 0.6, "quality": 0.6}, False),  # as good is not better
        ({"score": 0.5, "quality": 0.5}, True),
        ({"reason": "its data had another shape"}, True),
    ],
)
def test_a_champion_of_earlier_data_is_compared_by_what_it_reaches_on_the_present(
    board: Board, verdict: dict[str, Any], is_due: bool
) -> None:
    champion = board.succeed("NIN", 0.9)
    board.crown(champion)
    board.go_to("second")
    due, told = board.look()
    assert due is None
    assert (told["quality"], told["on_current_data"], told["current_quality"]) == (0.9, False, None)
    assert "has not been scored" in told["current_reason"]

    best = board.succeed("NIN", 0.6)
    assert board.look()[0] == best, "before it is known whether it is better, somebody has to find out"
    board.judge(champion, **verdict)
    due, told = board.look()
    assert due == (best if is_due else None)
    assert told["successor"] == (f"trial-{best:06d}" if is_due else None)
    assert (told["current_quality"], told["current_score"]) == (verdict.get("quality"), verdict.get("score"))
    assert told["current_reason"] == verdict.get("reason", "")
    if is_due:
        board.crown(best)
        due, told = board.look()
        assert (due, told["current_quality"], told["on_current_data"]) == (None, 0.6, True)


def test_what_a_champion_of_earlier_data_reaches_is_what_there_is_to_beat(
    service: Service, board: Board
) -> None:
    def beaten() -> float:
        with service.ledger.transaction() as session:
            [task] = build_request(session, "cpu0", seed=0).request.tasks
            return task.champion

    champion = board.succeed("NIN", 0.9)
    board.crown(champion)
    assert beaten() == 0.0, "a trial of the present data says so itself"
    board.go_to("second")
    assert beaten() == 0.0
    board.judge(champion, score=0.7, quality=0.7)
    assert beaten() == 0.7
    board.crown(board.succeed("NIN", 0.8))
    assert beaten() == 0.0


def test_going_back_to_earlier_data_compares_there(board: Board) -> None:
    first = board.succeed("NIN", 0.8)
    board.crown(first)
    board.go_to("second")
    second = board.succeed("NIN", 0.5)
    board.judge(first, reason="it was trained on 3 of the 20 examples to validate on now")
    assert board.look()[0] == second
    board.crown(second)

    board.go_to("first")
    board.judge(second, score=0.7, quality=0.7)
    assert board.look()[0] == first, "its own quality is that on its own data"
    board.crown(first)
    assert board.look()[0] is None
    board.go_to("second")  # what was found out there holds still
    assert board.look()[0] == second


def test_a_verdict_is_written_once_and_dated(board: Board) -> None:
    champion = board.succeed("NIN", 0.9)
    board.crown(champion)
    board.go_to("second")

    def updated() -> Any:
        with board.ledger.transaction() as session:
            return session.get_one(Task, board.task_id).updated_at

    before = updated()
    board.judge(champion, score=0.4, quality=0.4)
    dated = updated()
    assert dated > before
    board.judge(champion, score=0.5, quality=0.5)
    assert board.look()[1]["current_quality"] == 0.4
    assert updated() == dated


def test_tries_are_counted_and_taken_back(board: Board) -> None:
    trial = board.succeed("NIN", 0.9)
    with board.ledger.transaction() as session:
        key = (trial, session.get_one(Task, board.task_id).data_version_id)
        assert [rescores.begin(session, *key) for _ in range(3)] == [1, 2, 3]
        rescores.take_back(session, *key)
        assert rescores.begin(session, *key) == 3
        rescores.record(session, *key, reason="in vain")
        rescores.take_back(session, *key)
        session.expire_all()
        assert session.get_one(Rescore, key).tries == 3


@pytest.mark.parametrize(
    "values",
    [
        "score = 0.5, quality = 1.5, made_at = clock_timestamp()",
        "score = 'NaN', quality = 0.5, made_at = clock_timestamp()",
        "score = 'Infinity', quality = 0.5, made_at = clock_timestamp()",
        "quality = 0.5, made_at = clock_timestamp()",
        "score = 0.5, quality = 0.5",
    ],
)
def test_no_verdict_is_half_or_not_finite(board: Board, values: str) -> None:
    trial = board.succeed("NIN", 0.9)
    with board.ledger.transaction() as session:
        rescores.begin(session, trial, session.get_one(Task, board.task_id).data_version_id)
    with pytest.raises(sa.exc.IntegrityError), board.ledger.transaction() as session:
        session.execute(sa.text(f"UPDATE rescores SET {values}"))


@pytest.mark.parametrize("reached", [0.4, 0.7])
def test_the_best_quality_counts_what_a_champion_of_earlier_data_reaches(
    board: Board, reached: float
) -> None:
    first = board.succeed("NIN", 0.9)
    board.crown(first)
    board.go_to("second")
    board.judge(first, score=reached, quality=reached)

    def best() -> float | None:
        with board.ledger.transaction() as session:
            (line,) = reports.tasks(session)
            return line["best_quality"]

    assert best() == reached
    board.succeed("AlexNet", 0.6)
    assert best() == max(reached, 0.6)
