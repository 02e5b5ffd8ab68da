"""Airflow's LocalExecutor, with workers that go on sharing the scheduler's memory."""

from __future__ import annotations

import gc

from airflow.executors.local_executor import LocalExecutor


class SharingLocalExecutor(LocalExecutor):
    """Forks workers from objects that the scheduler's collector leaves alone for good.

    The base class lets its collector at them again after the fork; its next full collection writes to
    all of them, and the kernel copies every page (100 MB) that scheduler and workers shared.
    """

    def _spawn_workers_with_gc_freeze(self, spawn_number: int) -> None:
        gc.collect()
        gc.freeze()
        for _ in range(spawn_number):
            self._spawn_worker()
