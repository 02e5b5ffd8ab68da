"""The DAGs load fast, pull in nothing heavy, and are wired as they should be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import LazyDeserializedDAG

REPO = Path(__file__).resolve().parents[2]

DAG_FILES = sorted((REPO / "dags").glob("*.py"))

# Prints what importing argv[1] cost beyond `airflow.sdk` and which modules came with it.
_PROBE = """
import json, runpy, sys, time
sys.path[:0] = [{repo!r}, {plugins!r}]
import airflow.sdk
before, started = set(sys.modules), time.process_time()
runpy.run_path(sys.argv[1])
seconds = time.process_time() - started
new = sorted(set(sys.modules) - before)
print(json.dumps({{"seconds": seconds, "new": new, "all": sorted(sys.modules)}}))
"""


@pytest.fixture
def bag(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> DagBag:
    monkeypatch.setenv("EASEML_HOME", str(tmp_path))
    monkeypatch.setenv("EASEML_DEVICES", "cpu0,gpu0")
    monkeypatch.setenv("EASEML_DEVICE_QUEUES", '{"gpu0": "host-a"}')
    return DagBag(str(REPO / "dags"))


@pytest.mark.parametrize("path", DAG_FILES, ids=lambda path: path.stem)
def test_importing_a_dag_is_light(path: Path, tmp_path: Path) -> None:
    probe = _PROBE.format(repo=str(REPO), plugins=str(REPO / "plugins"))
    out = subprocess.run(
        [sys.executable, "-c", probe, str(path)],
        env={**os.environ, "AIRFLOW_HOME": str(tmp_path), "EASEML_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    answer = json.loads(out.splitlines()[-1])
    assert answer["seconds"] < 1.0
    roots = {name.partition(".")[0] for name in answer["all"]}
    assert not roots & {"torch", "torchvision", "mlflow", "sklearn", "scipy", "pandas", "pyarrow"}
    new = {name.partition(".")[0] for name in answer["new"]}
    assert not new & {"psycopg2", "sqlalchemy", "numpy", "alembic"}


def test_every_file_gives_its_dags(bag: DagBag) -> None:
    assert bag.import_errors == {}
    assert set(bag.dags) == {
        "easeml_intake",
        "easeml_infer",
        "easeml_maintain",
        "easeml_allocate_cpu0",
        "easeml_allocate_gpu0",
    }


def test_every_dag_explains_itself(bag: DagBag) -> None:
    for dag in bag.dags.values():
        assert dag.doc_md is not None
        assert len(dag.doc_md.split()) > 30, dag.dag_id
        assert "easeml" in dag.tags
        assert all(task.doc_md for task in dag.tasks), dag.dag_id


def test_a_device_runs_one_trial_after_the_other(bag: DagBag) -> None:
    dag = bag.dags["easeml_allocate_gpu0"]
    assert dag.max_active_runs == 1
    assert dag.max_consecutive_failed_dag_runs == 3
    assert type(dag.timetable).__name__ == "ContinuousTimetable"
    assert dag.get_task("decide").downstream_task_ids == {"train", "settle"}
    assert dag.get_task("train").downstream_task_ids == {"settle"}
    assert dag.get_task("settle").trigger_rule == "all_done"
    # A worker that dies must not be the end of its trial.
    assert dag.get_task("train").retries >= 1
    assert dag.get_task("train").retry_delay <= timedelta(seconds=5)


def test_the_second_run_of_a_device_has_a_date_of_its_own(bag: DagBag) -> None:
    # Airflow refuses a second run of the same logical date, and a continuous DAG then stands still for ever.
    dag = LazyDeserializedDAG.from_dag(bag.dags["easeml_allocate_cpu0"])
    first = dag.next_dagrun_info(last_automated_run_info=None)
    second = dag.next_dagrun_info(last_automated_run_info=first)
    assert first.logical_date != second.logical_date


def test_a_devices_tasks_wait_in_the_queue_of_its_host(bag: DagBag) -> None:
    assert {task.queue for task in bag.dags["easeml_allocate_gpu0"].tasks} == {"host-a"}
    assert {task.queue for task in bag.dags["easeml_allocate_cpu0"].tasks} == {"default"}


@pytest.mark.parametrize(("dag_id", "kind"), [("easeml_intake", "task"), ("easeml_infer", "infer")])
def test_the_bucket_wakes_it_and_a_timetable_is_the_net(bag: DagBag, dag_id: str, kind: str) -> None:
    dag = bag.dags[dag_id]
    assert dag.max_active_runs == 1
    assert not dag.catchup
    assert dag.timetable.timetable.delta <= timedelta(minutes=5)
    (asset,) = dag.timetable.asset_condition.objects
    (watcher,) = asset.watchers
    path, arguments = watcher.trigger.serialize()
    assert path == "easeml_airflow.triggers.BucketWakeTrigger"
    assert arguments["kind"] == kind
    json.dumps(arguments)  # they are stored as JSON, and are the trigger's identity


def test_airflow_loads_the_plugin_and_nothing_else_from_the_folder() -> None:
    from airflow import plugins_manager

    plugins, errors = plugins_manager._get_plugins()
    assert errors == {}
    ours = [plugin for plugin in plugins if "$PLUGINS_FOLDER" in str(plugin.source)]
    assert [plugin.name for plugin in ours] == ["easeml"]
    assert "operators" not in sys.modules, "a module of the package was loaded under its bare name"
