"""One attempt of one trial: read the order, search, package, log, leave the result.

Whatever happens, `run_trial` gives a `TrialResult` that says so; only being killed leaves none. A fault of
the machinery (MLflow away for good, no such GPU, a later attempt in possession) is `interrupted`, never a
failure of the candidate.
"""

from __future__ import annotations

import logging
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from easeml_core.catalog import Space
from easeml_core.catalog.halving import least_epochs
from easeml_core.data import open_version
from easeml_core.errors import FencedError, OperatorError, TemporaryError
from easeml_core.naming import CandidateName
from easeml_core.service.trainer_end import memory_reason
from easeml_core.workorder import ORDER_FILE, RESULT_FILE, Outcome, TrialResult, WorkOrder
from training import device as devices
from training import together
from training.checkpoint import Checkpoint
from training.examples import Examples
from training.group import Group
from training.heads import HeadTrainee
from training.memory import is_out_of_memory, limited_memory, peak_memory_bytes
from training.models import is_network, learns_in_steps
from training.networks import NetworkTrainee
from training.pipelines import PipelineTrainee
from training.run_log import RunLog, Unlogged
from training.score import evaluate
from training.search import NoMemoryError, Search, Tried
from training.watch import Stopped, Unwatched, Watch

log = logging.getLogger("training")

_FORCED_SECONDS = 3.0  # for MLflow to answer a trainer that is being ended by force
_TRAIN_SAMPLE = 2000  # examples the training score is measured on

_RUN_STATUS = {Outcome.SUCCEEDED: "FINISHED", Outcome.INTERRUPTED: "KILLED"}


def run_attempt(folder: Path, group: Group | None = None) -> TrialResult:
    """Run the attempt whose `order.json` is in `folder`; its result is in `result.json` on return.

    An order for several processes starts them, unless this is the first of them already (`group`).
    """
    begun_at = time.time()
    order = WorkOrder.read(folder / ORDER_FILE)
    if group is None and order.processes > 1 and learns_in_steps(CandidateName.parse(order.candidate)):
        return together.launch(order, folder)
    attempt = _Attempt(order, folder, group or Group(), timings={"begun_at": begun_at})
    with Watch(order, folder, attempt.end_by_force) as watch:
        outcome, reason = attempt.run(watch)
        watch.leave()
        result = attempt.finish(watch, outcome, reason)
        result.write(folder / RESULT_FILE)
    log.info("%s %s", result.outcome, result.reason)
    return result


def follow(order: WorkOrder, group: Group) -> None:
    """Train as another process of the attempt's group; writes and logs nothing. Raises what it meets."""
    with limited_memory(_memory_limit(order)):
        device = _set_up(order, group)
        examples = Examples(open_version(Path(order.version_dir)))
        search = Search.resume(Checkpoint(order, writes=False), _settings(order))
        group.wait()
        trainee = NetworkTrainee(order, examples, device, Unwatched(), Unlogged(), group)
        search.run(order.max_epochs, trainee, _least_epochs(order, examples))


def _least_epochs(order: WorkOrder, examples: Examples) -> int:
    return least_epochs(examples.facts.n_train, order.batch_size)


