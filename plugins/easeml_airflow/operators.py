"""The three steps that keep a device busy: decide, train, settle.

Thin: what they do is in `easeml_core.service`, what a trainer's process needs is in `TrainerHook`. Between
them passes one small assignment (ids and the path of the work order), never a score: a NaN in an XCom would
break the run, and results belong into the ledger.

A failed *trial* is a result and its run is green. A run is red only where the machinery failed: no lease, no
trainer, no ledger. After three red runs in a row Airflow pauses the device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator, ResumableJobMixin
from airflow.sdk.exceptions import AirflowException, AirflowFailException, DownstreamTasksSkipped

from easeml_airflow.handover import follow_up, hand_over, start_next
from easeml_airflow.hooks import KILL_GRACE_SECONDS, TrainerHook
from easeml_airflow.leases import Stop
from easeml_airflow.links import ChampionLink, MlflowRunLink

if TYPE_CHECKING:
    from airflow.sdk import Context

    from easeml_core.service import Service
    from easeml_core.service.decide import Assignment
    from easeml_core.workorder import TrialResult


def _assignment(fields: dict[str, Any]) -> Assignment:
    from easeml_core.service.decide import Assignment

    return Assignment(**fields)


class DecideOperator(BaseOperator):
    """Asks the allocator what `device` trains next, leases it, and hands on the assignment.

    Where the train step before it has handed the device over, the assignment is there already. The trainer
    is started here, if it was not then, for the train step to attach to: it forks, opens its data and
    computes while Airflow is busy scheduling. Whatever becomes of that step, an attempt runs once, and a
    trainer that nobody comes for in time ends itself (`start_next`).

    With nothing to do it waits inside the task, for the settings' `decide_wait_seconds`, to be woken at once
    when work arrives; then it skips the steps after it, at no cost.
    """

    ui_color = "#e8f0fe"
    template_fields = ("device",)

    def __init__(self, *, device: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.device = device

    def execute(self, context: Context) -> dict[str, Any]:
        """Return the assignment as JSON-ready fields, or skip all that follows."""
        from dataclasses import asdict

        from easeml_core.service import Service

        service = Service.from_environment()
        assignment = start_next(service, self.device, service.settings.decide_wait_seconds)
        if assignment is None:
            self.log.info("nothing to train on %s now", self.device)
            raise DownstreamTasksSkipped(tasks=sorted(self.get_flat_relative_ids(upstream=False)))
        return asdict(assignment)


class TrainModelOperator(ResumableJobMixin, BaseOperator):
    """Runs the trainer of one assignment, started by the decide step as a rule, and waits for its end.

    Blocking, because a deferred task costs two seconds more per trial. A worker that dies leaves the trainer
    running; the next try of the task attaches to it. An attempt is never started twice: where its trainer has
    ended meanwhile, however it ended, that end is what is settled.

    When its trainer has ended by itself, this step settles the trial and hands the device over to the next
    one at once (`hand_over`), and skips the settle step, which is for all other ends.

    `assignment` is what `DecideOperator` returned. Returns `{"trial_id", "attempt", "stopped"}` for the
    settle step; `stopped` is a `Stop`, or None where the trainer ended by itself. Raises when Airflow takes
    the task away.
    """

    ui_color = "#e6f4ea"
    template_fields = ("assignment",)
    external_id_key = "trainer"
    operator_extra_links = (MlflowRunLink(), ChampionLink())

    def __init__(self, *, assignment: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.assignment = assignment
        self._hook: TrainerHook | None = None

    @property
    def hook(self) -> TrainerHook:
        """The hook of this assignment (made when first used: never at parse time)."""
        if self._hook is None:
            from easeml_core.service import Service

            self._hook = TrainerHook(Service.from_environment(), _assignment(self.assignment))
        return self._hook

    def execute(self, context: Context) -> dict[str, Any]:
        """Start the trainer or attach to it; see the class."""
        from easeml_core.errors import FencedError

        a, order = self.hook.assignment, self.hook.order
        self.log.info(
            "trial %d, attempt %d: %s/%s, %s on %s (log in %s)",
            a.trial_id,
            a.attempt,
            order.tenant,
            order.task,
            order.candidate,
            order.device,
            self.hook.folder,
        )
        try:
            outcome: dict[str, Any] = self.execute_resumable(context)
        except FencedError as error:
            # Somebody else has the trial: theirs is the result, and there is nothing wrong with us.
            self.log.warning("not ours any more: %s", error)
            self.hook.stop(Stop.FENCED)
            return self._outcome()
        if self.hook.stopped is None and self._hand_over(context):
            raise DownstreamTasksSkipped(tasks=sorted(self.get_flat_relative_ids(upstream=False)))
        return outcome

    def submit_job(self, context: Context) -> dict[str, Any]:
        """Start the trainer; its pid, start time and folder are what a later try attaches to."""
        return self.hook.start().as_dict()

    def get_job_status(self, external_id: Any, context: Context) -> str:
        """`running` or `ended`."""
        return "running" if self.hook.is_running(_ref(external_id)) else "ended"

    def is_job_active(self, status: str) -> bool:
        """Whether to attach."""
        return status == "running"

    def is_job_succeeded(self, status: str) -> bool:
        """An ended attempt is over, also one that failed: it is settled, not repeated."""
        return status == "ended"

    def poll_until_complete(self, external_id: Any, context: Context) -> dict[str, Any]:
        """Watch the trainer to its end. Returns the result, for Airflow's attaching path uses it."""
        self.hook.watch(_ref(external_id))
        return self._outcome()

    def get_job_result(self, external_id: Any, context: Context) -> dict[str, Any]:
        """What is handed on to settle; copies what the log has left where nobody watched the end."""
        self.hook.stream_log(last=True)
        return self._outcome()

    def on_kill(self) -> None:
        """End the trainer and everything it started, before Airflow ends this process."""
        self.hook.stop(Stop.KILLED, grace=KILL_GRACE_SECONDS)

    def _hand_over(self, context: Context) -> bool:
        """Whether the trial is settled, and nothing is left to do for the steps after this one."""
        try:
            return hand_over(self.hook, context)
        except Exception:  # of ledger, standby or Airflow: the next steps try again and report it
            self.log.warning("the device was not handed over; the next steps do it", exc_info=True)
            return False

    def _outcome(self) -> dict[str, Any]:
        stopped = self.hook.stopped
        if stopped is Stop.KILLED:
            raise AirflowException("Airflow took this task away; its trainer was ended")
        a = self.hook.assignment
        return {"trial_id": a.trial_id, "attempt": a.attempt, "stopped": stopped}


