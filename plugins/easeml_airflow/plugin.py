"""What Airflow loads from the plugins folder; everything else is imported as `easeml_airflow.…`."""

from __future__ import annotations

from airflow.plugins_manager import AirflowPlugin

from easeml_airflow import listeners


class EasemlPlugin(AirflowPlugin):
    """Registers the listener; operators and triggers are found by their import paths."""

    name = "easeml"
    listeners = [listeners]  # noqa: RUF012  (the type of Airflow's attribute)
