"""Keeps an attempt's lease alive beside the loop that watches its trainer."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from enum import StrEnum
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from easeml_core.service import Service

log = logging.getLogger(__name__)


class Stop(StrEnum):
    """Why a trainer is ended before it ends itself."""

    CANCELLED = "cancelled"  # by its tenant
    FENCED = "fenced"  # the lease went to a later attempt
    DEADLINE = "deadline"  # ran far past its limit without ending itself
    KILLED = "killed"  # Airflow took the task away


class LeaseKeeper:
    """Renews one attempt's lease every `interval` seconds, from a thread of its own, while it is entered.

    A thread, because a ledger that is away for a while must keep nobody from streaming the log, touching
    the leash and watching the clock. Each renewal opens and closes its own connection. An outage is only
    logged: whether the lease outlived it is the ledger's to say, at the next renewal that comes through.

    `verdict` is set once, when the attempt must stop: `Stop.CANCELLED` or `Stop.FENCED`.
    """

    def __init__(
        self,
        service: Service,
        trial_id: int,
        attempt: int,
        *,
        interval: float,
        mlflow_run_id: Callable[[], str | None],
    ) -> None:
        self.verdict: Stop | None = None
        self._service = service
        self._trial_id = trial_id
        self._attempt = attempt
        self._interval = interval
        self._mlflow_run_id = mlflow_run_id
        self._leave = threading.Event()
        self._away = False
        self._thread = threading.Thread(target=self._keep, name="lease-keeper", daemon=True)

    def __enter__(self) -> LeaseKeeper:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Not joined: a renewal that waits for a dead server would hold up the task's end, and one that
        # comes through late changes nothing that settling minds.
        self._leave.set()

    def _keep(self) -> None:
        while self.verdict is None and not self._leave.wait(self._interval):
            self._renew()

    def _renew(self) -> None:
        from easeml_core.errors import FencedError
        from easeml_core.service import settle

        try:
            settle.renew(self._service, self._trial_id, self._attempt, mlflow_run_id=self._mlflow_run_id())
            if settle.cancelled(self._service, self._trial_id):
                self.verdict = Stop.CANCELLED
        except FencedError as error:
            if not self._leave.is_set():
                log.warning("the lease is gone: %s", error)
            self.verdict = Stop.FENCED
        except Exception as error:
            if not self._away:
                log.warning("could not renew the lease, will go on trying: %s", error)
            self._away = True
        else:
            if self._away:
                log.info("the lease is renewed again")
            self._away = False
