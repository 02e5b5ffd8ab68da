"""The paper's protocol (ease.ml, section 1.9), and the generator of its synthetic tables.

One repeat: TEST tasks drawn at random are served, all other tasks are history. Every policy of a repeat gets
the same tasks, the same history, the same costs and the same prior (`prior_of`, unless told otherwise).
In a table with no more than TEST tasks half of them are served.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from easeml_core.allocator import kernels
from easeml_core.allocator.types import Array, Policy, Prior
from easeml_core.replay.clairvoyant import Clairvoyant
from easeml_core.replay.metrics import Curves, curves
from easeml_core.replay.simulate import Trace, past_tasks, replay
from easeml_core.replay.table import Table

TEST = 10
CLAIRVOYANT = "clairvoyant"
SYN = ((0.01, 0.1), (0.01, 1.0), (0.5, 0.1), (0.5, 1.0))  # (sigma_M, alpha)
BASELINES, BASELINE_DEVIATION, NOISE_DEVIATION = (0.75, 0.25), 0.02, 0.02


def split(tasks: int, seed: int, test: int = TEST) -> tuple[list[int], list[int]]:
    """Positions of the tasks that are served and of those that are history, drawn by `seed`."""
    served = test if tasks > test else max(1, tasks // 2)
    order = [int(task) for task in np.random.default_rng(seed).permutation(tasks)]
    return order[:served], order[served:]


def average_cost(history: Table, shape: tuple[int, int]) -> Array:
    """What each model costs on average on the tasks of `history`, for all tasks; shape `shape`, `(N, K)`.

    One that none of them has tried: as much as the average model; all 1 without a history.
    """
    known = ~np.isnan(history.quality)
    spent, tries = np.where(known, history.cost, 0.0).sum(axis=0), known.sum(axis=0)
    usual = spent.sum() / tries.sum() if known.any() else 1.0
    return np.broadcast_to(np.where(tries > 0, spent / np.maximum(tries, 1), usual), shape)


def prior_of(history: Table, kernel: str = "rbf") -> Prior:
    """The prior that the paper makes of a history; that of `priors.build` where it is too short."""
    return kernels.tuned("table", history.models, past_tasks(history), kernel)


def repeat(
    table: Table,
    policies: Iterable[str],
    seed: int,
    *,
    devices: int = 1,
    test: int = TEST,
    share: float = 1.0,
    spoil: Callable[[Table], Table] | None = None,
    error: float = 0.0,
    average: bool = False,
    policy_of: Callable[[str], str | Policy] = lambda name: name,
    believe: Callable[[Table], Prior] = prior_of,
    progress: Callable[[int], None] = lambda done: None,
) -> dict[str, Trace]:
    """One repeat: a trace for each policy; `clairvoyant` is the limit, other names are `make_policy`'s.

    `share` of the history is kept (0: none). `spoil` may change it. Policies are told the true costs, or with
    `average` what each model costs on average in the history, off by `error`, a deviation in log units.
    `policy_of` may make other policies of the names, `believe` another prior of the history. Calls `progress`
    with the number of policies done.
    """
    served, past = split(len(table.tasks), seed, test)
    kept = past[: round(share * len(past))]
    now, history = table.rows(served), table.rows(kept)
    if spoil is not None:
        history = spoil(history)
    prior = believe(history)
    draw = np.random.default_rng([seed, 1])
    costs = average_cost(history, now.cost.shape) if average else now.cost
    told = costs * np.exp(error * draw.standard_normal(costs.shape)) if error else costs
    traces: dict[str, Trace] = {}
    for name in policies:
        traces[name] = replay(
            now,
            Clairvoyant(now) if name == CLAIRVOYANT else policy_of(name),
            prior=prior,
            devices=devices,
            seed=seed,
            predicted=told,
            until_best=True,
        )
        progress(len(traces))
    return traces


def measure(
    table: Table,
    policies: Sequence[str],
    repeats: int,
    *,
    progress: Callable[[float], None] = lambda done: None,
    **options: Any,
) -> dict[str, Curves]:
    """Curves over `repeats` repeats (seeds 0, 1 …) by policy; `options` are those of `repeat`.

    Calls `progress` with the number of repeats done, after every replay.
    """
    traces: dict[str, list[Trace]] = {name: [] for name in policies}
    for seed in range(repeats):

        def so_far(replays: int, before: int = seed) -> None:
            progress(before + replays / len(traces))

        for name, trace in repeat(table, policies, seed, progress=so_far, **options).items():
            traces[name].append(trace)
    return {name: curves(found) for name, found in traces.items()}


def report(measured: Mapping[str, Curves]) -> dict[str, dict[str, object]]:
    """JSON-ready: by policy what `Curves.as_dict` says."""
    return {name: found.as_dict() for name, found in measured.items()}


def hidden_models(sigma: float, alpha: float, models: int, seed: int) -> tuple[np.random.Generator, Array]:
    """Sigma_M `(K, K)` of SYN(sigma_M, alpha), and what draws the rest of the table after it."""
    draw = np.random.default_rng([seed, round(1000 * sigma), round(1000 * alpha)])
    feature = draw.random(models)
    return draw, np.exp(-((feature[:, None] - feature) ** 2) / sigma**2)


def synthetic(sigma: float, alpha: float, *, tasks: int = 200, models: int = 100, seed: int = 0) -> Table:
    """SYN(sigma_M, alpha): x = baseline + alpha m + noise, clipped to [0, 1]; costs from U(0, 1].

    m is drawn for every task from N(0, Sigma_M), Sigma_M = exp(-(f - f')^2 / sigma^2) with f from U(0, 1).
    """
    draw, covariance = hidden_models(sigma, alpha, models, seed)
    values, basis = np.linalg.eigh(covariance)
    part = draw.standard_normal((tasks, models)) @ (basis * np.sqrt(np.maximum(values, 0.0))).T
    middle = np.array([BASELINES[task % len(BASELINES)] for task in range(tasks)])
    baseline = middle + BASELINE_DEVIATION * draw.standard_normal(tasks)
    noise = NOISE_DEVIATION * draw.standard_normal((tasks, models))
    quality = np.clip(baseline[:, None] + alpha * part + noise, 0.0, 1.0)
    names = tuple(f"task-{i}" for i in range(tasks)), tuple(f"model-{j}" for j in range(models))
    return Table(*names, quality, 1.0 - draw.random((tasks, models)))