class SettleOperator(BaseOperator):
    """Writes an attempt's end into the ledger, and has the champion and the tenant's status follow.

    Skipped where the train step has done so. Else it runs whatever happened before it, and again after a
    crash, with the same effect: the ledger refuses a second settlement of an attempt, promotion and status
    are idempotent. An attempt that was given up before counts for nothing, and is no fault either.

    `assignment` is what `DecideOperator` returned (None where it failed), `trained` what
    `TrainModelOperator` returned (None where it failed). Returns the trial's state. Raises, after all is
    settled, where training failed for a reason of the machinery, so that the run shows it.
    """

    ui_color = "#fef7e0"
    template_fields = ("assignment", "trained")

    def __init__(self, *, assignment: Any, trained: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.assignment = assignment
        self.trained = trained

    def execute(self, context: Context) -> str | None:
        """Settle; see the class."""
        from easeml_core.errors import FencedError
        from easeml_core.service import Service, settle

        if not self.assignment:
            raise AirflowException("no assignment: see the decide step's log")
        service = Service.from_environment()
        a = _assignment(self.assignment)
        result = self._result(service, a)
        try:
            settlement = settle.settle(service, a.trial_id, a.attempt, result)
        except FencedError as error:
            # The trial went on without this attempt; whoever has it now settles it.
            self.log.warning("%s", error)
            return None
        follow_up(service, settlement)
        if not self.trained:
            raise AirflowException("the train step failed for a reason of the machinery: see its log")
        if result is not None and result.fault:
            raise AirflowFailException(f"the installation is at fault, not the trial: {result.reason}")
        return str(settlement.state)

    def _result(self, service: Service, assignment: Assignment) -> TrialResult | None:
        """What the attempt left; None where even its folder is gone."""
        from easeml_core.service import trainer

        try:
            hook = TrainerHook(service, assignment)
        except FileNotFoundError as error:
            self.log.warning("the work order is gone: %s", error)
            return None
        # Nobody watches any more: a trainer that still runs is one that the train step lost.
        hook.stop(Stop.KILLED)
        result = trainer.collect(hook.folder)
        self.log.info("%s%s", result.outcome, f": {result.reason}" if result.reason else "")
        return result


def _ref(fields: Any) -> Any:
    from easeml_core.service.trainer import TrainerRef

    return TrainerRef(**fields)
