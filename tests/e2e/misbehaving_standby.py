"""The standby of trainers, with candidates that misbehave: `python -m tests.e2e.misbehaving_standby`.

It is the real standby, and what it forks is the real trainer. Only, where an order's task is named after a
misbehaviour below, the candidate (or what the order allows it) is exchanged in the forked process, right
before the trainer reads its order.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from easeml_core.settings import Settings
from easeml_core.workorder import WorkOrder
from training import networks, pipelines
from training.standby import Standby

MEBIBYTE = 1024**2


def _instead_of_fitting(work: Callable[[], Any]) -> None:
    def fit(*_: Any) -> Any:
        return work()

    pipelines.PipelineTrainee.fit = fit  # type: ignore[method-assign]
    networks.NetworkTrainee.fit = fit  # type: ignore[method-assign]


def raises(order: Path) -> None:
    """A candidate that does not cope with the data."""

    def work() -> None:
        raise ArithmeticError("this candidate cannot count")

    _instead_of_fitting(work)


def exits(order: Path) -> None:
    """A library that ends the process, and says that all went well."""
    _instead_of_fitting(lambda: os._exit(0))


def hangs(order: Path) -> None:
    """Native code that neither returns nor lets a signal through."""

    def work() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1})
        while True:
            signal.sigwait({signal.SIGUSR2})

    _instead_of_fitting(work)


def freezes(order: Path) -> None:
    """A process of which no thread moves any more."""
    _instead_of_fitting(lambda: os.kill(os.getpid(), signal.SIGSTOP))


def diverges(order: Path) -> None:
    """The real candidate with learning rates far too large."""
    _allow(order, search={"learning_rate": {".choice": [1e30, 1e35]}})


def hungers(order: Path) -> None:
    """The real candidate with memory for its weights, but not for their gradients too."""
    _allow(order, memory_limit_bytes=100 * MEBIBYTE)


def _allow(path: Path, **changes: Any) -> None:
    order = WorkOrder.read(path)
    WorkOrder.model_validate(order.model_dump() | changes).write(path)


MISBEHAVIOURS = {work.__name__: work for work in (raises, exits, hangs, freezes, diverges, hungers)}


class MisbehavingStandby(Standby):
    """Forks trainers whose candidates misbehave as their tasks' names say."""

    def _become(self, kind: str, order: Path, parent: int) -> int:
        if kind == "train" and (misbehave := MISBEHAVIOURS.get(WorkOrder.read(order).task)) is not None:
            misbehave(order)
        return super()._become(kind, order, parent)


if __name__ == "__main__":
    MisbehavingStandby(Settings().run_dir).serve()
    sys.exit(0)
