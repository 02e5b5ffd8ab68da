"""What is logged is sent in order, from the side, and waits for a server that is away."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from easeml_core.errors import TemporaryError
from training.outbox import Outbox


@pytest.fixture
def outbox() -> Iterator[Outbox]:
    box = Outbox()
    yield box
    box.close()


def test_nobody_waits_for_a_request_and_none_overtakes(outbox: Outbox) -> None:
    gate, sent = threading.Event(), list[int]()

    def first() -> None:
        gate.wait(20)
        sent.append(0)

    outbox.put(first)
    for number in range(1, 50):
        outbox.put(lambda number=number: sent.append(number))
    assert sent == []
    gate.set()
    outbox.drain(20)
    assert sent == list(range(50))


def test_a_request_is_made_again_until_the_server_is_back(outbox: Outbox) -> None:
    tries, sent = list[int](), list[str]()

    def flaky() -> None:
        tries.append(1)
        if len(tries) < 3:
            raise TemporaryError("away")
        sent.append("flaky")

    outbox.put(flaky)
    outbox.put(lambda: sent.append("next"))
    outbox.drain(20)
    assert (len(tries), sent) == (3, ["flaky", "next"])


def test_a_server_that_stays_away_is_not_waited_for_without_end(outbox: Outbox) -> None:
    tried = threading.Event()

    def away() -> None:
        tried.set()
        raise TemporaryError("MLflow does not answer")

    outbox.put(away)
    assert tried.wait(20)
    with pytest.raises(TemporaryError, match="MLflow does not answer"):
        outbox.drain(0.3)
    outbox.close()
    with pytest.raises(TemporaryError):
        outbox.drain(20)  # at once: nothing will be sent any more


def test_a_refusal_is_raised_once_and_holds_up_nothing(outbox: Outbox) -> None:
    def refused() -> None:
        raise ValueError("not a number")

    sent = list[str]()
    outbox.put(refused)
    outbox.put(lambda: sent.append("next"))
    with pytest.raises(ValueError, match="not a number"):
        outbox.drain(20)
    assert sent == ["next"]
    outbox.drain(20)
