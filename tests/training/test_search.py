"""The search and its loop: what is kept, what is dropped, and that a resume changes nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlflow
import pytest

from easeml_core.catalog import halving
from easeml_core.data import open_version
from easeml_core.errors import FencedError
from easeml_core.tracking import Tracking
from easeml_core.workorder import Outcome, TrialResult, WorkOrder
from training.checkpoint import Checkpoint
from training.examples import Examples
from training.loop import rate_factor
from training.score import DivergedError, Scored
from training.search import NoMemoryError, Search, Tried
from training.trial import run_attempt
from training.watch import Stopped, Watch

MakeOrder = Callable[..., Path]


class Scripted:
    """A trainee whose settings have the curves of the script; an exception in one is raised once."""

    most_pieces = 8

    def __init__(self, *script: list[Any]) -> None:
        self.script = script
        self.calls: list[tuple[int, int]] = []  # setting, epochs

    def fit(self, index: int, tried: Tried, epochs: int, search: Search) -> None:
        self.calls.append((index, epochs))
        curve = self.script[index]
        while len(tried.curve) < min(epochs, len(curve)):
            point = curve[len(tried.curve)]
            if isinstance(point, Exception):
                curve.pop(len(tried.curve))
                raise point
            reached = [*tried.curve, point]
            tried.note(Scored(max(reached), max(reached)), reached)
        tried.state = "done" if len(tried.curve) == len(curve) else "paused"
        search.save(1.0)


@pytest.fixture
def fresh(make_order: MakeOrder) -> Callable[[int], Search]:
    """A search of so many settings."""
    checkpoint = Checkpoint(WorkOrder.read(make_order("MLP", "vector")))
    return lambda count: Search(checkpoint, [Tried({"x": x}) for x in range(count)])


def test_only_what_is_best_after_a_rung_trains_on(fresh: Callable[[int], Search]) -> None:
    search = fresh(4)
    slow = [0.1, 0.2, 0.9, *[0.95] * 6]  # would have been best, but nobody can know
    trainee = Scripted(slow, [0.5] * 9, [0.6, 0.6, 0.65, *[0.7] * 6], [0.5, *[0.55] * 8])
    search.run(9, trainee)
    assert trainee.calls == [(0, 1), (1, 1), (2, 1), (3, 1), (1, 3), (2, 3), (2, 9)]
    assert [entry.epochs for entry in search.tried] == [1, 3, 9, 1]
    assert search.best == 2


def test_a_setting_that_diverges_leaves_its_place_to_the_next_best(fresh: Callable[[int], Search]) -> None:
    search = fresh(3)
    best = [0.8, DivergedError("inf"), 0.9]
    trainee = Scripted([DivergedError("nan"), 0.9], best, [0.4, 0.5, 0.6])
    search.run(3, trainee)
    assert [entry.state for entry in search.tried] == ["diverged", "diverged", "done"]
    assert trainee.calls == [(0, 1), (1, 1), (2, 1), (1, 3), (2, 3)]
    assert search.best == 2
    search = fresh(2)
    search.run(3, Scripted([DivergedError("a")], [DivergedError("b")]))
    assert search.best is None


def test_what_ends_early_keeps_its_rank_and_trains_no_more(fresh: Callable[[int], Search]) -> None:
    search = fresh(3)
    trainee = Scripted([0.9], [0.2] * 3, [0.3] * 3)
    search.run(3, trainee)
    assert trainee.calls == [(0, 1), (1, 1), (2, 1)]
    assert search.best == 0


def test_memory_halves_the_pieces_for_the_whole_search(fresh: Callable[[int], Search]) -> None:
    search = fresh(2)
    trainee = Scripted([MemoryError(), MemoryError(), 0.4], [0.5])
    search.run(1, trainee)
    assert trainee.calls == [(0, 1)] * 3 + [(1, 1)]
    assert search.pieces == 4
    search = fresh(1)
    with pytest.raises(NoMemoryError):
        search.run(1, Scripted([MemoryError() for _ in range(9)]))
    assert search.pieces == 8


def test_other_errors_pass_through(fresh: Callable[[int], Search]) -> None:
    with pytest.raises(ZeroDivisionError):
        fresh(1).run(1, Scripted([ZeroDivisionError()]))


def test_what_was_tried_survives_in_the_checkpoint(make_order: MakeOrder) -> None:
    order = WorkOrder.read(make_order("MLP", "vector"))
    settings = [{"x": x} for x in range(3)]
    search = Search.resume(Checkpoint(order), settings)
    killed = Scripted([0.1] * 3, [0.5] * 3, [ZeroDivisionError(), *[0.3] * 3])
    with pytest.raises(ZeroDivisionError):
        search.run(3, killed)
    later = order.model_copy(update={"attempt": 2})
    resumed = Search.resume(Checkpoint(later), settings)
    assert resumed.tried == search.tried
    assert resumed.seconds == 1.0
    trainee = Scripted([0.1] * 3, [0.5] * 3, [0.3] * 3)
    resumed.run(3, trainee)
    assert trainee.calls == [(2, 1), (1, 3)]
    with pytest.raises(FencedError):  # the earlier attempt may not write any more
        search.save(4.0)
    other = Checkpoint(later.model_copy(update={"version_digest": "f" * 64}))
    assert Search.resume(other, settings).best is None
    (Path(order.checkpoint_dir) / "search.pt").write_bytes(b"half a file")
    assert Search.resume(Checkpoint(later), settings).best is None


def _run_stopped(
    make_order: MakeOrder, monkeypatch: pytest.MonkeyPatch, stops: list[int], *what: Any, **fields: Any
) -> TrialResult:
    """The result of a trial whose attempts are each stopped at so many calls of `check`."""
    check = Watch.check
    path = make_order(*what, **fields)
    for attempt, stop in enumerate(stops, start=1):
        calls = 0

        def counting(self: Watch, stop: int = stop) -> None:
            nonlocal calls
            calls += 1
            if calls == stop:
                raise Stopped(Outcome.INTERRUPTED, "test")
            check(self)

        with monkeypatch.context() as patch:
            patch.setattr(Watch, "check", counting)
            assert run_attempt(path.parent).outcome is Outcome.INTERRUPTED
        trial = WorkOrder.read(path).trial_id
        path = make_order(*what, trial_id=trial, attempt=attempt + 1, **fields)
    return run_attempt(path.parent)


RATES = {"learning_rate": {".choice": [0.003, 0.01]}}


@pytest.mark.parametrize("candidate", ["SmallCNN", "GRU"])
def test_a_resumed_training_ends_as_an_uninterrupted_one(
    make_order: MakeOrder, monkeypatch: pytest.MonkeyPatch, candidate: str
) -> None:
    kind = "image" if candidate == "SmallCNN" else "series"
    fields: dict[str, Any] = {"max_epochs": 4, "search": RATES}
    whole = run_attempt(make_order(candidate, kind, **fields).parent)
    assert whole.outcome is Outcome.SUCCEEDED, whole.reason
    # 5 batches and one evaluation each epoch, 2 settings of 2 epochs, then one of 2 more: stopped in the
    # middle of the first setting, of the second one and of the last rung.
    resumed = _run_stopped(make_order, monkeypatch, [9, 15, 12], candidate, kind, **fields)
    assert resumed.outcome is Outcome.SUCCEEDED, resumed.reason
    assert (resumed.score, resumed.train_score) == (whole.score, whole.train_score)
    assert resumed.hyperparameters == whole.hyperparameters
    assert resumed.epochs == 4


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings are compared although these data sets are small."""
    monkeypatch.setattr(halving, "LEAST_STEPS", 1)


