from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import sqlalchemy as sa

from easeml_core.errors import Problem
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


def postpone(
    ledger: Ledger, prefix: str, fingerprint: str, took: float = 0.0, longest: float = 60.0
) -> float:
    """Postpone; gives for how many seconds."""
    with ledger.transaction() as session:
        uploads.postpone(session, prefix, fingerprint, took_seconds=took, longest_seconds=longest)
        rest = session.scalar(
            sa.text("SELECT extract(epoch FROM retry_at - clock_timestamp()) FROM uploads WHERE prefix = :p"),
            {"p": prefix},
        )
    return float(rest)


def wake(ledger: Ledger) -> None:
    """Let every rest be over."""
    with ledger.transaction() as session:
        session.execute(sa.text("UPDATE uploads SET retry_at = clock_timestamp()"))


def test_what_failed_rests_ever_longer_and_others_do_not(ledger: Ledger) -> None:
    observe(ledger, a="1", b="1")
    rests = [round(postpone(ledger, "a", "1"), 0) for _ in range(6)]
    assert rests == [5, 10, 20, 40, 60, 60]
    found = observe(ledger, a="1", b="1")
    assert (found["a"].resting, found["b"].resting) == (True, False)
    assert found["a"].pending
    wake(ledger)
    assert not observe(ledger, a="1")["a"].resting
    assert round(postpone(ledger, "a", "1", took=300.0), 0) == 300  # at most half of the time goes into it


def test_a_changed_upload_does_not_rest_and_starts_anew(ledger: Ledger) -> None:
    observe(ledger, a="1")
    for _ in range(4):
        postpone(ledger, "a", "1")
    assert not observe(ledger, a="2")["a"].resting
    assert round(postpone(ledger, "a", "2"), 0) == 5
    finish(ledger, "a", "2")
    assert not observe(ledger, a="2")["a"].resting


def test_many_failures_do_not_overflow(ledger: Ledger) -> None:
    observe(ledger, a="1")
    with ledger.transaction() as session:
        session.execute(sa.text("UPDATE uploads SET failures = 100000, tried_fingerprint = '1'"))
    assert round(postpone(ledger, "a", "1"), 0) == 60


def test_notes_stay_until_replaced_and_what_they_are_on_is_missed(ledger: Ledger) -> None:
    observe(ledger, **{"lab/a": "1", "lab/a/control.json": "1", "lab/": "1", "lab/b": "1"})
    with ledger.transaction() as session:
        uploads.note(session, "lab/a/control.json", [Problem("control.json", "is odd")])
        uploads.note(session, "lab/a", [Problem("data", "is half")])
    finish(ledger, "lab/a", "1")
    observe(ledger, **{"lab/a": "1"})
    with ledger.transaction() as session:
        told = uploads.notes(session, ["lab/a", "lab/a/control.json", "lab/none"])
        assert [problem["message"] for problem in told] == ["is half", "is odd"]
        assert uploads.vanished(session, {"lab/a"}, "/") == ["lab/", "lab/a/control.json"]
        uploads.note(session, "lab/a/control.json", [])
        assert uploads.notes(session, ["lab/a/control.json"]) == []
        assert uploads.vanished(session, {"lab/a"}, "/") == ["lab/"]
