"""Are the default policy's predictions what they claim to be?

Tasks are held out of a table as in the protocol; of each, a few cells in a fixed order are shown and the next
ones predicted. Reported: the share of cells within the central 50 % and 90 % intervals, and the log density
of what came (higher is better) under other widths than the one in use, by table: the check that the constant
does not suit one table only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from easeml_core.allocator import template, warp
from easeml_core.allocator.belief import Family, Prediction, predict
from easeml_core.allocator.types import Array
from easeml_core.replay import Table
from easeml_core.replay.protocol import prior_of, split

SHOWN = (1, 3, 8, 20)
PREDICTED = 10
WIDTHS = (0.4, 0.5, 0.6, 0.75, 0.9, 1.1)


def coverage(table: Table, repeats: int) -> dict[str, Any]:
    """Coverage, mean absolute error, and the mean log density under each of WIDTHS."""
    hits: dict[float, list[bool]] = {0.5: [], 0.9: []}
    errors: list[float] = []
    densities: dict[float, list[float]] = {width: [] for width in WIDTHS}
    for seed in range(repeats):
        served, past = split(len(table.tasks), seed)
        start = template.base(prior_of(table.rows(past)), [], (0.6, 0.2))
        learned = template.learn(start, {})
        draw = np.random.default_rng([seed, 2])
        for task in served:
            row = table.quality[task]
            there = draw.permutation(np.flatnonzero(~np.isnan(row)))
            for shown in SHOWN:
                if shown + 2 > len(there):
                    break
                arms = [learned.index[table.models[j]] for j in there[:shown]]
                values = [float(v) for v in warp.warp(row[there[:shown]], learned.soft)]
                families = [Family.of(family, arms, values) for family in learned.families]
                made = predict(families, learned.weights, learned.soft)
                for j in there[shown : shown + PREDICTED]:
                    arm, quality = learned.index[table.models[j]], float(row[j])
                    for share, found in hits.items():
                        low, high = made.interval(arm, share)
                        found.append(low - 1e-9 <= quality <= high + 1e-9)
                    mean, _ = made.moments(made.qualities([arm]))
                    errors.append(abs(float(mean[0]) - quality))
                    for width, logs in densities.items():
                        logs.append(_log_density(made, arm, quality, width))
    return {
        "within 50 %": float(np.mean(hits[0.5])),
        "within 90 %": float(np.mean(hits[0.9])),
        "mean absolute error": float(np.mean(errors)),
        "log density by width": {f"{width:g}": float(np.mean(logs)) for width, logs in densities.items()},
        "width in use": made.tails[0].honest,
    }


def _log_density(made: Prediction, arm: int, quality: float, width: float) -> float:
    """Of Student's t with 3 degrees of freedom, mixed, on the warped scale."""
    value = float(warp.warp(np.array(quality), made.soft))
    scale: Array = width * made.scale[:, arm] + 1e-6
    apart = (value - made.mean[:, arm]) / scale
    density = 2 / (np.pi * np.sqrt(3) * (1 + apart**2 / 3) ** 2) / scale
    return float(np.log(made.weights @ density + 1e-300))
