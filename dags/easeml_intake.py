"""Takes what tenants put into the bucket: validates, stages, registers, and says so in the bucket."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, task
from easeml_airflow.assets import woken_by_uploads

DOC = """
### From an uploaded folder to an accepted task

Woken by the bucket when an upload has settled, and every two minutes besides. A run lists the bucket itself
and takes all that is ready, each upload by itself: a bad one is rejected in its own `status.md`, with every
problem, and stops nobody else.

Running it by hand is always safe: the same bytes are nothing new.
"""

with DAG(
    "easeml_intake",
    description="Validates and registers what tenants upload",
    doc_md=DOC,
    tags={"easeml", "bucket"},
    schedule=woken_by_uploads(),
    max_active_runs=1,
    catchup=False,
):

    @task(retries=3, retry_delay=timedelta(seconds=5), doc_md="Takes every upload that has settled.")
    def intake() -> dict[str, int]:
        """Take what is ready; returns how many became what."""
        from easeml_core.service import Service
        from easeml_core.service.intake import run_intake

        report = run_intake(Service.from_environment()).as_dict()
        print(report)  # all names go to the log, only their numbers through XCom
        return {what: len(prefixes) for what, prefixes in report.items()}

    intake()
