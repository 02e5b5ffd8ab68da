"""Who did the talking: how much each expert of the default policy's belief weighed in a decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from easeml_core.allocator.belief import Family

NAMED = 3
HISTORY, AFRESH = "history", "afresh"


def voices(families: Sequence[Family], log_weights: Sequence[float], without: str = "") -> dict[str, Any]:
    """Shares that sum to 1, JSON-ready.

    By family, of `log_weights`: `history` (past and open tasks) and `afresh` (the catalogue and the open
    tasks only). Over both: `average` for the experts that believe all tasks alike, and the `closest` single
    tasks with what each weighs, at most NAMED; the rest is spread over the others. `without` is the task
    itself.
    """
    by_family = np.exp(np.array(log_weights) - max(log_weights))
    by_family /= by_family.sum()
    of: dict[str, float] = {}
    for family, share in zip(families, by_family, strict=True):
        log_w, _ = family.evidence(without)
        weights = np.exp(log_w - log_w.max())
        for owner, weight in zip(family.experts.owners, weights / weights.sum(), strict=True):
            of[owner] = of.get(owner, 0.0) + float(share * weight)
    average = of.pop("", 0.0)
    closest = sorted(of.items(), key=lambda item: (-item[1], item[0]))[:NAMED]
    names = (HISTORY, AFRESH) if len(families) > 1 else (AFRESH,)
    return {
        "families": {name: round(float(share), 4) for name, share in zip(names, by_family, strict=True)},
        "average": round(average, 4),
        "closest": [{"task": owner, "weight": round(weight, 4)} for owner, weight in closest],
    }
