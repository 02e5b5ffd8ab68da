"""The search and its loop: what is kept, what is given up, and that a resume changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from easeml_core.errors import FencedError
from easeml_core.workorder import Outcome, WorkOrder
from training.checkpoint import Checkpoint
from training.loop import rate_factor
from training.score import DivergedError
from training.search import Finished, OutOfMemoryTwiceError, Search, settings_of
from training.trial import run_attempt
from training.watch import Stopped, Watch

MakeOrder = Callable[..., Path]


class Scripted:
    """A trainee whose settings end as the script says."""

    def __init__(self, script: dict[int, Any]) -> None:
        self.script = script
        self.calls: list[int] = []

    def fit(self, index: int, setting: dict[str, Any], search: Search) -> Finished:
        self.calls.append(index)
        answer = self.script[index]
        if isinstance(answer, list):
            answer = answer.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return Finished(setting, "done", answer, answer, 1, curve=[answer])


@pytest.fixture
def fresh(make_order: MakeOrder) -> Search:
    return Search(Checkpoint(WorkOrder.read(make_order("MLP", "vector"))))


def test_a_setting_that_diverges_is_only_a_bad_setting(fresh: Search) -> None:
    fresh.run(settings_of({"x": [1, 2, 3]}), Scripted({0: 0.5, 1: DivergedError("inf"), 2: 0.7}))
    assert [entry.state for entry in fresh.finished] == ["done", "diverged", "done"]
    assert fresh.best is not None
    assert fresh.best.setting == {"x": 3}


def test_memory_halves_the_batch_once_for_the_whole_search(fresh: Search) -> None:
    trainee = Scripted({0: [MemoryError(), 0.4], 1: 0.5})
    fresh.run(settings_of({"x": [1, 2]}), trainee)
    assert trainee.calls == [0, 0, 1]
    assert fresh.accumulate == 2
    with pytest.raises(OutOfMemoryTwiceError):
        fresh.run(settings_of({"x": [1, 2, 3]}), Scripted({2: MemoryError()}))


def test_other_errors_pass_through(fresh: Search) -> None:
    with pytest.raises(ZeroDivisionError):
        fresh.run([{}], Scripted({0: ZeroDivisionError()}))


@pytest.mark.parametrize(
    ("curve", "behind"),
    [([0.1], False), ([0.1, 0.2], True), ([0.1, 0.55], False), ([0.7, 0.1], False), ([0.1] * 4, False)],
)
def test_a_setting_far_behind_the_best_at_the_same_epoch_is_given_up(
    fresh: Search, curve: list[float], behind: bool
) -> None:
    fresh.finished = [Finished({}, "done", 0.8, 0.8, 3, curve=[0.5, 0.6, 0.8])]
    assert fresh.is_behind(curve) is behind


def test_finished_settings_survive_in_the_checkpoint(make_order: MakeOrder) -> None:
    order = WorkOrder.read(make_order("MLP", "vector"))
    search = Search(Checkpoint(order))
    search.run([{"x": 1}], Scripted({0: 0.5}))
    search.save(3.0, now=True)
    later = order.model_copy(update={"attempt": 2})
    resumed = Search.resume(Checkpoint(later))
    assert resumed.finished == search.finished
    assert resumed.seconds == 3.0
    trainee = Scripted({1: 0.6})
    resumed.run([{"x": 1}, {"x": 2}], trainee)
    assert trainee.calls == [1]
    with pytest.raises(FencedError):  # the earlier attempt may not write any more
        search.save(4.0, now=True)
    other = later.model_copy(update={"version_digest": "f" * 64})
    assert Search.resume(Checkpoint(other)).finished == []
    (Path(order.checkpoint_dir) / "checkpoint.pt").write_bytes(b"half a file")
    assert Search.resume(Checkpoint(later)).finished == []


@pytest.mark.parametrize("candidate", ["SmallCNN", "GRU"])
def test_a_resumed_training_ends_as_an_uninterrupted_one(
    make_order: MakeOrder, monkeypatch: pytest.MonkeyPatch, candidate: str
) -> None:
    kind = "image" if candidate == "SmallCNN" else "series"
    fields: dict[str, Any] = {"max_epochs": 4, "search": {"learning_rate": [0.003, 0.01]}}
    whole = run_attempt(make_order(candidate, kind, **fields).parent)
    assert whole.outcome is Outcome.SUCCEEDED, whole.reason

    first = make_order(candidate, kind, **fields)
    calls = 0
    check = Watch.check

    def stop_in_the_third_epoch(self: Watch) -> None:
        nonlocal calls
        calls += 1
        if calls == 15:  # 5 batches and one evaluation each epoch
            raise Stopped(Outcome.INTERRUPTED, "test")
        check(self)

    with monkeypatch.context() as patch:
        patch.setattr(Watch, "check", stop_in_the_third_epoch)
        assert run_attempt(first.parent).outcome is Outcome.INTERRUPTED
    order = WorkOrder.read(first)
    second = make_order(candidate, kind, trial_id=order.trial_id, attempt=2, **fields)
    resumed = run_attempt(second.parent)
    assert resumed.outcome is Outcome.SUCCEEDED, resumed.reason
    assert (resumed.score, resumed.train_score) == (whole.score, whole.train_score)
    assert resumed.hyperparameters == whole.hyperparameters


def test_a_limit_keeps_the_best_of_what_was_finished(
    make_order: MakeOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0

    def check(self: Watch) -> None:
        nonlocal calls
        calls += 1
        if calls > 15:  # in the second setting
            raise Stopped(Outcome.DEADLINE, "computed longer than its limit")

    monkeypatch.setattr(Watch, "check", check)
    search = {"learning_rate": [0.003, 0.01]}
    result = run_attempt(make_order("SmallCNN", "image", search=search).parent)
    assert result.outcome is Outcome.SUCCEEDED, result.reason
    assert result.hyperparameters == {"learning_rate": 0.003}
    assert result.model_uri is not None


def test_the_rate_rises_then_falls_to_nothing() -> None:
    factors = [rate_factor(step, 100) for step in range(100)]
    assert factors.index(max(factors)) == 10
    assert factors == sorted(factors[:10]) + sorted(factors[10:], reverse=True)
    assert 0 <= factors[-1] < 1e-3
    assert rate_factor(0, 1) > 0.5  # a training of one step does train
