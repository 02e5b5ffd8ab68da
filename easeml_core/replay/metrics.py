"""What is measured of replays (ease.ml, section 1.9): loss against the share of the total cost.

A replay's curve is the accuracy loss of its tasks, best quality in the table less best found so far (0 before
any run), against elapsed time as a share of the summed cost of all its cells: what one device would need for
everything. With more devices a curve is shorter, so their figures compare.

**Average**: mean over tasks and repeats at each share; `area` is the area under it, `cost_to[l]` the first
share where it is at most l. **Worst**: maximum over tasks and repeats; `area_worst` is the area under it.

**Calibration**: how many qualities came inside the intervals that decisions gave (`allocator.calibration`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from easeml_core.allocator.calibration import Calibration, Outcome, calibrate
from easeml_core.allocator.types import Array
from easeml_core.replay.simulate import Trace

LOSSES = (0.05, 0.02, 0.01, 0.005)
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Curves:
    """Average and worst loss from each share of the total cost on, each `(S,)`; right-continuous steps."""

    shares: Array
    average: Array
    worst: Array
    areas: Array  # of each repeat, (R,)
    calibration: Calibration | None  # of all decisions; None for a policy that predicts nothing

    @property
    def area(self) -> float:
        """Area under the average, over shares 0 to 1."""
        return _area(self.shares, self.average)

    @property
    def area_worst(self) -> float:
        """Area under the worst."""
        return _area(self.shares, self.worst)

    def cost_to(self, loss: float) -> float | None:
        """First share where the average is at most `loss`; None where it never is."""
        reached = np.flatnonzero(self.average <= loss + _ROUNDING)
        return float(self.shares[reached[0]]) if len(reached) else None

    def at(self, shares: Array, which: str = "average") -> Array:
        """Loss at any shares, for plots; `which` is `average` or `worst`."""
        values: Array = getattr(self, which)[np.searchsorted(self.shares, shares, side="right") - 1]
        return values

    def as_dict(self) -> dict[str, object]:
        """JSON-ready: `area`, its standard error over repeats, `area_worst`, `cost_to`, `calibration`."""
        error = float(self.areas.std(ddof=1) / len(self.areas) ** 0.5) if len(self.areas) > 1 else None
        return {
            "area": self.area,
            "area_se": error,
            "area_worst": self.area_worst,
            "cost_to": {f"{loss:g}": self.cost_to(loss) for loss in LOSSES},
            "calibration": None if self.calibration is None else self.calibration.as_dict(),
        }


def curves(traces: Sequence[Trace]) -> Curves:
    """The curves of at least one replay of the same policy."""
    steps = [trace.losses() for trace in traces]
    shares_of = [times / trace.table.total_cost for (times, _), trace in zip(steps, traces, strict=True)]
    shares = np.unique(np.concatenate(shares_of))
    average, worst = np.zeros(len(shares)), np.zeros(len(shares))
    areas = []
    for own, (_, losses) in zip(shares_of, steps, strict=True):
        at = np.searchsorted(own, shares, side="right") - 1
        mean = losses.mean(axis=1)
        average += mean[at] / len(traces)
        worst = np.maximum(worst, losses.max(axis=1)[at])
        areas.append(_area(own, mean))
    return Curves(shares, average, worst, np.array(areas), _calibration(traces))


def _calibration(traces: Sequence[Trace]) -> Calibration | None:
    outcomes = [
        Outcome(run.expected, run.intervals, run.quality, run.predicted, run.end - run.start)
        for trace in traces
        for run in trace.runs
        if run.intervals
    ]
    return calibrate(outcomes) if outcomes else None


def _area(shares: Array, values: Array) -> float:
    """Under the steps up to share 1, where the last value holds on."""
    ends = np.append(shares[1:], max(1.0, float(shares[-1])))
    return float((values * (ends - shares)).sum())