@pytest.mark.usefixtures("few_steps")
def test_a_dropped_setting_is_a_killed_run_among_the_children(make_order: MakeOrder) -> None:
    path = make_order("MLP", "vector", max_epochs=3, patience=3, search=RATES)
    result = run_attempt(path.parent)
    assert result.outcome is Outcome.SUCCEEDED, result.reason
    tracking = Tracking(WorkOrder.read(path).mlflow_url)
    parent = tracking.client.get_run(str(result.mlflow_run_id))
    children = tracking.client.search_runs(
        [parent.info.experiment_id], f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'"
    )
    ends = {float(child.data.params["learning_rate"]): child.info.status for child in children}
    best = result.hyperparameters["learning_rate"]
    assert ends == {best: "FINISHED", ({0.003, 0.01} - {best}).pop(): "KILLED"}
    epochs = {
        child.info.status: len(tracking.client.get_metric_history(child.info.run_id, "quality"))
        for child in children
    }
    assert epochs == {"FINISHED": 3, "KILLED": 1}


@pytest.fixture
def limit_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """`limit_after(n)` has trials meet their limit when the watch is asked for the time after the n-th."""

    def limit(asked: int) -> None:
        calls = itertools.count()

        def check(self: Watch) -> None:
            if next(calls) >= asked:
                raise Stopped(Outcome.DEADLINE, "computed longer than its limit of 50 s")

        monkeypatch.setattr(Watch, "check", check)

    return limit


