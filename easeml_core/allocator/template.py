"""All that the default policy has learned of a template: from past tasks, and from the tasks now open.

Two families of experts (`experts`):

* **history**: past tasks, and the open tasks' own trials as further, ragged past tasks;
* **afresh**: the catalogue and the open tasks only. It counts little (AFRESH) until the open tasks are
  better explained without the history: then the history misleads, and this family takes over. Without a
  history it is the only one.

Each task is predicted without its own row. What is learned from open tasks is brought up to date whenever
the number of trials has grown by half, as a function of the request alone: see `first_trials`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from easeml_core.allocator import experts, ragged, warp
from easeml_core.allocator.belief import Family
from easeml_core.allocator.board import own_deviations
from easeml_core.allocator.experts import Experts
from easeml_core.allocator.types import Array, Prior

AFRESH = 0.02
# How far, in log odds, one open task may move AFRESH, and all together: one odd task is no sign that the
# history misleads, many are.
VOTE, LEAST, MOST = 2.0, -3.0, 9.0
# Past and open tasks that are learned from, the most complete ones: the time of a fit grows with them.
PAST, OPEN = 200, 48
# Known arms, as a share, from which on an open task is an expert of its own.
COMPLETE_ENOUGH = 0.3
GROWTH = 1.5
_FEW = 3


@dataclass(frozen=True, eq=False)
class Learned:
    """`arms` has K names, sorted; `families` and the log prior weight of each; `soft` is that of `warp`."""

    arms: tuple[str, ...]
    index: Mapping[str, int]
    soft: warp.Soft
    families: tuple[Experts, ...]
    weights: tuple[float, ...]
    mean: Array  # of the prior, in quality, (K,)
    apart: Array  # its `board.own_deviations`, (K,)
    past: int


@dataclass(frozen=True, eq=False)
class Base:
    """What the prior of a template says before the open tasks: computed once for each prior."""

    arms: tuple[str, ...]
    mean_0: Array  # catalogue, on the warped scale
    covariance_0: Array
    settings: experts.Settings
    past: ragged.Completed  # past tasks, on the warped scale
    called: tuple[str, ...]  # the past tasks
    known: npt.NDArray[np.int64]  # how many arms each of them tried
    mean: Array  # of the prior, in quality
    apart: Array

    @cached_property
    def with_history(self) -> Experts:
        """The experts of the past tasks alone."""
        return _family(self, np.empty((0, len(self.arms))), [], use_past=True)

    @cached_property
    def without_history(self) -> Experts:
        """The one expert of the catalogue."""
        return _family(self, np.empty((0, len(self.arms))), [], use_past=False)


def base(prior: Prior | None, extra: Sequence[str], neutral: tuple[float, float]) -> Base:
    """Bring a prior to the warped scale. `extra` are arms that it does not know: they get the average mean
    and variance, independent of all others; without a prior, `neutral` mean and deviation."""
    known = () if prior is None else prior.arms
    arms = tuple(sorted({*known, *extra}))
    position = {arm: index for index, arm in enumerate(arms)}
    there = np.array([position[arm] for arm in known], dtype=np.int64)
    k = len(arms)
    start = prior if prior is None or prior.catalogue is None else prior.catalogue
    first = (np.empty(0), np.empty((0, 0)))
    if isinstance(start, Prior):
        first = (start.mean, start.covariance)
    elif start is not None:
        first = start
    mean, covariance = _spread(k, there, *first, neutral)
    now = (np.empty(0), np.empty((0, 0))) if prior is None else (prior.mean, prior.covariance)
    prior_mean, prior_covariance = _spread(k, there, *now, neutral)
    history, called = np.empty((0, k)), tuple[str, ...]()
    if prior is not None and prior.history is not None and len(prior.history):
        count = np.isfinite(prior.history).sum(axis=1)
        most = np.sort(np.argsort(-count, kind="stable")[:PAST])
        history = np.full((len(most), k), np.nan)
        history[:, there] = prior.history[most]
        called = tuple(prior.tasks[row] if prior.tasks else f"past {row}" for row in most)
    settings = experts.learn(history, mean, covariance)
    steep = warp.slope(mean, settings.soft)
    warped, scaled = warp.warp(mean, settings.soft), covariance * np.outer(steep, steep)
    return Base(
        arms,
        warped,
        scaled,
        settings,
        ragged.complete(warp.warp(history, settings.soft), warped, scaled),
        called,
        np.isfinite(history).sum(axis=1),
        prior_mean,
        own_deviations(prior_covariance),
    )


def learn(start: Base, rows: Mapping[str, Mapping[str, float]]) -> Learned:
    """Add the open tasks: `rows` are the observed qualities of each, by arm."""
    position = {arm: index for index, arm in enumerate(start.arms)}
    table, names = _open_rows(start, rows, position)
    past = len(start.known)
    families = [_family(start, table, names, use_past=True)] if past else []
    families.append(_family(start, table, names, use_past=False))
    odds = math.log(AFRESH / (1 - AFRESH)) + _against_history(start, table)
    weights = [-math.log1p(math.exp(odds)), -math.log1p(math.exp(-odds))] if past else [0.0]
    return Learned(
        start.arms,
        position,
        start.settings.soft,
        tuple(families),
        tuple(weights),
        start.mean,
        start.apart,
        past,
    )


def first_trials(total: int) -> int:
    """How many of `total` trials, in the order they ended, are learned from: the last of 5, 8, 12, 18, 27 …
    (half as many more each time) that has been reached; 0 before the first."""
    reached, step = 0, 5
    while step <= total:
        reached, step = step, math.ceil(step * GROWTH)
    return reached


def _open_rows(
    start: Base, rows: Mapping[str, Mapping[str, float]], position: Mapping[str, int]
) -> tuple[Array, list[str]]:
    """The open tasks' rows on the warped scale `(n, K)`, the most complete ones, in order of their names."""
    most = sorted(rows, key=lambda name: (-len(rows[name]), name))[:OPEN]
    names = sorted(name for name in most if rows[name])
    table = np.full((len(names), len(start.arms)), np.nan)
    for row, name in zip(table, names, strict=True):
        for arm, quality in rows[name].items():
            row[position[arm]] = quality
    return warp.warp(table, start.settings.soft), names


