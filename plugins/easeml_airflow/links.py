"""Buttons on a train task that lead into MLflow. Airflow works them out once, when the task has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
from airflow.sdk import BaseOperatorLink

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator
    from airflow.sdk.types import TaskInstanceKey


@attrs.define
class MlflowRunLink(BaseOperatorLink):
    """To the attempt's MLflow run: parameters, curves, log of the search."""

    name = "MLflow run"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """URL of the run; empty (no button) where the trainer never got as far as one."""
        from easeml_core.naming import MLFLOW_VIEW

        hook = operator.hook  # type: ignore[attr-defined]
        run = hook.mlflow_run()
        if not run.get("mlflow_run_id"):
            return ""
        # MLflow's page finds a run by its id alone; the experiment only fills the bread crumbs.
        experiment = run.get("experiment_id", "0")
        page = f"{hook.service.settings.shown_mlflow_url()}/#/experiments/{experiment}/runs"
        return f"{page}/{run['mlflow_run_id']}{MLFLOW_VIEW}"


@attrs.define
class ChampionLink(BaseOperatorLink):
    """To the task's registered model: its versions and which one is the champion."""

    name = "Task's champion"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """URL of the registered model of the task that this trial belongs to."""
        from easeml_core.naming import MLFLOW_VIEW, TaskName

        hook = operator.hook  # type: ignore[attr-defined]
        name = TaskName(hook.order.tenant, hook.order.task)
        return f"{hook.service.settings.shown_mlflow_url()}/#/models/{name.model}{MLFLOW_VIEW}"
