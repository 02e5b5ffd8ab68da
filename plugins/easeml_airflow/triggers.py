"""What wakes the intake and inference DAGs: the bucket itself, looked at again and again.

The trigger is *level-triggered*: it fires when something is ready, and again every few seconds while it
stays ready. It remembers nothing that matters, so a restarted triggerer just looks again; events that
Airflow coalesces or strands are repeated; and the payload is only a hint, for the run lists the bucket
itself, by the same code (`easeml_core.service.intake.scan_uploads`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterable
from typing import Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

log = logging.getLogger(__name__)

CPU_SHARE = 0.1  # of one core, at most, for looking at the bucket
MAX_BACKOFF = 30.0  # seconds between looks while the bucket or the database is away
MAX_PREFIXES = 20  # named in one event; it is a hint, not a manifest


def look() -> dict[str, list[str]]:
    """Look at the bucket once: prefixes that are ready, by kind (`task`, `infer`); blocking.

    Settling is decided here, by `scan_uploads`, which records in the ledger what it saw and since when.
    """
    from easeml_core.service import Service
    from easeml_core.service.intake import scan_uploads

    ready: dict[str, list[str]] = {}
    for listing in scan_uploads(Service.from_environment()):
        ready.setdefault(listing.kind, []).append(listing.prefix)
    return ready


class BucketWakeTrigger(BaseEventTrigger):
    """Fires while uploads of one kind are ready to be taken.

    All instances share one look at the bucket (Airflow's shared streams): a second kind costs no second
    listing. Between two looks pass `poll_seconds`, or more where looking is dear: never more than a tenth
    of a core goes into it, and never more than half of the time.

    `kind` is `task` (specs and feeds) or `infer`; `nag_seconds` is how soon an event is repeated while its
    cause is still there.
    """

    def __init__(self, kind: str, poll_seconds: float = 1.0, nag_seconds: float = 5.0) -> None:
        super().__init__()
        self.kind = kind
        self.poll_seconds = poll_seconds
        self.nag_seconds = nag_seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Class path and arguments; they are also the trigger's identity."""
        return (
            "easeml_airflow.triggers.BucketWakeTrigger",
            {"kind": self.kind, "poll_seconds": self.poll_seconds, "nag_seconds": self.nag_seconds},
        )

    def shared_stream_key(self) -> tuple[str, float]:
        """Triggers that look equally often share one look."""
        return ("easeml-bucket", self.poll_seconds)

    @classmethod
    async def open_shared_stream(cls, kwargs: dict[str, Any]) -> AsyncIterator[dict[str, list[str]]]:
        """What is ready, by kind, after each look; goes on for ever, whatever is away."""
        poll = float(kwargs["poll_seconds"])
        failures = 0
        while True:
            started = time.monotonic()
            try:
                ready, cpu = await asyncio.to_thread(_timed_look)
            except Exception as error:
                failures += 1
                pause = min(poll * 2**failures, MAX_BACKOFF)
                # One line per failure, the trace once: an outage must not fill the disk.
                log.warning(
                    "cannot look at the bucket (%s: %s); again in %.0f s",
                    type(error).__name__,
                    str(error).partition("\n")[0],
                    pause,
                    exc_info=failures == 1,
                )
                await asyncio.sleep(pause)
                continue
            if failures:
                log.warning("looking at the bucket works again after %d failures", failures)
                failures = 0
            took = time.monotonic() - started
            yield ready
            await asyncio.sleep(max(poll, cpu * (1 / CPU_SHARE - 1), took))

    async def filter_shared_stream(
        self, shared_stream: AsyncIterator[dict[str, list[str]]]
    ) -> AsyncIterator[TriggerEvent]:
        """Turn looks into events: one when the set of ready prefixes changes, then one per nag."""
        told: frozenset[str] = frozenset()
        told_at = 0.0
        async for look_ in shared_stream:
            ready = frozenset(look_.get(self.kind, ()))
            news = not ready <= told
            nag = time.monotonic() - told_at >= self.nag_seconds
            if ready and (news or nag):
                told_at = time.monotonic()
                yield TriggerEvent(_payload(self.kind, ready))
            if ready != told:
                told = ready

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """The same without sharing, for a triggerer that runs this trigger alone."""
        stream = self.open_shared_stream(self.serialize()[1])
        async for event in self.filter_shared_stream(stream):
            yield event


def _timed_look() -> tuple[dict[str, list[str]], float]:
    """`look()`, and the CPU seconds of this thread that it took."""
    started = time.thread_time()
    return look(), time.thread_time() - started


def _payload(kind: str, ready: Iterable[str]) -> dict[str, Any]:
    prefixes = sorted(ready)
    return {"kind": kind, "ready": len(prefixes), "prefixes": prefixes[:MAX_PREFIXES]}
