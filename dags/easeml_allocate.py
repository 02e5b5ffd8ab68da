"""One DAG per device: decide what to train, train it, settle the result; again and again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, TriggerRule
from easeml_airflow.operators import DecideOperator, SettleOperator, TrainModelOperator

from easeml_core.naming import allocate_dag_id
from easeml_core.settings import Settings

DOC = """
### Keeps `{device}` busy

Each run is one trial: **decide** asks the allocator which tenant's which model to train next and leases the
device; **train** runs the trainer, shows its log, writes the result, promotes the task's best model, updates
the tenant's status and starts what the device trains next; **settle** does what train could not.

* **settle is skipped?** That is the normal, green run: train has settled its trial.
* **Nothing to do?** `decide` waits for work, then skips the rest. That is a normal, green run.
* **A trial failed?** Also green: a failed trial is a result (`easeml decisions`, the train task's log).
* **A red run** means the machinery failed: ledger, MLflow or trainer could not be reached. After three in a
  row this DAG pauses itself; mend the cause, then switch it on again.
* **Take the device out of service:** pause this DAG. The running trial ends first, no other device waits.
* **End one trial now:** mark its `train` task failed. Its trainer is ended, the trial is planned again.

Why a model was chosen: `easeml decisions`, or the note of the trial's MLflow run (button on the train task).
"""


def allocate(device: str, settings: Settings) -> DAG:
    """The DAG that keeps `device` busy."""
    dag = DAG(
        allocate_dag_id(device),
        description=f"Trains the next best model on {device}, for ever",
        doc_md=DOC.format(device=device),
        tags={"easeml", "device"},
        schedule="@continuous",
        # Without a start in the past, Airflow gives the first two runs the same logical date, refuses the
        # second, and never runs the DAG again.
        start_date=datetime(2018, 8, 27, tzinfo=UTC),
        max_active_runs=1,
        # A broken machine must not spin through runs.
        max_consecutive_failed_dag_runs=3,
        default_args={"retry_delay": timedelta(seconds=2), **_queue(device, settings)},
    )
    with dag:
        decide = DecideOperator(
            task_id="decide",
            doc_md="Asks the allocator what to train; waits a while if there is nothing.",
            device=device,
            retries=5,
            retry_exponential_backoff=True,
        )
        train = TrainModelOperator(
            task_id="train",
            doc_md="Runs the trainer, shows its log, settles the trial. Mark it failed to end its attempt.",
            assignment=decide.output,
            retries=3,
            # The last net, under the trainer's own limit and the hook's deadline.
            execution_timeout=timedelta(seconds=2 * settings.trial_limit_seconds + 600),
        )
        settle = SettleOperator(
            task_id="settle",
            doc_md="Settles the trial where train could not. Safe to repeat.",
            assignment=decide.output,
            trained=train.output,
            trigger_rule=TriggerRule.ALL_DONE,
            retries=5,
            retry_exponential_backoff=True,
        )
        decide >> train >> settle
    return dag


def _queue(device: str, settings: Settings) -> dict[str, str]:
    """The queue of the device's host; without one set, Airflow's default queue."""
    queue = settings.device_queues.get(device)
    return {"queue": queue} if queue else {}


_settings = Settings()
for _device in _settings.devices:
    globals()[allocate_dag_id(_device)] = allocate(_device, _settings)
