from __future__ import annotations

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from easeml_core.allocator import cost
from easeml_core.allocator.cost import CostModel, CostObservation

trials = st.builds(
    CostObservation,
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from(["cpu", "gpu"]),
    st.floats(1e3, 1e18),
    st.floats(1e-3, 1e6),
)


def took(arm, work, rate=5e9, overhead=1.0, kind="cpu", factor=1.0):
    return CostObservation(arm, kind, work, (overhead + work / rate) * factor)


def test_before_any_trial_it_is_the_default_throughput():
    model = CostModel()
    assert model.predict("a", "cpu", 5e11) == pytest.approx(101.0)
    assert model.predict("a", "gpu", 2e14) == pytest.approx(101.0)
    assert model.predict("a", "tpu", 5e11) == pytest.approx(101.0)
    assert CostModel.fit([]) == model


@given(st.lists(trials, max_size=12), trials)
@settings(max_examples=100, deadline=None)
def test_predictions_are_finite_positive_and_rise_with_work(observations, asked):
    model = CostModel.fit(observations)
    less, more = (model.predict(asked.arm, asked.device_kind, asked.work * scale) for scale in (1, 10))
    assert cost.SHORTEST <= less <= more <= cost.LONGEST
    assert math.isfinite(more)


@given(st.lists(trials, min_size=1, max_size=10), st.randoms(use_true_random=False))
@settings(max_examples=50, deadline=None)
def test_order_of_trials_does_not_matter(observations, random):
    again = list(observations)
    random.shuffle(again)
    assert CostModel.fit(observations) == CostModel.fit(again)


def test_the_first_trial_moves_its_own_arm_most_and_the_others_too():
    slow = took("a", 1e12, rate=5e8)  # ten times slower than the default: 2001 s, not 201
    model = CostModel.fit([slow])
    own, other, elsewhere = (
        model.predict("a", "cpu", 1e12),
        model.predict("b", "cpu", 1e12),
        model.predict("b", "gpu", 1e12),
    )
    assert 1200 < own <= 2001
    assert 201 < other < own
    assert elsewhere == pytest.approx(CostModel().predict("b", "gpu", 1e12))


def test_what_an_arm_showed_on_one_kind_of_device_is_a_hint_for_the_other():
    model = CostModel.fit([took("a", 1e12, rate=1e8), *(took(arm, 1e12) for arm in "bcd")])
    assert model.predict("a", "gpu", 1e14) > 2 * model.predict("b", "gpu", 1e14)


def test_with_trials_it_comes_close():
    draw = random.Random(0)
    rates = {"a": 2e9, "b": 4e8, "c": 2.5e10}

    def sample(arm):
        return took(arm, 10 ** draw.uniform(8, 12), rates[arm], 3.0, factor=math.exp(draw.gauss(0, 0.1)))

    model = CostModel.fit([sample(arm) for arm in rates for _ in range(12)])
    for arm in rates:
        for _ in range(20):
            trial = sample(arm)
            assert model.predict(arm, "cpu", trial.work) == pytest.approx(trial.seconds, rel=0.5)
    assert model.overhead["cpu"] == pytest.approx(3.0, rel=0.5)


def test_an_outlier_hardly_counts():
    regular = [took("a", 1e11) for _ in range(6)]
    calm = CostModel.fit(regular).predict("a", "cpu", 1e11)
    with_outlier = CostModel.fit([*regular, took("a", 1e11, factor=1000)]).predict("a", "cpu", 1e11)
    assert with_outlier == pytest.approx(calm, rel=0.25)


def test_unit_of_work_does_not_matter_once_there_are_trials_enough():
    observations = [took("a", 10.0**power) for power in (9, 10, 11, 12)] * 10
    in_mega = [CostObservation(o.arm, o.device_kind, o.work / 1e6, o.seconds) for o in observations]
    first = CostModel.fit(observations).predict("a", "cpu", 1e11)
    assert CostModel.fit(in_mega).predict("a", "cpu", 1e5) == pytest.approx(first, rel=0.15)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_what_is_no_cost_is_refused(value):
    with pytest.raises(ValueError, match="seconds of a"):
        CostObservation("a", "cpu", 1.0, value)
    with pytest.raises(ValueError, match="work of a"):
        CostObservation("a", "cpu", value, 1.0)
    with pytest.raises(ValueError, match="work of a"):
        CostModel().predict("a", "cpu", value)


def test_equal_times_of_unequal_works_are_overhead_and_say_nothing_about_another_framework():
    """Five small estimators that all take six seconds: FLOPs did not matter, so a network is not slow."""
    works = [1e5, 3e6, 4e7, 2e8, 9e6]
    small = [CostObservation(f"estimator-{k}", "cpu/sklearn", work, 6.0) for k, work in enumerate(works)]
    model = CostModel.fit(small)
    assert model.overhead["cpu/sklearn"] > 3.0
    assert model.predict("estimator-9", "cpu/sklearn", 1e7) < 15.0
    untold = CostModel().predict("net", "cpu/torch", 2e11)
    assert model.predict("net", "cpu/torch", 2e11) == untold
    assert untold < 100.0


def test_a_margin_holds_almost_all_trials_and_shrinks_as_they_come():
    draw = random.Random(3)
    level = {f"m{k}": draw.gauss(0, 1) for k in range(8)}

    def sample(arm):
        work = 10 ** draw.uniform(10, 12)
        return CostObservation(arm, "cpu", work, 1.0 + work / 5e9 * math.exp(level[arm] + draw.gauss(0, 0.4)))

    seen = [sample(arm) for arm in list(level)[:6] for _ in range(6)]
    few, many = CostModel.fit(seen[:3]), CostModel.fit(seen)
    known, new, elsewhere = many.margin("m0", "cpu"), many.margin("m7", "cpu"), many.margin("m0", "gpu")
    assert 2.5 < known < 4 < new < 40 < 150 < elsewhere == CostModel().margin("m0", "cpu")
    assert few.margin("m5", "cpu") > many.margin("m5", "cpu")
    later = [sample(arm) for arm in list(level)[:6] for _ in range(100)]
    inside = [t.seconds <= many.margin(t.arm, "cpu") * many.predict(t.arm, "cpu", t.work) for t in later]
    assert sum(inside) / len(inside) > 0.96


def test_an_arm_known_from_another_device_has_less_margin_than_one_never_seen():
    trials = [CostObservation("a", "gpu", 1e13, 9.0)] * 5 + [CostObservation("b", "cpu", 1e11, 30.0)] * 5
    model = CostModel.fit(trials)
    assert model.margin("b", "cpu") < model.margin("a", "cpu") < model.margin("c", "cpu")
