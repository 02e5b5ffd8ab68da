"""Successive halving: all settings of a trial train for a few epochs, the best third of them three times as
long, and so on; the last one trains to the end.

Jamieson and Talwalkar 2016, Non-stochastic best arm identification; the base ETA is that of Li et al. 2018,
Hyperband. The plan is fixed before the trial, so that what it costs is known and a resumed trial goes on with
the same plan.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache

ETA = 3
# What a setting has reached after fewer optimiser steps says little of where it ends: of two learning rates
# after 12 steps on 240 small images, the better one was dropped.
LEAST_STEPS = 50


@dataclass(frozen=True, slots=True)
class Rung:
    """The `keep` best settings so far train until they have had `epochs` epochs."""

    epochs: int
    keep: int


def least_epochs(examples: int, batch_size: int) -> int:
    """Epochs of so many training examples that hold `LEAST_STEPS` optimiser steps.

    >>> least_epochs(240, 64), least_epochs(60_000, 64)
    (13, 1)
    """
    return math.ceil(LEAST_STEPS / math.ceil(examples / batch_size))


def rungs(settings: int, epochs: int, least: int = 1) -> tuple[Rung, ...]:
    """The plan for `settings` settings (at least 1) of at most `epochs` epochs (at least 1).

    None is dropped before it has trained for `least` epochs.

    >>> rungs(9, 27)
    (Rung(epochs=3, keep=9), Rung(epochs=9, keep=3), Rung(epochs=27, keep=1))
    >>> rungs(2, 8), rungs(4, 1), rungs(2, 8, least=13)
    ((Rung(epochs=3, keep=2), Rung(epochs=8, keep=1)), (Rung(epochs=1, keep=4),), (Rung(epochs=8, keep=2),))
    """
    last = math.ceil(math.log(settings, ETA) - 1e-9)
    plan: list[Rung] = []
    for rung in range(last + 1):
        until = min(max(math.ceil(epochs / ETA ** (last - rung)), least), epochs)
        if not plan or until > plan[-1].epochs:
            plan.append(Rung(until, -(-settings // ETA**rung)))
    return tuple(plan)


@cache
def epochs_trained(settings: int, epochs: int, least: int = 1) -> int:
    """Epochs that all settings together train by the plan, where none ends early.

    >>> epochs_trained(2, 8), epochs_trained(9, 27), epochs_trained(4, 1)
    (11, 63, 4)
    """
    done, total = 0, 0
    for rung in rungs(settings, epochs, least):
        total += rung.keep * (rung.epochs - done)
        done = rung.epochs
    return total
