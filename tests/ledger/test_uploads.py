from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import sqlalchemy as sa

from easeml_core.ledger import Ledger, uploads


def observe(ledger: Ledger, **fingerprints: str) -> dict[str, uploads.Observation]:
    with ledger.transaction() as session:
        return {seen.prefix: seen for seen in uploads.observe(session, fingerprints)}


def age(ledger: Ledger, seconds: float) -> None:
    """Let time pass for every upload seen so far."""
    with ledger.transaction() as session:
        session.execute(
            sa.text("UPDATE uploads SET seen_at = seen_at - make_interval(secs => :s)"), {"s": seconds}
        )


def pending(ledger: Ledger, settle_seconds: float = 2.0) -> list[str]:
    with ledger.transaction() as session:
        return uploads.pending(session, settle_seconds)


def finish(ledger: Ledger, prefix: str, fingerprint: str) -> None:
    with ledger.transaction() as session:
        uploads.finish(session, prefix, fingerprint)


def test_an_upload_settles_once_it_stops_changing(ledger: Ledger) -> None:
    first = observe(ledger, a="1", b="1")
    assert first["a"].pending
    assert not first["a"].settled(2.0)
    assert pending(ledger) == []
    age(ledger, 3.0)
    second = observe(ledger, a="2", b="1")
    assert (second["a"].settled(2.0), second["b"].settled(2.0)) == (False, True)
    assert pending(ledger) == ["b"]
    age(ledger, 3.0)
    assert pending(ledger) == ["a", "b"]
    assert pending(ledger, 60.0) == []


def test_what_is_finished_is_pending_again_only_when_it_changes(ledger: Ledger) -> None:
    observe(ledger, a="1")
    age(ledger, 3.0)
    finish(ledger, "a", "1")
    finish(ledger, "a", "1")
    assert pending(ledger) == []
    assert not observe(ledger, a="1")["a"].pending
    assert observe(ledger, a="2")["a"].pending
    age(ledger, 3.0)
    assert pending(ledger) == ["a"]
    finish(ledger, "a", "1")  # a slow intake that worked on the earlier content
    assert pending(ledger) == ["a"]


def test_observers_at_once_agree(ledger: Ledger) -> None:
    prefixes = {f"p{number}": "1" for number in range(30)}
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda _: observe(ledger, **prefixes), range(12)))
    assert all(set(seen) == set(prefixes) for seen in found)
    with ledger.transaction() as session:
        assert session.scalar(sa.text("SELECT count(*) FROM uploads")) == 30


def test_forgotten_prefixes_are_gone(ledger: Ledger) -> None:
    observe(ledger, a="1", b="1")
    with ledger.transaction() as session:
        uploads.forget(session, ["a"])
    age(ledger, 3.0)
    assert pending(ledger) == ["b"]
    assert observe(ledger) == {}
