"""Airflow's LocalExecutor, with workers that share the scheduler's memory and outlive its pipes."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from airflow.executors.local_executor import LocalExecutor

from easeml_core.settings import MIB, Settings

WORKER_LOG = "workers.log"
_LARGEST_LOG = 10 * MIB


class SharingLocalExecutor(LocalExecutor):
    """Forks workers from objects that the scheduler's collector leaves alone for good.

    The base class lets its collector at them again after the fork; its next full collection writes to
    all of them, and the kernel copies every page (100 MB) that scheduler and workers shared.
    """

    def _spawn_workers_with_gc_freeze(self, spawn_number: int) -> None:
        gc.collect()
        gc.freeze()
        with _output_to_a_file():
            for _ in range(spawn_number):
                self._spawn_worker()


@contextmanager
def _output_to_a_file() -> Iterator[None]:
    """Give processes forked meanwhile a log file for standard output and error.

    The scheduler's own output is a pipe, which its supervisor closes when the scheduler dies. A worker
    that wrote to it would fail then, and with it the running task, which has nothing to do with that.
    """
    path = Settings().logs_dir / WORKER_LOG
    path.parent.mkdir(parents=True, exist_ok=True)
    too_large = path.exists() and path.stat().st_size > _LARGEST_LOG
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | (os.O_TRUNC if too_large else 0), 0o644)
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    try:
        os.dup2(log, 1)
        os.dup2(log, 2)
        yield
    finally:
        for descriptor, number in zip(kept, (1, 2), strict=True):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.close(log)
