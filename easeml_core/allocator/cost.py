"""How long a trial will take: from its work in FLOPs to seconds, corrected by what trials really took.

    seconds = overhead + work * slowness,     log slowness = device + arm + own

`device` is the level of a device kind; `arm` how much slower than that one arm is everywhere (FLOPs say
little about small kernels, data loading or scikit-learn); `own` what is special to the arm on that kind.
They are random effects about the defaults, with the deviations below, so their most likely values (the
"best linear unbiased prediction", Robinson 1991) are one ridge regression: a first trial corrects its own
arm by most of what it was off, the other arms of the device by a large part, and with more trials each arm
comes to stand for itself.

A device kind may name a framework too (`cpu/sklearn`): FLOPs of scikit-learn's estimators and of networks
are not worth the same seconds, and what one kind of trial took must not speak for the other. Several devices
as one are a kind of their own (`gpux4/torch`), taken to be as fast as all of them together at first.

An outlier (a busy machine, a swapped-out process) counts less the further it is from the median of its arm
on its device, beyond HUBER. `overhead` is the same for all trials of a kind (start, data, logging): the
value, of a fixed grid about OVERHEAD, that explains the trials with the smallest effects and residuals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from easeml_core.allocator.types import Array

# FLOP per second that training reaches. The work of networks counts what they do besides, so that theirs is
# near the peak (`catalog.facts.Machine`): of one core, or of a GPU.
DEFAULT_THROUGHPUT: Mapping[str, float] = MappingProxyType(
    {"cpu": 5e9, "gpu": 2e12, "cpu/torch": 1.2e11, "gpu/torch": 1e14}
)
OVERHEAD = 1.0  # seconds
# Deviations in log units: how far the defaults may be off, and how much trials of one arm differ.
DEVICE_DEVIATION, ARM_DEVIATION, OWN_DEVIATION, TRIAL_DEVIATION = 2.0, 1.0, 0.5, 0.4
OVERHEAD_DEVIATION = 1.0
HUBER = 0.7  # log units: a factor of 2
SHORTEST, LONGEST = 0.05, 1e7  # seconds; what a prediction can be
ALMOST_ALL = 2.326  # deviations of a normal distribution below which 99 % lie
_GRID: tuple[float, ...] = tuple(OVERHEAD * 2.0 ** (step / 2) for step in range(-8, 9))


@dataclass(frozen=True, slots=True)
class CostObservation:
    """One trial that ran to its end: `work` in FLOPs, `seconds` of compute time, both positive."""

    arm: str
    device_kind: str
    work: float
    seconds: float

    def __post_init__(self) -> None:
        for name, value in (("work", self.work), ("seconds", self.seconds)):
            if not (math.isfinite(value) and value > 0):
                raise ValueError(f"{name} of {self.arm} must be finite and positive; got {value}")


@dataclass(frozen=True, eq=False)
class Rates:
    """`overhead` in seconds and `slowness` in log seconds per FLOP of A `arms`, each `(A,)`."""

    arms: Sequence[str]
    overhead: Array
    slowness: Array

    def seconds(self, work: Array) -> Array:
        """Seconds that each arm will take for its `work` `(A,)` in FLOPs; finite and positive.

        Raises ValueError where work is not finite or not positive.
        """
        wrong = np.flatnonzero(~(np.isfinite(work) & (work > 0)))
        if len(wrong):
            raise ValueError(
                f"work of {self.arms[wrong[0]]} must be finite and positive; got {work[wrong[0]]}"
            )
        computing = np.exp(np.minimum(np.log(work) + self.slowness, math.log(LONGEST)))
        predicted: Array = np.clip(self.overhead + computing, SHORTEST, LONGEST)
        return predicted


@dataclass(frozen=True)
class CostModel:
    """Predicts seconds. `CostModel()` knows the defaults only; `fit` learns from trials.

    `overhead` is in seconds by device kind; `device`, `arm` and `own` (by arm and kind) are corrections of
    the default, in log units of seconds per FLOP. `variance` is how uncertain their sum is, by arm and kind;
    the arm `""` stands for all arms that no trial had.
    """

    overhead: Mapping[str, float] = field(default_factory=dict)
    device: Mapping[str, float] = field(default_factory=dict)
    arm: Mapping[str, float] = field(default_factory=dict)
    own: Mapping[tuple[str, str], float] = field(default_factory=dict)
    variance: Mapping[tuple[str, str], float] = field(default_factory=dict)

    @classmethod
    def fit(cls, observations: Sequence[CostObservation]) -> CostModel:
        """Learn from trials of any arms on any device kinds; the order of trials does not matter."""
        ordered = sorted(observations, key=lambda o: (o.device_kind, o.arm, o.work, o.seconds))
        kinds = sorted({trial.device_kind for trial in ordered})
        overhead = {
            kind: _overhead(kind, [trial for trial in ordered if trial.device_kind == kind]) for kind in kinds
        }
        return _effects(ordered, overhead, with_variance=True)

    def predict(self, arm: str, device_kind: str, work: float) -> float:
        """Seconds that `arm` will take for `work` FLOPs on `device_kind`; finite and positive.

        Raises ValueError where work is not finite or not positive.
        """
        found = self.rates([arm], [device_kind]).seconds(np.array([work]))
        return float(found[0])

    def rates(self, arms: Sequence[str], device_kinds: Sequence[str]) -> Rates:
        """What `predict` goes by for each of some arms, each on its device kind, for many predictions."""
        pairs = list(zip(arms, device_kinds, strict=True))
        return Rates(
            arms,
            np.array([self.overhead.get(kind, OVERHEAD) for _, kind in pairs]),
            np.array(
                [
                    _default(kind)
                    + self.device.get(kind, 0.0)
                    + self.arm.get(arm, 0.0)
                    + self.own.get((arm, kind), 0.0)
                    for arm, kind in pairs
                ]
            ),
        )

    def margin(self, arm: str, device_kind: str) -> float:
        """How many times its prediction a trial may take: 99 of 100 take less. From about 2.5 for an arm that
        was often seen on the device, to hundreds for one on a device that nothing ran on yet."""
        unseen = DEVICE_DEVIATION**2 + ARM_DEVIATION**2 + OWN_DEVIATION**2
        known = self.variance.get((arm, device_kind), self.variance.get(("", device_kind), unseen))
        return math.exp(ALMOST_ALL * math.sqrt(known + TRIAL_DEVIATION**2))


def _default(device_kind: str) -> float:
    device, slash, framework = device_kind.partition("/")
    device, _, count = device.partition("x")
    one = DEFAULT_THROUGHPUT.get(device, DEFAULT_THROUGHPUT["cpu"])
    one = DEFAULT_THROUGHPUT.get(device + slash + framework, one)
    return -math.log(one * (int(count) if count.isdigit() else 1))


def _correction(trial: CostObservation, overhead: float) -> float:
    """Log slowness of a trial beyond the default."""
    # A trial as short as the overhead still computed something: never less than a tenth of its time.
    computing = max(trial.seconds - overhead, 0.1 * trial.seconds)
    return math.log(computing / trial.work) - _default(trial.device_kind)


def _effects(
    trials: Sequence[CostObservation], overhead: Mapping[str, float], *, with_variance: bool = False
) -> CostModel:
    """The most likely effects given the overheads: (X'WX + ridge) effects = X'W corrections."""
    if not trials:
        return CostModel()
    kinds = sorted({trial.device_kind for trial in trials})
    arms = sorted({trial.arm for trial in trials})
    pairs = sorted({(trial.arm, trial.device_kind) for trial in trials})
    corrections = np.array([_correction(trial, overhead[trial.device_kind]) for trial in trials])
    numbers = {pair: number for number, pair in enumerate(pairs)}
    pair_of = np.array([numbers[trial.arm, trial.device_kind] for trial in trials])
    design = np.zeros((len(trials), len(kinds) + len(arms) + len(pairs)))
    rows = np.arange(len(trials))
    design[rows, [kinds.index(trial.device_kind) for trial in trials]] = 1
    design[rows, [len(kinds) + arms.index(trial.arm) for trial in trials]] = 1
    design[rows, len(kinds) + len(arms) + pair_of] = 1
    deviations = np.repeat(
        [DEVICE_DEVIATION, ARM_DEVIATION, OWN_DEVIATION], [len(kinds), len(arms), len(pairs)]
    )
    weighted = design * _weights(corrections, pair_of)[:, None]
    ridge = np.diag((TRIAL_DEVIATION / deviations) ** 2)
    inverse: Array = np.asarray(np.linalg.inv(weighted.T @ design + ridge), dtype=np.float64)
    effects = [float(e) for e in inverse @ (weighted.T @ corrections)]
    return CostModel(
        overhead=dict(overhead),
        device=dict(zip(kinds, effects, strict=False)),
        arm=dict(zip(arms, effects[len(kinds) :], strict=False)),
        own=dict(zip(pairs, effects[len(kinds) + len(arms) :], strict=True)),
        variance=_variances(kinds, arms, pairs, TRIAL_DEVIATION**2 * inverse) if with_variance else {},
    )


def _variances(
    kinds: list[str], arms: list[str], pairs: list[tuple[str, str]], covariance: Array
) -> dict[tuple[str, str], float]:
    """Variance of device + arm + own for every arm, also `""`, on every kind; `covariance` is that of all
    effects, in that order. An effect that no trial had adds its variance."""
    place = {pair: len(kinds) + len(arms) + number for number, pair in enumerate(pairs)}
    found = {}
    for k, kind in enumerate(kinds):
        found["", kind] = float(covariance[k, k]) + ARM_DEVIATION**2 + OWN_DEVIATION**2
        for a, arm in enumerate(arms, start=len(kinds)):
            own = place.get((arm, kind))
            at = [k, a] if own is None else [k, a, own]
            apart = OWN_DEVIATION**2 if own is None else 0.0
            found[arm, kind] = float(covariance[np.ix_(at, at)].sum()) + apart
    return found


def _weights(corrections: Array, group: np.typing.NDArray[np.int64]) -> Array:
    """Huber's weight of each trial, shape `(N,)`, by its distance from the median of its group."""
    ordered, sizes = corrections[np.lexsort((corrections, group))], np.bincount(group)
    first = np.cumsum(sizes) - sizes
    middle = 0.5 * (ordered[first + (sizes - 1) // 2] + ordered[first + sizes // 2])
    weights: Array = HUBER / np.maximum(np.abs(corrections - middle[group]), HUBER)
    return weights


def _overhead(kind: str, trials: Sequence[CostObservation]) -> float:
    """The overhead of one device kind with the least Huber loss of its log residuals."""

    def loss(overhead: float) -> float:
        model = _effects(trials, {kind: overhead})
        total: float = 0.5 * (TRIAL_DEVIATION * math.log(overhead / OVERHEAD) / OVERHEAD_DEVIATION) ** 2
        # Each arm could stand for itself and leave nothing unexplained: an effect has its price.
        for effects, deviation in (
            (model.device, DEVICE_DEVIATION),
            (model.arm, ARM_DEVIATION),
            (model.own, OWN_DEVIATION),
        ):
            total += 0.5 * sum((TRIAL_DEVIATION * effect / deviation) ** 2 for effect in effects.values())
        for trial in trials:
            off = abs(math.log(trial.seconds / model.predict(trial.arm, kind, trial.work)))
            total += 0.5 * off * off if off <= HUBER else HUBER * (off - 0.5 * HUBER)
        return total

    return min(_GRID, key=loss)
