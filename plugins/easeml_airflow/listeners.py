"""Warms the scheduler, from which the LocalExecutor forks its workers, and those every task."""

from __future__ import annotations

import importlib
import logging
import sys

from airflow.listeners import hookimpl

log = logging.getLogger(__name__)

# What Airflow imports in each task's process before it runs, and what the tasks of our DAGs import inside
# `execute()`. None of it starts a thread or opens a connection at import, so it is safe to fork; torch and
# mlflow stay out, they live in the trainer.
LIGHT_MODULES = (
    "airflow.dag_processing.dagbag",
    "airflow.sdk.execution_time.supervisor",
    "airflow.sdk.execution_time.task_runner",
    "airflow.sdk.execution_time.timeout",
    "numpy",
    "numpy.ma",  # numpy imports it with the first median
    "encodings.idna",  # and Python with the first URL
    "psycopg2",
    "sqlalchemy.dialects.postgresql.psycopg2",
    "easeml_core.service.decide",
    "easeml_core.service.settle",
    "easeml_core.service.trainer",
    "easeml_core.service.status",
    "easeml_core.service.intake",
    "easeml_core.service.infer",
    "easeml_core.bucket.local",
    "easeml_core.ledger.reports",
    "easeml_core.ledger.uploads",
    "easeml_airflow.operators",
)


def warm() -> list[str]:
    """Import `LIGHT_MODULES`; returns those that could not be (their task will say why, with its log)."""
    missing = []
    for name in LIGHT_MODULES:
        try:
            importlib.import_module(name)
        except Exception:
            log.exception("could not import %s ahead of the tasks that need it", name)
            missing.append(name)
    return missing


@hookimpl
def on_starting(component: object) -> None:
    """Import ahead in the scheduler's own process only: no other component forks our tasks.

    A task, forked from it, calls this too, and has the scheduler's arguments; it is not a `Job`.
    """
    if "scheduler" in sys.argv[1:2] and type(component).__name__ == "Job":
        warm()
