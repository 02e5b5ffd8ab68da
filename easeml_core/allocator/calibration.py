"""Were the predictions of past decisions what they claimed to be?

Each decision keeps the quality it expected, the central intervals that were to hold 50 and 90 % of what may
come, and the seconds it predicted. Of honest predictions half end inside the first interval and nine in ten
inside the second; fewer means over-confident: a policy that is gives up on tasks too early.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

SHARES = ("50", "90")  # percent
# Of the standard normal distribution: its central interval is mean ± this many deviations.
NORMAL: Mapping[str, float] = {"50": 0.6744897501960817, "90": 1.6448536269514722}
# A share is told to be off where that is no chance (in deviations of a share of n decisions) and matters.
UNLIKELY, MATTERS = 2.0, 0.05


def normal_intervals(mean: float, deviation: float) -> dict[str, tuple[float, float]]:
    """The intervals of a Gaussian belief about a quality, cut to [0, 1].

    >>> [round(edge, 3) for edge in normal_intervals(0.9, 0.1)["90"]]
    [0.736, 1.0]
    """
    return {
        share: (min(max(mean - width * deviation, 0.0), 1.0), min(max(mean + width * deviation, 0.0), 1.0))
        for share, width in NORMAL.items()
    }


@dataclass(frozen=True, slots=True)
class Outcome:
    """One decision and what came of it. Qualities in [0, 1], times in seconds; `quality` is None where the
    trial did not succeed."""

    expected: float
    intervals: Mapping[str, tuple[float, float]]
    quality: float | None
    predicted_seconds: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """Of `decisions` whose trials ended, `failed` without a quality, which nobody predicts.

    `within` is the share of the others inside the interval of each of SHARES; `quality_error` the mean
    absolute error, `quality_bias` the mean of reached less expected. `cost_factor` is the typical factor
    (geometric mean, at least 1) between predicted and charged seconds, `cost_bias` how many times as long as
    predicted trials took (geometric mean). None where nothing can be said.
    """

    decisions: int
    failed: int
    within: dict[str, float] | None
    quality_error: float | None
    quality_bias: float | None
    cost_factor: float | None
    cost_bias: float | None

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready, with the verdict."""
        return {**asdict(self), "verdict": self.verdict}

    @property
    def verdict(self) -> str:
        """What the coverage says, as far as so few decisions can say it."""
        number = self.decisions - self.failed
        if self.within is None or number < 5:
            return "too few to tell"
        for share in reversed(SHARES):
            claimed = int(share) / 100
            off = self.within[share] - claimed
            if abs(off) > max(UNLIKELY * math.sqrt(claimed * (1 - claimed) / number), MATTERS):
                return "over-confident" if off < 0 else "too cautious"
        return "as claimed"


def calibrate(outcomes: Sequence[Outcome]) -> Calibration:
    """The calibration of some decisions.

    >>> found = calibrate([Outcome(0.8, normal_intervals(0.8, 0.1), 0.82, 10.0, 20.0)])
    >>> found.within, round(found.quality_bias, 3), round(found.cost_bias, 3)
    ({'50': 1.0, '90': 1.0}, 0.02, 2.0)
    """
    ended = [(outcome, outcome.quality) for outcome in outcomes if outcome.quality is not None]
    apart = [quality - outcome.expected for outcome, quality in ended]
    logs = [
        math.log(outcome.seconds / outcome.predicted_seconds)
        for outcome, _ in ended
        if outcome.seconds > 0 and outcome.predicted_seconds > 0
    ]
    within = {
        share: _mean([_inside(outcome.intervals.get(share), quality) for outcome, quality in ended])
        for share in SHARES
    }
    return Calibration(
        decisions=len(outcomes),
        failed=len(outcomes) - len(ended),
        within={share: value for share, value in within.items() if value is not None} or None,
        quality_error=_mean([abs(off) for off in apart]),
        quality_bias=_mean(apart),
        cost_factor=_exp_mean([abs(off) for off in logs]),
        cost_bias=_exp_mean(logs),
    )


def _inside(interval: tuple[float, float] | None, quality: float) -> float:
    return float(interval is not None and interval[0] <= quality <= interval[1])


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _exp_mean(logs: Sequence[float]) -> float | None:
    mean = _mean(logs)
    return None if mean is None else math.exp(mean)
