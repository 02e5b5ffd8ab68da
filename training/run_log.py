"""What a trial tells MLflow while it runs: one run for the attempt, a child run for each setting.

MLflow may be away for a while (it is restarted, the network blinks): what could not be logged waits and
goes out with the next epoch. Only the start and the end of a trial insist, for `INSIST_SECONDS`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import tenacity

from easeml_core.errors import TemporaryError
from easeml_core.tracking import Tracking
from easeml_core.workorder import RUN_FILE, WorkOrder, write_atomically

log = logging.getLogger("training")

INSIST_SECONDS = 90.0
T = TypeVar("T")


def insist(call: Callable[[], T]) -> T:
    """Call until MLflow answers, for at most `INSIST_SECONDS`; then raises TemporaryError."""
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(TemporaryError),
        wait=tenacity.wait_exponential(multiplier=0.2, max=5.0),
        stop=tenacity.stop_after_delay(INSIST_SECONDS),
        reraise=True,
    )
    return retrying(call)


class ChildRun:
    """The child run of one setting; made with the first thing there is to log."""

    def __init__(self, parent: RunLog, index: int, setting: dict[str, Any]) -> None:
        self.parent = parent
        self.index = index
        self.setting = setting
        self.run_id: str | None = None
        self._waiting: list[tuple[str, float, int]] = []

    def metrics(self, values: dict[str, float], step: int) -> None:
        """Log an epoch's metrics now, or with a later call where MLflow is away."""
        self._waiting += [(name, value, step) for name, value in values.items()]
        try:
            self._flush()
        except TemporaryError as error:
            log.warning("%s; the metrics of this epoch will follow", error)

    def finish(self, state: str) -> None:
        """Close the run: FINISHED when the setting was trained to its end, else FAILED or KILLED."""
        status = {"done": "FINISHED", "behind": "KILLED", "stopped": "KILLED"}.get(state, "FAILED")

        def close() -> None:
            self.parent.tracking.finish(self._flush(), status)

        insist(close)

    def _flush(self) -> str:
        order, tracking = self.parent.order, self.parent.tracking
        if self.run_id is None:
            name = ", ".join(f"{key}={value}" for key, value in self.setting.items()) or "defaults"
            run_id = tracking.create_run(
                self.parent.experiment_id,
                name,
                trial=order.trial_id,
                attempt=order.attempt,
                tags={"easeml.setting": str(self.index)},
                parent=self.parent.run_id,
            )
            tracking.log(run_id, params=self.setting)
            self.run_id = run_id
        tracking.log(self.run_id, metrics=self._waiting)
        self._waiting = []
        return self.run_id


class RunLog:
    """The run of one attempt. Made once, noted in `run.json` at once, and always closed explicitly."""

    def __init__(self, order: WorkOrder, folder: Path) -> None:
        self.order = order
        self.tracking = Tracking(order.mlflow_url)
        self.experiment_id = insist(lambda: self.tracking.get_or_create_experiment(order.experiment))
        self.run_id = insist(
            lambda: self.tracking.create_run(
                self.experiment_id,
                f"{order.candidate} · trial {order.trial_id}.{order.attempt}",
                trial=order.trial_id,
                attempt=order.attempt,
                tags={**self._tags(), **order.tags},
                note=order.note,
            )
        )
        write_atomically(folder / RUN_FILE, json.dumps({"mlflow_run_id": self.run_id}))
        self._child: ChildRun | None = None

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

        def send() -> None:
            self.tracking.log(self.run_id, params=params)
            self.tracking.log_config(self.run_id, order.model_dump(mode="json"))

        insist(send)

    def child(self, index: int, setting: dict[str, Any]) -> ChildRun:
        """The child run of a setting; one left open by a failure is closed first."""
        self.close_child("failed")
        self._child = ChildRun(self, index, setting)
        return self._child

    def close_child(self, state: str) -> None:
        """Close the child run that is open, if any."""
        if self._child is not None:
            child, self._child = self._child, None
            child.finish(state)

    def finish(self, status: str, metrics: dict[str, float], tags: dict[str, str]) -> None:
        """Log the final metrics and tags and close the run, and a child that is still open."""
        self.close_child("stopped" if status == "KILLED" else "failed")

        def close() -> None:
            self.tracking.log(
                self.run_id, metrics=[(name, value, 0) for name, value in metrics.items()], tags=tags
            )
            self.tracking.finish(self.run_id, status)

        insist(close)

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
