from __future__ import annotations

import threading
import time

import pytest
import sqlalchemy as sa

from easeml_core.errors import TemporaryError
from easeml_core.ledger import Ledger
from easeml_core.ledger.models import Tenant
from easeml_core.ledger.session import announce, lock

CONNECTIONS = sa.text("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
LEAVE = sa.text(
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
    "WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


def tenants(ledger: Ledger) -> int:
    with ledger.transaction() as session:
        return session.scalar(sa.select(sa.func.count()).select_from(Tenant)) or 0


def test_a_transaction_commits_as_a_whole_or_not_at_all(ledger: Ledger) -> None:
    with ledger.transaction() as session:
        session.add(Tenant(id="a"))

    def fail_half_way() -> None:
        with ledger.transaction() as session:
            session.add(Tenant(id="b"))
            session.flush()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_half_way()
    assert tenants(ledger) == 1


def test_no_connection_stays_open_between_operations(ledger: Ledger) -> None:
    for _ in range(3):
        tenants(ledger)
    with ledger.transaction() as session:
        # A backend that has been closed is gone a moment later.
        deadline = time.monotonic() + 10
        while (count := session.scalar(CONNECTIONS)) != 1 and time.monotonic() < deadline:
            session.execute(sa.text("SELECT pg_stat_clear_snapshot()"))
    assert count == 1


def test_a_server_that_stays_away_is_a_temporary_error() -> None:
    ledger = Ledger("postgresql+psycopg2://postgres@127.0.0.1:9/easeml", patience_seconds=0.2)
    with pytest.raises(TemporaryError, match="the ledger does not answer"):
        tenants(ledger)


def test_work_is_repeated_when_the_server_goes_away_in_the_middle(ledger: Ledger) -> None:
    calls = []

    def work(session: sa.orm.Session) -> None:
        calls.append(1)
        session.add(Tenant(id="a"))
        session.flush()
        if len(calls) == 1:
            with ledger.transaction() as other:
                other.execute(LEAVE)

    ledger.repeat(work)
    assert len(calls) == 2
    assert tenants(ledger) == 1


def test_a_listener_hears_what_is_announced_after_it_began_only_once_committed(ledger: Ledger) -> None:
    ledger.notify()  # before: not heard
    with ledger.listening() as listener:
        assert not listener.wait(0.0)
        with ledger.transaction() as session:
            announce(session)
            session.flush()
            assert not listener.wait(0.05)
        assert listener.wait(10)
        assert not listener.wait(0.0)


def test_a_listener_whose_connection_breaks_wakes_up(ledger: Ledger) -> None:
    with ledger.listening() as listener:
        breaker = threading.Thread(target=lambda: _break(ledger))
        breaker.start()
        assert listener.wait(20)
        breaker.join()


def _break(ledger: Ledger) -> None:
    with ledger.transaction() as session:
        session.execute(LEAVE)


def test_locks_of_one_name_exclude_each_other_until_the_transaction_ends(ledger: Ledger) -> None:
    taken = sa.text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")
    entered = threading.Event()

    def other() -> None:
        with ledger.transaction() as session:
            lock(session, "one")
            entered.set()

    with ledger.transaction() as session:
        lock(session, "one")
        lock(session, "one")  # again by its holder
        thread = threading.Thread(target=other)
        thread.start()
        deadline = time.monotonic() + 20
        while not session.scalar(taken):
            assert time.monotonic() < deadline, "the second one never waited"
        assert not entered.is_set()
    assert entered.wait(20)
    thread.join()
