from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from easeml_core.allocator import experts, ragged, warp
from easeml_core.allocator.belief import EXPERTS, SHARES, Family, predict
from easeml_core.allocator.experts import HEAVY, LIGHT


def sample_experts(arms=6, past=9, seed=0, tails=HEAVY):
    draw = np.random.default_rng(seed)
    level = draw.normal(0.8, 0.5, (past, 1))
    rows = level + draw.normal(0, 0.4, (1, arms)) + draw.normal(0, 0.2, (past, arms))
    completed = ragged.complete(rows, np.full(arms, 0.5), np.eye(arms) + 0.5)
    shares = (0.3, 0.3, 0.4) if tails is HEAVY else (1.0,)
    chosen = experts.Settings(tails, warp.LOGIT, experts.Shrinkage(0.2, 0.1), shares)
    return experts.build(rows, completed, [f"past {i}" for i in range(past)], chosen)


def dense(made, arms, values):
    """Means `(P, K)`, deviations `(P, K)` and log weights of the Student-t processes, by dense algebra."""
    index, t = list(arms), len(arms)
    jitter = 1e-9 * np.diagonal(made.covariance).mean() * np.eye(t)
    gram = made.covariance[np.ix_(index, index)] + jitter
    solved = np.linalg.solve(gram, made.covariance[index])
    left = np.diagonal(made.covariance) - (made.covariance[index] * solved).sum(axis=0)
    nu = made.tails.nu
    constant = math.lgamma((nu + t) / 2) - math.lgamma(nu / 2) - t / 2 * math.log(nu / 2)
    means, scales, logs = [], [], []
    for centre, width, weight in zip(made.centres, made.widths, made.weights, strict=True):
        apart = values - centre[index]
        q = apart @ np.linalg.solve(gram, apart) / width**2
        means.append(centre + apart @ solved)
        scales.append(width * np.sqrt(left * (nu + q) / (nu + t)))
        _, log_det = np.linalg.slogdet(gram)
        density = -0.5 * log_det - t * np.log(width) - 0.5 * (nu + t) * np.log1p(q / nu)
        logs.append(weight + density + constant)
    return np.array(means), np.array(scales), np.array(logs)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 5), st.sampled_from([HEAVY, LIGHT]))
def test_posterior_equals_a_dense_reference(seed, trials, tails):
    made = sample_experts(seed=seed, tails=tails)
    draw = np.random.default_rng(seed)
    arms, values = list(draw.permutation(6)[:trials]), draw.normal(1, 0.5, trials)
    means, scales, logs = dense(made, arms, values)
    family = Family.of(made, arms, list(values))
    log_w, _ = family.evidence()
    np.testing.assert_allclose(log_w, logs, atol=1e-8, rtol=1e-8)
    prediction = predict([family], [0.0], warp.LOGIT)
    keep = np.sort(np.argsort(-logs, kind="stable")[:EXPERTS])
    open_arms = [arm for arm in range(6) if arm not in arms]
    np.testing.assert_allclose(prediction.mean, means[keep], atol=1e-8)
    np.testing.assert_allclose(prediction.scale[:, open_arms], scales[keep][:, open_arms], atol=1e-8)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.randoms(use_true_random=False))
def test_order_and_way_of_observing_do_not_matter(seed, random):
    made = sample_experts(seed=seed)
    observed = [(arm, 0.3 * arm) for arm in range(4)]
    shuffled = random.sample(observed, 4)
    at_once = Family.of(made, *map(list, zip(*observed, strict=True)))
    one_by_one = Family.of(made, [], [])
    for arm, value in shuffled:
        one_by_one = one_by_one.observe(arm, value)
    first, second = (predict([family], [0.0], warp.LOGIT) for family in (at_once, one_by_one))
    np.testing.assert_allclose(first.mean[:, 4:], second.mean[:, 4:], atol=1e-6)
    np.testing.assert_allclose(first.scale[:, 4:], second.scale[:, 4:], atol=1e-6)
    assert at_once.total() == pytest.approx(one_by_one.total(), abs=1e-6)


def test_a_running_trial_moves_no_mean_and_leaves_less_to_learn():
    family = Family.of(sample_experts(), [0], [1.0])
    after = family.observe(2, None)
    before, now = (predict([made], [0.0], warp.LOGIT) for made in (family, after))
    assert (after.left <= family.left + 1e-12).all()
    assert after.left[2] < 1e-6
    assert before.mean.shape == now.mean.shape


def test_the_past_task_that_is_like_the_new_one_takes_over():
    made = sample_experts(past=9, arms=8)
    like = made.centres[4]  # the narrowest expert of past task 4
    family = Family.of(made, [0, 1, 2, 3, 4, 5], [float(like[arm]) for arm in range(6)])
    log_w, _ = family.evidence()
    assert made.owners[int(np.argmax(log_w))] == "past 4"
    without, _ = family.evidence(without="past 4")
    assert np.isneginf(without[[owner == "past 4" for owner in made.owners]]).all()


