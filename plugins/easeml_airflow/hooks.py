"""Owns a trainer's process and signals; the operator only says when.

Built on `easeml_core.service.trainer`, which starts, finds, stops and collects trainers.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook

from easeml_airflow.leases import LeaseKeeper, Stop

if TYPE_CHECKING:
    from easeml_core.service import Service
    from easeml_core.service.decide import Assignment
    from easeml_core.service.trainer import TrainerRef

LOOK_SECONDS = 0.2  # between looks at the trainer's log; its end is noticed at once, by its pid
RENEW_SECONDS = 5.0
# Between `limit_seconds`, which counts computing and which the trainer keeps itself, and the wall clock
# at which we end it: start-up, reading data, logging the model.
GRACE_SECONDS = 60.0
STOP_GRACE_SECONDS = 5.0  # from SIGTERM to SIGKILL: time for a checkpoint
# Airflow gives `on_kill` five seconds before it kills the task process itself.
KILL_GRACE_SECONDS = 3.0
# A result is there but the process is not gone (a library hangs at exit).
EXIT_SECONDS = 5.0
MAX_LOG_BYTES = 8 * 1024**2  # of one attempt copied into Airflow's task log


class TrainerHook(BaseHook):
    """Starts, watches and ends the trainer of one assignment.

    The hook keeps nothing on disk: a second hook on the same assignment finds the same trainer.
    """

    def __init__(self, service: Service, assignment: Assignment) -> None:
        super().__init__()
        from easeml_core.workorder import WorkOrder

        self.service = service
        self.assignment = assignment
        self.stopped: Stop | None = None
        self.folder = Path(assignment.order_path).parent
        self.order = WorkOrder.read(Path(assignment.order_path))
        self._ref: TrainerRef | None = None
        self._log_offset = 0
        self._log_tail = ""

    def start(self) -> TrainerRef:
        """Take the lease from `leased` to `running` and start the trainer, or find it.

        Raises FencedError when the attempt is no longer ours, TemporaryError when nothing came up; both
        leave no trainer of ours behind that would run on.
        """
        from easeml_core.service import settle, trainer

        settle.begin(self.service, self.assignment.trial_id, self.assignment.attempt)
        self._ref = trainer.start(Path(self.assignment.order_path), self.service.settings)
        return self._ref

    def is_running(self, ref: TrainerRef) -> bool:
        """Whether that trainer still runs."""
        from easeml_core.service import trainer

        return trainer.is_running(ref)

    def watch(self, ref: TrainerRef) -> Stop | None:
        """Block until the trainer is gone, streaming its log; returns why it was ended, None: by itself.

        Holds the leash and the lease meanwhile. Any exception (say, a broken task log) leaves the trainer
        running, for the next try of the task to attach to, or for its leash to end.
        """
        from easeml_core.service import processes, trainer
        from easeml_core.workorder import RESULT_FILE

        self._ref = ref
        a = self.assignment
        interval = min(RENEW_SECONDS, self.service.settings.lease_seconds / 4)
        keeper = LeaseKeeper(
            self.service, a.trial_id, a.attempt, interval=interval, mlflow_run_id=self.mlflow_run_id
        )
        result_since: float | None = None
        with keeper:
            while True:
                trainer.touch_leash(self.folder)
                gone = trainer.wait(ref, LOOK_SECONDS)
                self.stream_log(last=gone)
                if gone:
                    processes.end_session(ref.pid, ref.started, 0.0)  # what it may have left behind
                    return self.stopped
                # `self.stopped` again: Airflow's signal may come before there is a trainer to end.
                if reason := self.stopped or keeper.verdict or self._past_deadline(ref):
                    self.stop(reason)
                elif (self.folder / RESULT_FILE).exists():
                    result_since = result_since or time.monotonic()
                    if time.monotonic() - result_since > EXIT_SECONDS:
                        self.log.warning("the trainer left its result but does not end; ending it")
                        trainer.stop(ref, grace=0.0)

    def stop(self, reason: Stop, *, grace: float | None = None) -> None:
        """End the trainer and all that it started: SIGTERM, `grace` seconds (5), SIGKILL. Idempotent.

        Safe in a signal handler, and before `start` returned: then the trainer is looked for on disk. Of one
        that has ended already only leftovers are ended: how it ended stays its own.
        """
        from easeml_core.service import processes, trainer
        from easeml_core.workorder import Outcome

        self.stopped = self.stopped or reason
        ref = self._ref or self._find()
        if ref is None:
            return
        if not trainer.is_running(ref):
            processes.end_session(ref.pid, ref.started, 0.0)
            return
        outcome = Outcome.DEADLINE if reason is Stop.DEADLINE else Outcome.INTERRUPTED
        self.log.warning("ending trainer %d: %s", ref.pid, _WHY[reason])
        grace = STOP_GRACE_SECONDS if grace is None else grace
        trainer.stop(ref, grace, outcome=outcome, reason=_WHY[reason])

    def stream_log(self, *, last: bool = False) -> None:
        """Copy what is new in the trainer's log to the task log, whole lines only unless it is the `last`."""
        from easeml_core.service import trainer

        if self._log_offset > MAX_LOG_BYTES:
            return
        text, self._log_offset = trainer.read_log(self.folder, self._log_offset)
        *lines, self._log_tail = (self._log_tail + text).split("\n")
        if last and self._log_tail:
            lines.append(self._log_tail)
            self._log_tail = ""
        for line in lines:
            self.log.info("%s", line.rstrip("\r"))
        if self._log_offset > MAX_LOG_BYTES:
            self.log.warning("the trainer is talkative; the rest of its log is in %s/log.txt", self.folder)

    def mlflow_run(self) -> dict[str, Any]:
        """What the trainer said of its MLflow run; empty before there is one."""
        from easeml_core.workorder import RUN_FILE, read_json

        return read_json(self.folder / RUN_FILE) or {}

    def mlflow_run_id(self) -> str | None:
        """The MLflow run of this attempt, as soon as it exists."""
        return self.mlflow_run().get("mlflow_run_id")

    def _find(self) -> TrainerRef | None:
        from easeml_core.service import trainer
        from easeml_core.workorder import read_json

        known = read_json(self.folder / trainer.TRAINER_FILE)
        return trainer.TrainerRef(known["pid"], known["started"], str(self.folder)) if known else None

    def _past_deadline(self, ref: TrainerRef) -> Stop | None:
        late = time.time() - ref.started > self.order.limit_seconds + GRACE_SECONDS
        return Stop.DEADLINE if late else None


_WHY = {
    Stop.CANCELLED: "the task was cancelled",
    Stop.FENCED: "the lease of this attempt is gone",
    Stop.DEADLINE: "it ran past its time limit and did not end itself",
    Stop.KILLED: "Airflow took its task away",
}
