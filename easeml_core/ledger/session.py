"""Transactions on the ledger, and waiting for work.

A connection is opened per operation and closed with it: nothing is shared over a fork, and nothing is
held (and dead afterwards) while a trial trains for an hour. A server that is away is waited for; after
that, `TemporaryError` says that the same call may work later.
"""

from __future__ import annotations

import json
import select
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

import tenacity
from sqlalchemy import Connection, Engine, NullPool, create_engine, text
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.orm import Session

from easeml_core.errors import TemporaryError

CHANNEL = "easeml_work"
CONNECT_TIMEOUT_SECONDS = 5
# Longer than PostgreSQL takes to recover from a kill, shorter than the default lease.
PATIENCE_SECONDS = 30.0

T = TypeVar("T")


def _strict_json(value: Any) -> str:
    # PostgreSQL refuses NaN inside JSON only when the row is written; this names the culprit earlier.
    return json.dumps(value, allow_nan=False)


def make_engine(url: str) -> Engine:
    """An engine without a pool, in strict JSON, READ COMMITTED (row and advisory locks do the rest)."""
    return create_engine(
        url,
        poolclass=NullPool,
        json_serializer=_strict_json,
        connect_args={"connect_timeout": CONNECT_TIMEOUT_SECONDS, "application_name": "easeml"},
    )


def _lost_connection(error: DBAPIError) -> bool:
    return error.connection_invalidated or isinstance(error, (OperationalError, InterfaceError))


class Listener:
    """One connection that listens for work; ask for work *after* making it, so that no wake-up is missed."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._raw: Any = connection.connection.driver_connection

    def wait(self, seconds: float) -> bool:
        """Wait until something is announced (True) or `seconds` have passed (False).

        A lost connection counts as an announcement: something happened, so look again. Raises nothing.
        """
        deadline = time.monotonic() + seconds
        try:
            while True:
                self._raw.poll()
                if self._raw.notifies:
                    self._raw.notifies.clear()
                    return True
                remaining = deadline - time.monotonic()
                if remaining <= 0:
                    return False
                select.select([self._raw], [], [], remaining)
        except Exception as error:
            # Never spin on a dead connection: the caller's next transaction waits for the server.
            if not isinstance(error, (OSError, ValueError)) and not _is_driver_error(error):
                raise
            return True


def _is_driver_error(error: Exception) -> bool:
    import psycopg2

    return isinstance(error, psycopg2.Error)


class Ledger:
    """The ledger at one PostgreSQL URL. Cheap to make; connects only when used.

    `patience_seconds` is how long one operation waits for a server that is away.
    """

    def __init__(self, url: str, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self.url = url
        self.patience_seconds = patience_seconds
        self._engine: Engine | None = None

    @property
    def engine(self) -> Engine:
        """The engine; it holds no connection."""
        if self._engine is None:
            self._engine = make_engine(self.url)
        return self._engine

    def _connect(self) -> Connection:
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(OperationalError),
            wait=tenacity.wait_random_exponential(multiplier=0.05, max=1.0),
            stop=tenacity.stop_after_delay(self.patience_seconds),
            reraise=True,
        )
        try:
            return retrying(self.engine.connect)
        except OperationalError as error:
            raise TemporaryError(f"the ledger does not answer: {error.orig}") from error

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """A session on a connection of its own: committed at the end, rolled back on any error.

        Objects stay readable after the commit. Raises `TemporaryError` when the server is away, or goes
        away before the commit was confirmed; repeat only what is idempotent.
        """
        with self._connect() as connection, Session(connection, expire_on_commit=False) as session:
            try:
                yield session
                session.commit()
            except DBAPIError as error:
                if _lost_connection(error):
                    raise TemporaryError(f"the ledger went away: {error.orig}") from error
                raise

    def repeat(self, work: Callable[[Session], T]) -> T:
        """Run idempotent `work` in a transaction, again where the server went away in the middle."""
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(TemporaryError),
            wait=tenacity.wait_random_exponential(multiplier=0.1, max=2.0),
            stop=tenacity.stop_after_delay(self.patience_seconds),
            reraise=True,
        )

        def once() -> T:
            with self.transaction() as session:
                return work(session)

        return retrying(once)

    def notify(self) -> None:
        """Wake up every device that waits for work, now."""
        with self.transaction() as session:
            announce(session)

    @contextmanager
    def listening(self) -> Iterator[Listener]:
        """Listen for work: `with ledger.listening() as listener: look(); listener.wait(5)`."""
        with self._connect() as connection:
            connection = connection.execution_options(isolation_level="AUTOCOMMIT")
            connection.execute(text(f"LISTEN {CHANNEL}"))
            try:
                yield Listener(connection)
            finally:
                connection.invalidate()  # also right when the server has gone

    def wait(self, seconds: float) -> bool:
        """Wait for the next announcement of work; True when one came."""
        with self.listening() as listener:
            return listener.wait(seconds)


def announce(session: Session) -> None:
    """Wake up the devices that wait for work once this transaction is committed."""
    session.execute(text(f"NOTIFY {CHANNEL}"))


def lock(session: Session, name: str) -> None:
    """Take the advisory lock `name` until the transaction ends; waits for whoever holds it."""
    session.execute(text("SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))"), {"name": name})


def try_lock(session: Session, name: str) -> bool:
    """Take the advisory lock `name` until the transaction ends, unless somebody holds it; says whether."""
    query = text("SELECT pg_try_advisory_xact_lock(hashtextextended(:name, 0))")
    return bool(session.scalar(query, {"name": name}))


Transaction = AbstractContextManager[Session]
