"""What a trial tells MLflow while it runs: one run for the attempt, a child run for each setting.

All of it is sent from the side (`training.outbox`), in order: computing starts before the run is open and
does not wait for a request, and what is still to be sent at its end goes out beside the model. MLflow may be
away for a while (it is restarted, the network blinks): what could not be logged waits. Only the end of a
trial insists, for `INSIST_SECONDS`.
"""

from __future__ import annotations

import importlib
import json
import threading
from pathlib import Path
from typing import Any

from easeml_core.errors import TemporaryError
from easeml_core.naming import CandidateName
from easeml_core.tracking import Tracking
from easeml_core.workorder import RUN_FILE, WorkOrder, write_atomically
from training.models import is_network
from training.outbox import Outbox

INSIST_SECONDS = 90.0

Point = tuple[str, float, int]  # metric, value, step


class ChildRun:
    """The child run of one setting; made with the first thing there is to log."""

    def __init__(self, parent: RunLog, index: int, setting: dict[str, Any]) -> None:
        self.parent = parent
        self.index = index
        self.setting = setting
        self.run_id = ""
        self.state = "open"  # as in `training.search.Tried`
        self._waiting: list[Point] = []

    def metrics(self, values: dict[str, float], step: int) -> None:
        """Log an epoch's metrics; epochs that end while a request is on its way go out together."""
        self._waiting += [(name, value, step) for name, value in values.items()]
        self.parent.outbox.put(self._flush)

    def finish(self, otherwise: str) -> None:
        """Close the run: FINISHED when the setting was trained to its end, FAILED when it diverged."""
        status = {"done": "FINISHED", "diverged": "FAILED"}.get(self.state, otherwise)
        self.parent.outbox.put(self._flush)
        self.parent.outbox.put(lambda: self.parent.tracking.finish(self.run_id, status))

    def _flush(self) -> None:
        order, tracking = self.parent.order, self.parent.tracking
        points = list(self._waiting)
        if not points and self.run_id:
            return
        if not self.run_id:
            self.run_id = tracking.create_run(
                self.parent.experiment_id,
                ", ".join(f"{key}={value}" for key, value in self.setting.items()) or "defaults",
                trial=order.trial_id,
                attempt=order.attempt,
                tags={"easeml.setting": str(self.index)},
                parent=self.parent.run_id,
            )
        tracking.log(self.run_id, metrics=points, params=self.setting)
        del self._waiting[: len(points)]  # the trial goes on adding at the end meanwhile


class Unlogged:
    """What a process that follows another one logs to: nothing."""

    state = "open"

    def child(self, index: int, setting: dict[str, Any]) -> Unlogged:
        """For any setting, this."""
        return self

    def metrics(self, values: dict[str, float], step: int) -> None:
        """The first process logs them."""