@pytest.mark.parametrize("tails", [HEAVY, LIGHT])
def test_expected_improvement_by_hand_and_by_sampling(tails):
    prediction = predict([Family.of(sample_experts(tails=tails), [1], [0.9])], [0.0], warp.LOGIT)
    qualities = prediction.qualities([3])
    draw = np.random.default_rng(0)
    which = draw.choice(len(prediction.weights), 200_000, p=prediction.weights)
    noise = draw.standard_t(3, 200_000) if tails is HEAVY else draw.standard_normal(200_000)

    values = prediction.mean[which, 3] + prediction.scale[which, 3] * tails.honest * noise
    sampled = warp.unwarp(values, warp.LOGIT)
    mean, deviation = prediction.moments(qualities)
    assert mean[0] == pytest.approx(sampled.mean(), abs=0.005)
    assert deviation[0] == pytest.approx(sampled.std(), rel=0.25)
    improvement = prediction.improvement(qualities, 0.7)[0]
    assert improvement == pytest.approx(np.maximum(sampled - 0.7, 0).mean(), abs=0.005)
    low, high = prediction.interval(3, 0.9)
    assert np.mean((sampled >= low) & (sampled <= high)) == pytest.approx(0.9, abs=0.01)


def test_a_covariance_that_needs_jitter_is_conditioned_on_alike_both_ways_and_says_so():
    sound = sample_experts()
    values, vectors = np.linalg.eigh(sound.covariance)
    values[0] = -1e-6 * np.diagonal(sound.covariance).mean()
    broken = replace(sound, covariance=(vectors * values) @ vectors.T)
    arms, seen = list(range(6)), [0.9, 0.5, 1.2, 0.7, 0.8, 1.0]
    at_once = Family.of(broken, arms, seen)
    assert at_once.jitter > Family.of(sound, arms, seen).jitter
    step = replace(Family.of(broken, (), ()), jitter=at_once.jitter)
    for arm, value in zip(arms, seen, strict=True):
        step = step.observe(arm, value)
    assert step.jitter == at_once.jitter
    np.testing.assert_allclose(step.innovations, at_once.innovations, rtol=1e-3)


def test_shares_are_a_distribution():
    assert sum(mass for _, mass in SHARES) == pytest.approx(1)
    edges = np.cumsum([0.0, *(mass for _, mass in SHARES)])
    for (at, _), low, high in zip(SHARES, edges, edges[1:], strict=False):
        assert low < at < high


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.sampled_from(warp.SOFT))
def test_warping_there_and_back(values, soft):
    quality = np.array(values)
    np.testing.assert_allclose(warp.unwarp(warp.warp(quality, soft), soft), quality, atol=1e-9)
    step = 1e-6
    slope = (warp.warp(quality + step, soft) - warp.warp(quality - step, soft)) / (2 * step)
    np.testing.assert_allclose(warp.slope(quality, soft), slope, rtol=1e-4)


@pytest.mark.parametrize(
    ("share", "expected"), [(0.5, 0.0), (0.9, 1.637744), (0.975, 3.182446), (0.995, 5.840909)]
)
def test_student_quantiles_are_those_of_the_tables(share, expected):
    assert warp.student_quantile(share) == pytest.approx(expected, abs=1e-5)
    assert warp.student_quantile(1 - share) == pytest.approx(-expected, abs=1e-5)


@pytest.mark.parametrize(("share", "expected"), [(0.5, 0.0), (0.9, 1.281552), (0.995, 2.575829)])
def test_normal_quantiles_are_those_of_the_tables(share, expected):
    assert warp.quantile(share, warp.normal) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("trials", [0, 1, 4])
def test_many_tasks_together_are_the_same_as_each_alone(trials, broken):
    """Also where the covariance of some of them needs jitter."""
    made = sample_experts()
    if broken:  # arms 0 and 1 are alike beyond what is possible
        twice = [0, 0, 2, 3, 4, 5]
        covariance = made.covariance[np.ix_(twice, twice)]
        covariance[0, 1] = covariance[1, 0] = (1 + 1e-6) * covariance[0, 0]
        made = replace(made, covariance=covariance)
    draw = np.random.default_rng(0)
    arms = np.array([np.arange(6)[:trials], *(draw.permutation(6)[:trials] for _ in range(4))])
    values = draw.normal(1, 0.5, arms.shape)
    together = Family.of_many(made, arms, values)
    alone = [Family.of(made, list(a), list(v)) for a, v in zip(arms, values, strict=True)]
    assert any(family.jitter > 1e-9 for family in alone) == (broken and trials > 1)
    for one, other in zip(together, alone, strict=True):
        assert (one.played, one.jitter) == (other.played, other.jitter)
        for name in ("rows", "innovations", "left", "log_det"):
            np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-9, atol=1e-9)