def _set_up(order: WorkOrder, group: Group) -> torch.device:
    device = devices.resolve(order.device, group.rank)
    devices.use_threads(max(order.threads // group.size, 1))
    devices.seed_everything(order.seed)
    return device


def _settings(order: WorkOrder) -> list[dict[str, Any]]:
    return Space.parse(order.search).settings(order.max_settings, order.seed)


def _memory_limit(order: WorkOrder) -> int | None:
    """Bytes for one process of the attempt."""
    return None if order.memory_limit_bytes is None else order.memory_limit_bytes // order.processes


@dataclass
class _Attempt:
    """What is known of an attempt at any moment: enough to write its result."""

    order: WorkOrder
    folder: Path
    group: Group
    runs: RunLog | None = None
    search: Search | None = None
    known: dict[str, Any] = field(default_factory=dict)  # fields of the result
    timings: dict[str, float] = field(default_factory=dict)
    watch: Watch | None = None

    def run(self, watch: Watch) -> tuple[Outcome, str]:
        """Do it all; gives how it ended and why."""
        self.watch = watch
        try:
            with limited_memory(_memory_limit(self.order)):
                return Outcome.SUCCEEDED, self._train(watch)
        except Stopped as stop:
            if stop.outcome is Outcome.INTERRUPTED and (others := self._failure_of_others()) is not None:
                return others
            return stop.outcome, stop.reason
        except OperatorError as error:
            log.exception("the installation is at fault")
            # Data that is gone concerns one task: its trial is given up in the end, and no device pauses.
            self.known |= {"fault": watch.phase != "data", "cost_seconds": 0.0}
            return Outcome.INTERRUPTED, str(error)
        except (TemporaryError, FencedError) as error:
            log.exception("the attempt cannot go on")
            return Outcome.INTERRUPTED, str(error)
        except _AllDivergedError as error:
            return Outcome.DIVERGED, str(error)
        except Exception as error:
            if (others := self._failure_of_others()) is not None:
                return others
            if isinstance(error, NoMemoryError) or is_out_of_memory(error):
                return Outcome.OUT_OF_MEMORY, memory_reason(
                    peak_memory_bytes(), self.order.memory_limit_bytes
                )
            log.exception("the candidate failed")
            return Outcome.FAILED, f"{type(error).__name__}: {error}"[:500]

    def _failure_of_others(self) -> tuple[Outcome, str] | None:
        return together.failure_of_others(self.folder, self.group)

    def _train(self, watch: Watch) -> str:
        """Train, package and log; gives what there is to say of a success."""
        order = self.order
        with self._timed("start"):
            torch_device = _set_up(order, self.group)
            checkpoint = Checkpoint(order)
        settings = _settings(order)
        self.runs = RunLog(order, self.folder)
        self.runs.start(settings)
        watch.enter("data")
        with self._timed("data"):
            examples = Examples(open_version(Path(order.version_dir)))
        log.info(
            "%s for %s/%s: %d settings, %d training examples, on %s",
            order.candidate, order.tenant, order.task, len(settings), examples.facts.n_train, torch_device,
        )  # fmt: skip

        watch.enter("training")
        trainee: NetworkTrainee | PipelineTrainee
        name = CandidateName.parse(order.candidate)
        if learns_in_steps(name):
            trainee = NetworkTrainee(order, examples, torch_device, watch, self.runs, self.group)
        elif is_network(name):
            trainee = HeadTrainee(order, examples, watch, self.runs)
        else:
            trainee = PipelineTrainee(order, examples, watch, self.runs)
        self.search = search = Search.resume(checkpoint, settings)
        self.group.wait()  # before anything is written, the others have read it
        self.timings["train_begun_at"] = time.time()
        with self._timed("train"):
            remark = self._search(search, trainee, watch)
        self.timings["train_ended_at"] = time.time()
        if search.best is None:
            raise _AllDivergedError(f"every setting diverged; the last: {search.tried[-1].reason}")

        watch.enter("logging")
        self.runs.close_children("KILLED")  # those that others were better than
        self.runs.open_model()
        with self._timed("score"):
            sample = examples.sample(examples.version.train, _TRAIN_SAMPLE)
            answers = trainee.answers(search, sample)
            train_scored = evaluate(order.objective, examples.facts, examples.targets(sample), answers)
        self._log_model(trainee, search, self.runs)
        self.known |= self._fields_of(search.tried[search.best]) | {"train_score": train_scored.score}
        checkpoint.clear()
        return remark

    def _search(self, search: Search, trainee: NetworkTrainee | PipelineTrainee, watch: Watch) -> str:
        """Search until the end or the limit; gives a remark where it was the limit."""
        epochs = self.order.max_epochs if isinstance(trainee, NetworkTrainee) else 1
        try:
            search.run(epochs, trainee, _least_epochs(self.order, trainee.examples))
        except Stopped as stop:
            # A limit is not a failure of what was already found within it.
            if stop.outcome is not Outcome.DEADLINE or search.best is None:
                raise
            watch.accept()
            remark = f"{stop.reason}: the best of what it had by then counts"
            log.info("%s", remark)
            return remark
        return ""

    def _log_model(self, trainee: NetworkTrainee | PipelineTrainee, search: Search, runs: RunLog) -> None:
        from mlflow.models import Model

        with tempfile.TemporaryDirectory(prefix="easeml-model-") as scratch:
            folder, model = Path(scratch) / "model", Model()
            with self._timed("package"):
                trainee.save(search, model, folder)
            with self._timed("tracking"):
                model.model_id = model.model_uuid = model_id = runs.wait_for_model()
            model.run_id = runs.run_id
            model.save(str(folder / "MLmodel"))
            with self._timed("upload"):
                files = runs.upload_model(folder)
        self.known |= {"model_uri": f"models:/{model_id}", "model_files": files}

    def _fields_of(self, best: Tried) -> dict[str, Any]:
        return {
            "quality": best.quality,
            "score": best.score,
            "epochs": best.epochs,
            "hyperparameters": best.setting,
        }

    def finish(self, watch: Watch, outcome: Outcome, reason: str) -> TrialResult:
        """Close the run and make the result."""
        result = self.result(watch, outcome, reason)
        if self.runs is not None:
            self._close_run(self.runs, result)
            # It may have been opened only now.
            result = result.model_copy(update={"mlflow_run_id": self.runs.run_id or None})
        return result

    def _close_run(self, runs: RunLog, result: TrialResult, insist: float | None = None) -> None:
        """Close the run as `result` says. One that cannot be closed is closed by maintenance."""
        numbers = {
            name: value
            for name in ("quality", "score", "train_score", "cost_seconds")
            if (value := getattr(result, name)) is not None
        }
        tags = {"easeml.outcome": result.outcome, "easeml.reason": result.reason[:500]}
        try:
            runs.finish(_RUN_STATUS.get(result.outcome, "FAILED"), numbers, tags, insist)
        except TemporaryError as error:
            log.warning("the MLflow run stays open: %s", error)
        except Exception:  # what MLflow refused to log takes nothing from the result
            log.exception("the MLflow run is not complete")

    def result(self, watch: Watch, outcome: Outcome, reason: str) -> TrialResult:
        """The result as of now."""
        fields: dict[str, Any] = {"cost_seconds": watch.compute_seconds}
        if outcome in (Outcome.SUCCEEDED, Outcome.INTERRUPTED):
            fields |= self.known
        return TrialResult(
            trial_id=self.order.trial_id,
            attempt=self.order.attempt,
            outcome=outcome,
            reason=reason,
            mlflow_run_id=(self.runs.run_id or None) if self.runs else None,
            peak_memory_bytes=peak_memory_bytes(),
            timings=self.timings,
            **fields,
        )

    def end_by_force(self, outcome: Outcome, reason: str) -> None:
        """Called from the watching thread when the main thread does not react: leave a result.

        Then close the run, if that goes quickly: a result that is there does not wait.
        """
        if self.watch is None or (self.folder / RESULT_FILE).exists():
            return
        reason = f"{reason}; it did not react and was ended by force"
        result = self.result(self.watch, outcome, reason)
        result.write(self.folder / RESULT_FILE)
        if self.runs is not None:
            self._close_run(self.runs, result, _FORCED_SECONDS)

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        begun = time.monotonic()
        try:
            yield
        finally:
            self.timings[name] = time.monotonic() - begun


class _AllDivergedError(Exception):
    """No setting of the search gave a usable score."""


def setup_logging() -> None:
    """Log to standard output, which is the attempt's log file, one line per event."""
    logging.basicConfig(
        stream=sys.stdout,
        level=logging.INFO,
        format="%(asctime)s %(message)s",
        datefmt="%H:%M:%S",
        force=True,
    )
    for noisy in ("mlflow", "alembic", "torch"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
