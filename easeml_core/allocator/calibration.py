"""Were the predictions of past decisions what they claimed to be?

Of each decision whose trial succeeded: the expected quality and its deviation, what was reached, and the
predicted and the charged seconds. The default policy's predictions have the tails of Student's t with 3
degrees of freedom, whose deviation is sqrt(3) times its scale; so the central interval that holds a share of
it is `expected ± WIDTHS[share] * deviation`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from easeml_core.allocator.warp import student_quantile

SHARES = (0.5, 0.9)
WIDTHS = {share: student_quantile(0.5 + share / 2) / math.sqrt(3) for share in SHARES}


@dataclass(frozen=True, slots=True)
class Outcome:
    """One decision and what came of it. Qualities in [0, 1], times in seconds."""

    expected: float
    deviation: float
    quality: float
    predicted_seconds: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """`within` is the share of outcomes inside the central interval of each of SHARES; `quality_error` the
    mean absolute error, `quality_bias` the mean of reached less expected; `cost_factor` the typical factor
    (geometric mean, at least 1) between predicted and charged seconds, None without charged time."""

    decisions: int
    within: dict[float, float]
    quality_error: float
    quality_bias: float
    cost_factor: float | None

    def __str__(self) -> str:
        inside = ", ".join(
            f"{found:.0%} within the {share:.0%} interval" for share, found in self.within.items()
        )
        cost = "" if self.cost_factor is None else f"; costs off by a factor of {self.cost_factor:.2f}"
        return f"{self.decisions} decisions: {inside}; qualities off by {self.quality_error:.3f}{cost}"


def calibrate(outcomes: Sequence[Outcome]) -> Calibration | None:
    """The calibration of some decisions; None without any.

    >>> found = calibrate([Outcome(0.8, 0.1, 0.82, 10.0, 20.0)])
    >>> found.within[0.9], round(found.quality_bias, 3), round(found.cost_factor, 3)
    (1.0, 0.02, 2.0)
    """
    if not outcomes:
        return None
    number = len(outcomes)
    apart = [outcome.quality - outcome.expected for outcome in outcomes]
    within = {
        share: sum(
            abs(off) <= width * outcome.deviation for off, outcome in zip(apart, outcomes, strict=True)
        )
        / number
        for share, width in WIDTHS.items()
    }
    factors = [
        abs(math.log(outcome.seconds / outcome.predicted_seconds))
        for outcome in outcomes
        if outcome.seconds > 0 and outcome.predicted_seconds > 0
    ]
    return Calibration(
        decisions=number,
        within=within,
        quality_error=sum(abs(off) for off in apart) / number,
        quality_bias=sum(apart) / number,
        cost_factor=math.exp(sum(factors) / len(factors)) if factors else None,
    )
