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
        return _seconds(self.overhead, np.log(work) + self.slowness)


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
        if not observations:
            return cls()
        ordered = sorted(observations, key=lambda o: (o.device_kind, o.arm, o.work, o.seconds))
        kind_of = [trial.device_kind for trial in ordered]
        overhead = {
            kind: _overhead(_Trials.of([trial for trial in ordered if trial.device_kind == kind]))
            for kind in sorted(set(kind_of))
        }
        trials = _Trials.of(ordered)
        found, covariance = trials.effects(np.array([overhead[kind] for kind in kind_of]))
        effects = found.tolist()
        kinds, arms, pairs = trials.kinds, trials.arms, trials.pairs
        return cls(
            overhead=overhead,
            device=dict(zip(kinds, effects, strict=False)),
            arm=dict(zip(arms, effects[len(kinds) :], strict=False)),
            own=dict(zip(pairs, effects[len(kinds) + len(arms) :], strict=True)),
            variance=_variances(kinds, arms, pairs, covariance),
        )

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


@dataclass(frozen=True, eq=False)
class _Trials:
    """N trials, in order, and which effects each has: X `(N, E)` of kinds, then arms, then pairs of both."""

    kinds: list[str]
    arms: list[str]
    pairs: list[tuple[str, str]]
    design: Array
    pair_of: np.typing.NDArray[np.int64]  # (N,)
    deviations: Array  # of the effects, (E,)
    seconds: Array  # (N,)
    usual: Array  # log seconds by the default throughput, (N,)

    @classmethod
    def of(cls, trials: Sequence[CostObservation]) -> _Trials:
        kinds = sorted({trial.device_kind for trial in trials})
        arms = sorted({trial.arm for trial in trials})
        pairs = sorted({(trial.arm, trial.device_kind) for trial in trials})
        pair_of = np.array([pairs.index((trial.arm, trial.device_kind)) for trial in trials])
        design, rows = np.zeros((len(trials), len(kinds) + len(arms) + len(pairs))), np.arange(len(trials))
        design[rows, [kinds.index(trial.device_kind) for trial in trials]] = 1
        design[rows, [len(kinds) + arms.index(trial.arm) for trial in trials]] = 1
        design[rows, len(kinds) + len(arms) + pair_of] = 1
        return cls(
            kinds,
            arms,
            pairs,
            design,
            pair_of,
            np.repeat([DEVICE_DEVIATION, ARM_DEVIATION, OWN_DEVIATION], [len(kinds), len(arms), len(pairs)]),
            np.array([trial.seconds for trial in trials]),
            np.array([math.log(trial.work) + _default(trial.device_kind) for trial in trials]),
        )

    def effects(self, overhead: Array) -> tuple[Array, Array]:
        """The most likely effects `(E,)` given the overhead `(N,)` of each trial, and their covariance:
        (X'WX + ridge) effects = X'W corrections."""
        # A trial as short as the overhead still computed something: never less than a tenth of its time.
        computing = np.maximum(self.seconds - overhead, 0.1 * self.seconds)
        corrections = np.log(computing) - self.usual
        weighted = self.design * _weights(corrections, self.pair_of)[:, None]
        ridge = np.diag((TRIAL_DEVIATION / self.deviations) ** 2)
        inverse: Array = np.asarray(np.linalg.inv(weighted.T @ self.design + ridge), dtype=np.float64)
        return inverse @ (weighted.T @ corrections), TRIAL_DEVIATION**2 * inverse


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


def _overhead(trials: _Trials) -> float:
    """The overhead with the least Huber loss of the log residuals of trials of one kind."""

    def loss(overhead: float) -> float:
        effects, _ = trials.effects(np.full(len(trials.seconds), overhead))
        predicted = _seconds(overhead, trials.usual + trials.design @ effects)
        off = np.abs(np.log(trials.seconds / predicted))
        unexplained = np.where(off <= HUBER, 0.5 * off * off, HUBER * (off - 0.5 * HUBER))
        # Each arm could stand for itself and leave nothing unexplained: an effect has its price.
        price = (TRIAL_DEVIATION * effects / trials.deviations) ** 2
        far = (TRIAL_DEVIATION * math.log(overhead / OVERHEAD) / OVERHEAD_DEVIATION) ** 2
        return 0.5 * far + 0.5 * float(price.sum()) + float(unexplained.sum())

    return min(_GRID, key=loss)


def _seconds(overhead: Array | float, computing: Array) -> Array:
    """What trials take that compute for so many log seconds."""
    predicted: Array = np.clip(overhead + np.exp(np.minimum(computing, math.log(LONGEST))), SHORTEST, LONGEST)
    return predicted