class RunLog:
    """The run of one attempt. Made once, noted in `run.json` at once, and always closed explicitly.

    `run_id` is empty until MLflow has answered, `model_id` until `open_model` was.
    """

    def __init__(self, order: WorkOrder, folder: Path) -> None:
        # All of it now: of two threads that import MLflow at the same time, one gets half a module.
        flavor = "pytorch" if is_network(CandidateName.parse(order.candidate)) else "sklearn"
        for name in ("mlflow.pyfunc", f"mlflow.{flavor}"):
            importlib.import_module(name)
        self.order = order
        self.tracking = Tracking(order.mlflow_url)
        self.outbox = Outbox()
        self.experiment_id = ""
        self.run_id = ""
        self.model_id = ""
        self._models: Outbox | None = None
        self._opened = threading.Event()
        self._folder = folder
        self._children: dict[int, ChildRun] = {}
        self.outbox.put(self._open)

    def start(self, settings: list[dict[str, Any]]) -> None:
        """Log what is to be tried: the order as an artifact and as parameters."""
        order = self.order
        params = {
            "candidate": order.candidate,
            "data_version": order.version_digest,
            "objective": order.objective,
            "seed": order.seed,
            "max_epochs": order.max_epochs,
            "batch_size": order.batch_size,
            "settings": len(settings),
        }
        self.outbox.put(lambda: self.tracking.log(self.run_id, params=params))
        self.outbox.put(lambda: self.tracking.log_config(self.run_id, order.model_dump(mode="json")))

    def child(self, index: int, setting: dict[str, Any]) -> ChildRun:
        """The child run of a setting, the same one each time."""
        return self._children.setdefault(index, ChildRun(self, index, setting))

    def close_children(self, otherwise: str) -> None:
        """Close all child runs; `otherwise` is the status of those whose setting did not come to its end."""
        children, self._children = self._children, {}
        for child in children.values():
            child.finish(otherwise)

    def open_model(self) -> None:
        """Have the run's logged model made, still empty; returns at once."""
        self._models = Outbox()
        self._models.put(self._create_model)

    def wait_for_model(self) -> str:
        """The model's id. Raises TemporaryError where MLflow stays away for `INSIST_SECONDS`."""
        assert self._models is not None
        if not self._opened.wait(INSIST_SECONDS):
            self._drain(self.outbox, 0.0)  # says why
        self._drain(self._models)
        return self.model_id

    def upload_model(self, folder: Path) -> dict[str, str]:
        """Upload a saved model's folder: relative path → SHA-256 of every file. Raises as above."""
        assert self._models is not None
        files: dict[str, str] = {}
        self._models.put(lambda: files.update(self.tracking.upload_model(self.model_id, folder)))
        self._drain(self._models)
        return files

    def finish(
        self,
        status: str,
        metrics: dict[str, float],
        tags: dict[str, str],
        insist: float | None = None,
    ) -> None:
        """Log the final metrics and tags and close the run, and children that are still open.

        Raises TemporaryError where MLflow stays away for `insist` seconds (`INSIST_SECONDS`); the run, if
        there is one, then stays open.
        """
        self.close_children("KILLED" if status == "KILLED" else "FAILED")
        points = [(name, value, 0) for name, value in metrics.items()]
        self.outbox.put(lambda: self.tracking.log(self.run_id, metrics=points, tags=tags))
        self.outbox.put(lambda: self.tracking.finish(self.run_id, status))
        self._drain(self.outbox, insist)
        self.close()

    def close(self) -> None:
        """Give up whatever is not sent yet; maintenance closes the run."""
        self.outbox.close()
        if self._models is not None:
            self._models.close()

    def _drain(self, outbox: Outbox, seconds: float | None = None) -> None:
        try:
            outbox.drain(INSIST_SECONDS if seconds is None else seconds)
        except TemporaryError:
            self.close()  # not to wait as long once more
            raise

    def _create_model(self) -> None:
        if not self._opened.wait(INSIST_SECONDS):
            raise TemporaryError("MLflow has not opened the run")
        tags = {"easeml.trial": str(self.order.trial_id), "easeml.candidate": self.order.candidate}
        self.model_id = self.tracking.create_model(self.experiment_id, self.run_id, tags)

    def _open(self) -> None:
        try:
            self._open_run()
        except TemporaryError:
            raise  # it is tried again
        except BaseException:
            self._opened.set()
            raise
        self._opened.set()

    def _open_run(self) -> None:
        order = self.order
        self.experiment_id = self.tracking.get_or_create_experiment(order.experiment)
        self.run_id = self.tracking.create_run(
            self.experiment_id,
            f"{order.candidate} · trial {order.trial_id}.{order.attempt}",
            trial=order.trial_id,
            attempt=order.attempt,
            tags={**self._tags(), **order.tags},
            note=order.note,
        )
        known = {"mlflow_run_id": self.run_id, "experiment_id": self.experiment_id}
        write_atomically(self._folder / RUN_FILE, json.dumps(known))

    def _tags(self) -> dict[str, str]:
        order = self.order
        return {
            "easeml.tenant": order.tenant,
            "easeml.task": order.task,
            "easeml.template": order.template,
            "easeml.candidate": order.candidate,
            "easeml.data_version": order.version_digest,
            "easeml.device": order.device,
        }
