"""Signs of life of a running attempt, and every way it may be asked to stop.

One thread writes the heartbeat about once a second and looks at the leash and the clock. The training
loop asks `check()` between batches; code that cannot ask (a scikit-learn fit) runs inside
`interruptible()`, where a request to stop is raised from the signal handler. Native code that neither
returns nor lets signals through is ended from the thread, after its result has been written.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from easeml_core.workorder import HEARTBEAT_FILE, LEASH_FILE, Outcome, WorkOrder, write_atomically
from training.memory import peak_memory_bytes

log = logging.getLogger("training")

BEAT_SECONDS = 1.0
HARD_SECONDS = 30.0  # from a request to stop to the end by force


class Stopped(BaseException):
    """The attempt has to end now. Not an Exception: no candidate's own handler may swallow it."""

    def __init__(self, outcome: Outcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome
        self.reason = reason


class Unwatched:
    """What a process that follows another one has for a watch: it is not it that is asked to stop."""

    compute_seconds = 0.0
    epoch = 0

    def check(self) -> None:
        """Nothing stops a follower but its end."""


class Watch:
    """Watches one attempt from its main thread; use as a context manager.

    The order's limit is for this attempt: what earlier ones computed is already taken off.
    `by_force(outcome, reason)` is called from the watching thread before the process is ended; it must
    leave the result.
    """

    def __init__(
        self, order: WorkOrder, folder: Path, by_force: Callable[[Outcome, str], None] | None = None
    ) -> None:
        self.order = order
        self.folder = folder
        self.phase = "starting"
        self.epoch = 0
        self.message = ""
        self._by_force = by_force
        self._begun = time.monotonic()
        self._stop: Stopped | None = None
        self._stop_time = 0.0
        self._raise_at_once = False
        self._leaving = False
        self._done = threading.Event()
        # Run by hand, nobody touches a leash and none is needed; started by the service, it is there.
        self._leashed = (folder / LEASH_FILE).exists()

    @property
    def compute_seconds(self) -> float:
        """Seconds since this attempt began."""
        return time.monotonic() - self._begun

    def __enter__(self) -> Watch:
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGUSR1, self._on_signal)  # the thread's way to reach the main thread
        self._beat()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join(timeout=5.0)
        self.phase = "done"
        self._beat()

    def enter(self, phase: str, message: str = "") -> None:
        """Note which phase begins: starting, data, training, logging."""
        self.phase, self.message = phase, message

    def leave(self) -> None:
        """The result is being written: too late to stop, and nothing is left to interrupt."""
        self._leaving = True

    def check(self) -> None:
        """Raise Stopped if the attempt has been asked to stop; cheap enough for every batch."""
        if self._stop is not None:
            raise self._stop
        if self._over_limit():
            self._request(Outcome.DEADLINE, self._limit_reason())
            self.check()

    def accept(self) -> None:
        """The request to stop has been dealt with (the best so far is used): what follows may finish."""
        self._stop = None
        self._leaving = True

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Raise Stopped right where a request to stop arrives; only around code that leaves no traces."""
        self.check()
        self._raise_at_once = True
        try:
            yield
        finally:
            self._raise_at_once = False

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGTERM:
            self._request(Outcome.INTERRUPTED, "asked to stop (SIGTERM)")
        if self._raise_at_once and self._stop is not None:
            self._raise_at_once = False
            raise self._stop

    def _request(self, outcome: Outcome, reason: str) -> None:
        if self._stop is None and not self._leaving:
            self._stop, self._stop_time = Stopped(outcome, reason), time.monotonic()
            log.info("stopping: %s", reason)

    def _over_limit(self) -> bool:
        return self.compute_seconds > self.order.limit_seconds and not self._leaving

    def _limit_reason(self) -> str:
        return f"computed longer than its limit of {self.order.limit_seconds:g} s"

    def _leash_expired(self) -> bool:
        if not self._leashed:
            return False
        with suppress(FileNotFoundError):
            age = time.time() - (self.folder / LEASH_FILE).stat().st_mtime
            return age > self.order.leash_seconds
        return True

    def _run(self) -> None:
        pause = min(BEAT_SECONDS, self.order.leash_seconds / 4, self.order.limit_seconds / 4)
        while not self._done.wait(pause):
            with suppress(OSError, MemoryError):  # neither a full disk nor a full memory ends the watch
                self._beat()
            if self._leaving:
                continue
            if self._leash_expired():
                self._request(Outcome.INTERRUPTED, "nobody waits for this trainer any more (leash expired)")
            if self._over_limit():
                self._request(Outcome.DEADLINE, self._limit_reason())
            if self._stop is None:
                continue
            if self._raise_at_once:
                os.kill(os.getpid(), signal.SIGUSR1)
            if time.monotonic() - self._stop_time > HARD_SECONDS and self._by_force is not None:
                try:
                    self._by_force(self._stop.outcome, self._stop.reason)
                finally:
                    os.killpg(os.getpgid(0), signal.SIGKILL)

    def _beat(self) -> None:
        beat = {
            "pid": os.getpid(),
            "time": time.time(),
            "phase": self.phase,
            "epoch": self.epoch,
            "compute_seconds": self.compute_seconds,
            "message": self.message or f"peak memory {peak_memory_bytes() / 1e9:.2f} GB",
        }
        write_atomically(self.folder / HEARTBEAT_FILE, json.dumps(beat))
