"""Cleans up after whatever died: leases, MLflow runs, old work."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, task
from airflow.sdk.definitions.timetables.trigger import DeltaTriggerTimetable

DOC = """
### Housekeeping, every two minutes

Gives up leases that nobody renews, closes MLflow runs whose trainer is gone, repeats promotions and status
files that a crash cut short, has champions scored on new data, offers tasks what the catalogue has gained,
and removes what is no longer needed. Once a day it dumps the databases into `backups/` and clears Airflow's
old logs and rows. Running it by hand is always safe.
"""

with DAG(
    "easeml_maintain",
    description="Expired leases, orphaned runs, retention",
    doc_md=DOC,
    tags={"easeml"},
    schedule=DeltaTriggerTimetable(timedelta(minutes=2)),
    max_active_runs=1,
    catchup=False,
):

    @task(retries=1, retry_delay=timedelta(seconds=10), doc_md="One round of housekeeping.")
    def sweep() -> dict[str, Any]:
        """One round; returns a small summary."""
        from easeml_core.service import Service, maintain

        return maintain.sweep(Service.from_environment()).as_dict()

    sweep()
