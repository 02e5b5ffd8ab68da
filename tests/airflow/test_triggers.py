"""The trigger that wakes intake and inference: level-triggered, stateless, patient."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable
from pathlib import Path

import pytest
from easeml_airflow import triggers
from easeml_airflow.triggers import BucketWakeTrigger

from easeml_core.service import Service
from easeml_core.service.intake import run_intake
from tests.airflow.standby import until

Look = dict[str, list[str]]


def _events(
    monkeypatch: pytest.MonkeyPatch, looks: Iterable[Look | Exception], *, count: int, nag: float = 60.0
) -> list[dict]:
    """The first `count` events for intake, where the bucket looks like `looks`, one after the other.

    The last look repeats for ever. What the trigger awaits between looks takes no time here.
    """
    *first, last = looks
    answers = itertools.chain(first, itertools.repeat(last))

    def look() -> Look:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(triggers, "look", look)
    return asyncio.run(_take(BucketWakeTrigger("task", poll_seconds=0.001, nag_seconds=nag), count))


async def _take(trigger: BucketWakeTrigger, count: int, seconds: float = 10.0) -> list[dict]:
    events = []
    async with asyncio.timeout(seconds):
        async for event in trigger.run():
            events.append(event.payload)
            if len(events) == count:
                break
    return events


def test_a_new_upload_fires(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[Look] = [{}, {}, {"task": ["clinic/tumours"]}]
    (event,) = _events(monkeypatch, looks, count=1)
    assert event == {"kind": "task", "ready": 1, "prefixes": ["clinic/tumours"]}


def test_the_other_kind_does_not_fire(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[Look] = [{"infer": ["clinic/tumours/infer/r1"]}, {"task": ["clinic/tumours"]}]
    (event,) = _events(monkeypatch, looks, count=1)
    assert event["prefixes"] == ["clinic/tumours"]


def test_a_burst_is_one_event_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [f"clinic/task{i:03}" for i in range(500)]
    (event,) = _events(monkeypatch, [{"task": many}], count=1)
    assert event["ready"] == 500
    assert event["prefixes"] == many[:20]


def test_what_stays_ready_fires_again(monkeypatch: pytest.MonkeyPatch) -> None:
    events = _events(monkeypatch, [{"task": ["clinic/tumours"]}], count=3, nag=0.01)
    assert [event["prefixes"] for event in events] == [["clinic/tumours"]] * 3


def test_what_comes_on_top_fires_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[Look] = [{"task": ["a/b"]}, {"task": ["a/b"]}, {"task": ["a/b", "c/d"]}]
    events = _events(monkeypatch, looks, count=2)
    assert [event["ready"] for event in events] == [1, 2]


def test_the_same_upload_fires_again_after_it_was_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[Look] = [{"task": ["a/b"]}, {}, {"task": ["a/b"]}]
    assert len(_events(monkeypatch, looks, count=2)) == 2


def test_an_outage_is_survived_and_loses_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    looks = [OSError("bucket away"), RuntimeError("ledger away"), {"task": ["a/b"]}]
    (event,) = _events(monkeypatch, looks, count=1)
    assert event["prefixes"] == ["a/b"]
    assert caplog.text.count("Traceback") == 1, "one trace per outage, not one per look"
    assert "bucket away" in caplog.text
    assert "works again" in caplog.text


def test_a_restarted_triggerer_fires_again_for_what_is_still_there(monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(2):  # a fresh trigger each, as after a restart: nothing is remembered, nothing is lost
        (event,) = _events(monkeypatch, [{"task": ["a/b"]}], count=1)
        assert event["prefixes"] == ["a/b"]


def test_dear_looks_are_taken_rarely(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(triggers, "_timed_look", lambda: ({"task": ["a/b"]}, 0.5))  # half a second of CPU
    monkeypatch.setattr(triggers.asyncio, "sleep", sleep)
    asyncio.run(_take(BucketWakeTrigger("task", poll_seconds=1.0, nag_seconds=0.0), 2))
    assert pauses == [pytest.approx(4.5)], "0.5 s of computing, then 4.5 s of rest: a tenth of a core"


@pytest.mark.usefixtures("environment")
def test_half_an_upload_does_not_fire_and_a_whole_one_does_until_it_is_taken(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EASEML_SETTLE_SECONDS", "0.05")
    task = Path(service.settings.bucket_url) / "clinic" / "tumours"
    (task / "data").mkdir(parents=True)
    (task / "task.yaml").write_text("program: '{input: {[Tensor[2]], []}, output: {[Tensor[2]], []}}'\n")
    rows = "a,b,label\n"
    for i in range(5):  # it grows between any two looks, however long they take
        rows += f"{i},{i + 1},{'yes' if i % 2 else 'no'}\n"
        (task / "data" / "table.csv").write_text(rows)
        assert triggers.look() == {}
    assert until(triggers.look) == {"task": ["clinic/tumours"]}
    assert triggers.look() == {"task": ["clinic/tumours"]}, "level-triggered: again while it is there"
    run_intake(Service.from_environment())
    assert triggers.look() == {}


def test_both_kinds_share_one_look() -> None:
    keys = {BucketWakeTrigger(kind).shared_stream_key() for kind in ("task", "infer")}
    assert len(keys) == 1


def test_it_is_rebuilt_from_what_it_serialises() -> None:
    path, arguments = BucketWakeTrigger("infer", 0.5, 2.0).serialize()
    module, _, name = path.rpartition(".")
    assert module == triggers.__name__
    rebuilt = getattr(triggers, name)(**arguments)
    assert rebuilt.serialize() == (path, arguments)
    assert BucketWakeTrigger.hash(path, arguments) == BucketWakeTrigger.hash(*rebuilt.serialize())
