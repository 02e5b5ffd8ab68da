"""The assets whose watchers wake our DAGs, and the slow timetable that is the net under them."""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import Asset, AssetOrTimeSchedule, AssetWatcher
from airflow.sdk.definitions.timetables.trigger import DeltaTriggerTimetable

from easeml_airflow.triggers import BucketWakeTrigger

NET = timedelta(minutes=2)  # a lost event costs a tenant this long at most


def _watched(name: str, kind: str) -> Asset:
    from easeml_core.settings import Settings

    trigger = BucketWakeTrigger(kind=kind, poll_seconds=Settings().poll_seconds)
    return Asset(name, watchers=[AssetWatcher(name=f"{name}_watcher", trigger=trigger)])


def woken_by_uploads() -> AssetOrTimeSchedule:
    """Schedule of the intake: settled task folders, else every `NET`."""
    return AssetOrTimeSchedule(
        assets=[_watched("easeml_uploads", "task")], timetable=DeltaTriggerTimetable(NET)
    )


def woken_by_requests() -> AssetOrTimeSchedule:
    """Schedule of inference: settled folders under `infer/`, else every `NET`."""
    return AssetOrTimeSchedule(
        assets=[_watched("easeml_requests", "infer")], timetable=DeltaTriggerTimetable(NET)
    )