@pytest.mark.usefixtures("few_steps")
def test_a_limit_keeps_the_best_of_what_came_through_a_rung(
    make_order: MakeOrder, limit_after: Callable[[int], None]
) -> None:
    limit_after(9)  # in the second setting
    result = run_attempt(make_order("SmallCNN", "image", search=RATES).parent)
    assert result.outcome is Outcome.SUCCEEDED, result.reason
    assert result.hyperparameters == {"learning_rate": 0.003}
    assert result.model_uri is not None


def test_a_limit_keeps_the_best_epoch_of_the_setting_in_training(
    make_order: MakeOrder,
    mlflow_url: str,
    limit_after: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Batches of 16 of 72 examples: the watch is asked six times in an epoch, and the third is not over."""
    limit_after(15)
    path = make_order("SmallCNN", "image", search={"learning_rate": 0.01}, max_epochs=8)
    result = run_attempt(path.parent)
    assert result.outcome is Outcome.SUCCEEDED, result.reason
    assert result.reason == "computed longer than its limit of 50 s: the best of what it had by then counts"
    assert (result.epochs, result.hyperparameters) == (2, {"learning_rate": 0.01})
    run = Tracking(mlflow_url).client.get_run(str(result.mlflow_run_id))
    assert (run.info.status, run.data.tags["easeml.reason"]) == ("FINISHED", result.reason)
    examples = Examples(open_version(Path(WorkOrder.read(path).version_dir)))
    validation = examples.version.val
    monkeypatch.setenv("MLFLOW_TRACKING_URI", mlflow_url)
    answers = mlflow.pyfunc.load_model(str(result.model_uri)).predict(examples.inputs(validation))
    assert (answers.argmax(1) == examples.targets(validation)).mean() == pytest.approx(result.score)


def test_a_limit_within_the_first_epoch_leaves_nothing(
    make_order: MakeOrder, limit_after: Callable[[int], None]
) -> None:
    limit_after(3)
    result = run_attempt(make_order("SmallCNN", "image", search=RATES).parent)
    assert (result.outcome, result.quality, result.model_uri) == (Outcome.DEADLINE, None, None)
    assert result.reason == "computed longer than its limit of 50 s"


def test_the_rate_rises_then_falls_to_nothing() -> None:
    factors = [rate_factor(step, 100) for step in range(100)]
    assert factors.index(max(factors)) == 10
    assert factors == sorted(factors[:10]) + sorted(factors[10:], reverse=True)
    assert 0 <= factors[-1] < 1e-3
    assert rate_factor(0, 1) > 0.5  # a training of one step does train


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_half_precision_trains_as_well_and_resumes(
    make_order: MakeOrder, monkeypatch: pytest.MonkeyPatch, precision: str
) -> None:
    fields: dict[str, Any] = {"max_epochs": 4, "search": {"learning_rate": 0.01}, "precision": precision}
    whole = run_attempt(make_order("SmallCNN", "image", **fields).parent)
    assert whole.outcome is Outcome.SUCCEEDED, whole.reason
    full = run_attempt(make_order("SmallCNN", "image", **{**fields, "precision": "float32"}).parent)
    assert whole.score == pytest.approx(full.score, abs=0.1)
    resumed = _run_stopped(make_order, monkeypatch, [9], "SmallCNN", "image", **fields)
    assert (resumed.score, resumed.train_score) == (whole.score, whole.train_score)
