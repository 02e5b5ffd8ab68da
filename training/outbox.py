"""Sends what is to be logged from a thread of its own, in order, so that computing never waits for it."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

import tenacity

from easeml_core.errors import TemporaryError

log = logging.getLogger("training")

LONGEST_PAUSE = 5.0  # seconds between two tries while the server is away


class Outbox:
    """A queue of requests and the thread that makes them, one after the other.

    A request that ends in TemporaryError is made again, and those behind it wait: nothing overtakes. Any
    other error is kept for `drain` to raise; the requests behind it are made all the same.
    """

    def __init__(self) -> None:
        self._requests: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._closed = threading.Event()
        self._away: BaseException | None = None
        self._refused: Exception | None = None
        self._retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(TemporaryError),
            wait=tenacity.wait_exponential(multiplier=0.2, max=LONGEST_PAUSE),
            stop=tenacity.stop_when_event_set(self._closed),
            sleep=tenacity.sleep_using_event(self._closed),
            before_sleep=self._note,
            reraise=True,
        )
        threading.Thread(target=self._run, name="outbox", daemon=True).start()

    def put(self, request: Callable[[], None]) -> None:
        """Make a request when those before it have been answered; returns at once."""
        with self._changed:
            self._requests.append(request)
            self._changed.notify_all()

    def drain(self, seconds: float) -> None:
        """Wait until everything is sent.

        Raises TemporaryError where it is not after `seconds` or never will be, for the outbox is closed;
        else the first refusal, once.
        """
        with self._changed:
            self._changed.wait_for(lambda: not self._requests or self._closed.is_set(), seconds)
            if self._requests:
                raise TemporaryError(str(self._away or f"no answer within {seconds:g} s"))
            refused, self._refused = self._refused, None
        if refused is not None:
            raise refused

    def close(self) -> None:
        """End the thread; what is not sent by now is dropped."""
        with self._changed:
            self._closed.set()
            self._changed.notify_all()

    def _note(self, state: tenacity.RetryCallState) -> None:
        if self._away is None:
            log.warning("%s; what is to be logged waits", state.outcome and state.outcome.exception())
        self._away = state.outcome.exception() if state.outcome else None

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._requests or self._closed.is_set())
                if self._closed.is_set():
                    return
                request = self._requests[0]
            refused = None
            try:
                self._retrying(request)
            except Exception as error:
                refused = error
                if self._closed.is_set():
                    return
            with self._changed:
                self._away = None
                self._refused = self._refused or refused
                self._requests.popleft()
                self._changed.notify_all()
