"""Answers prediction requests with each task's champion."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, task
from easeml_airflow.assets import woken_by_requests

DOC = """
### From `infer/<request>/` to `predictions/<request>.csv`

Woken by the bucket when a request has settled, and every two minutes besides. A request of a task that has
no champion yet waits; one that cannot be read is refused in the task's `status.md`. Running it by hand is
always safe.
"""

with DAG(
    "easeml_infer",
    description="Predicts with the champions",
    doc_md=DOC,
    tags={"easeml", "bucket"},
    schedule=woken_by_requests(),
    max_active_runs=1,
    catchup=False,
):

    @task(retries=3, retry_delay=timedelta(seconds=5), doc_md="Answers every request that has settled.")
    def infer() -> dict[str, int]:
        """Answer what is ready; returns how many became what."""
        from easeml_core.service import Service
        from easeml_core.service.infer import run_inference

        report = run_inference(Service.from_environment()).as_dict()
        print(report)  # all names go to the log, only their numbers through XCom
        return {what: len(prefixes) for what, prefixes in report.items()}

    infer()