def _family(start: Base, table: Array, names: Sequence[str], *, use_past: bool) -> Experts:
    past = start.past if use_past else None
    completed = ragged.complete(table, start.mean_0, start.covariance_0, past)
    known = np.concatenate([start.known if use_past else start.known[:0], (~np.isnan(table)).sum(axis=1)])
    called = [*(start.called if use_past else ()), *names]
    enough = np.flatnonzero(known >= max(_FEW, COMPLETE_ENOUGH * len(start.arms)))
    settings = start.settings if use_past else replace(experts.DEFAULT, soft=start.settings.soft)
    return experts.build(completed.rows[enough], completed, [called[row] for row in enough], settings)


def _against_history(start: Base, table: Array) -> float:
    """Log odds that the open tasks speak for starting afresh, by what either said before it knew them."""
    if not len(start.known) or not len(table):
        return 0.0
    total = 0.0
    for row in table:
        arms = [int(arm) for arm in np.flatnonzero(~np.isnan(row))]
        values = [float(row[arm]) for arm in arms]
        vote = Family.of(start.without_history, arms, values).total()
        vote -= Family.of(start.with_history, arms, values).total()
        total += min(max(vote, -VOTE), VOTE)
    return min(max(total, LEAST), MOST)


def _spread(
    k: int, there: npt.NDArray[np.int64], mean: Array, covariance: Array, neutral: tuple[float, float]
) -> tuple[Array, Array]:
    """Mean `(K,)` and covariance `(K, K)` over all arms, from those of the arms at `there`."""
    middle, deviation = neutral
    variance = float(np.diagonal(covariance).mean()) if len(mean) else deviation**2
    wide_mean = np.full(k, float(mean.mean()) if len(mean) else middle)
    wide = np.eye(k) * variance
    if len(mean):
        wide_mean[there] = mean
        wide[np.ix_(there, there)] = covariance
    return np.clip(wide_mean, 0.0, 1.0), wide
