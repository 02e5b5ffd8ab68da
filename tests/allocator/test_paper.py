"""The papers' policies against a second, plain implementation, choice by choice.

`Reference` classes are written from the formulas of ease.ml (sections 1.6 and 1.8) and MM-GP-EI (section 2)
with dense algebra and share no code with `easeml_core.allocator` but the types of a request.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import norm

from easeml_core.allocator import make_policy
from easeml_core.allocator.types import Decision, Prior
from easeml_core.replay import Table, replay

DELTA, FREEZE = 0.5, 10
NOISE = 1e-3


def posterior(prior, seen):
    """Mean and deviation of all arms after `seen` (arm, value), in the order of the prior's arms."""
    if not seen:
        return prior.mean, np.sqrt(np.diagonal(prior.covariance))
    at = [prior.arms.index(arm) for arm, _ in seen]
    across = prior.covariance[:, at]
    gain = across @ np.linalg.inv(prior.covariance[np.ix_(at, at)] + prior.noise * np.eye(len(at)))
    variance = np.diagonal(prior.covariance) - (gain * across).sum(axis=1)
    return prior.mean + gain @ (np.array([y for _, y in seen]) - prior.mean[at]), np.sqrt(variance)


class ReferenceTenants:
    """Algorithm 2 and HYBRID, for one device, equal weights and arms that all tasks share.

    B(a) of a play is its max_k B(k), which the theory takes it for: on a table no arm is run twice.
    """

    def __init__(self, hybrid, cost_aware):
        self.hybrid, self.cost_aware = hybrid, cost_aware
        self.gap, self.bounds_then = {}, {}
        self.before, self.unchanged, self.in_turn, self.switched = None, 0, False, False

    def bounds(self, task, prior, n, highest):
        t = len(task.completed) + 1
        ended = sorted(task.completed, key=lambda trial: trial.order)
        mean, deviation = posterior(prior, [(trial.arm, trial.quality) for trial in ended])
        k = len(task.arms)
        if not self.cost_aware:
            return mean + math.sqrt(math.log(k * t**2 / DELTA)) * deviation
        beta = 2 * highest * math.log(math.pi**2 * n * k * t**2 / (6 * DELTA))
        cost = {arm.name: arm.predicted_cost for arm in task.arms}
        return mean + np.sqrt(beta / np.array([cost[name] for name in prior.arms])) * deviation

    def choose(self, request):
        [prior] = request.priors.values()
        n, highest = len(request.tasks), max(a.predicted_cost for t in request.tasks for a in t.arms)
        bounds = {task.task: self.bounds(task, prior, n, highest) for task in request.tasks}
        for task in request.tasks:  # sigma-tilde of the task that was served last
            plays = sorted(task.completed, key=lambda trial: trial.order)
            old, count = self.gap.get(task.task, (math.inf, 0))
            if len(plays) > count:
                last = plays[-2].quality if count else 0.0
                gap = min(self.bounds_then[task.task].max(), last + old) - plays[-1].quality
                self.gap[task.task] = gap, len(plays)
        self.bounds_then = bounds
        taken = {task.task: {trial.arm for trial in task.completed} for task in request.tasks}
        free = [task for task in request.tasks if len(taken[task.task]) < len(task.arms)]

        def best_arm(task):
            left = [j for j, name in enumerate(prior.arms) if name not in taken[task.task]]
            return max(left, key=lambda j: bounds[task.task][j])

        cold = [task for task in free if not task.completed]
        if cold:
            served = cold[0]
        else:
            gaps = {task.task: self.gap[task.task][0] for task in free}
            inside = [task for task in free if gaps[task.task] >= sum(gaps.values()) / len(gaps) - 1e-12]
            now = [task.task for task in inside], sum(task.best for task in request.tasks)
            same = self.before is not None and now[0] == self.before[0] and now[1] <= self.before[1]
            self.unchanged = self.unchanged + 1 if same else 0
            self.before = now
            self.in_turn = self.in_turn or (self.hybrid and self.unchanged >= FREEZE)
            if self.in_turn:
                served = max(free, key=lambda task: (task.since, -task.opened))
            else:
                served = max(inside, key=lambda task: bounds[task.task][best_arm(task)] - task.best)
        return served.task, prior.arms[best_arm(served)]


class ReferenceMmGpEi:
    """EIrate over all tasks at once; arms that run are observed at what is expected of them."""

    def choose(self, request):
        [prior] = request.priors.values()
        plays = {task.task: len(task.completed) + len(task.active) for task in request.tasks}
        rates = []
        for task in request.tasks:
            seen = [(trial.arm, trial.quality) for trial in task.completed]
            mean, _ = posterior(prior, seen)
            running = [(trial.arm, mean[prior.arms.index(trial.arm)]) for trial in task.active]
            mean, deviation = posterior(prior, seen + running)
            taken = {arm for arm, _ in seen + running}
            for arm in task.arms:
                if arm.name not in taken:
                    j = prior.arms.index(arm.name)
                    u = (mean[j] - task.best) / deviation[j]
                    gain = deviation[j] * (u * norm.cdf(u) + norm.pdf(u))
                    rates.append((gain / arm.predicted_cost, -arm.predicted_cost, task, arm.name))
        cold = min((plays[task.task], task.opened) for *_, task, _ in rates)
        if cold[0] < 2:
            left = [rate for rate in rates if rate[2].opened == cold[1]]
            return _choice(max(left, key=lambda rate: rate[1]))
        return _choice(max(rates, key=lambda rate: rate[:2]))


def _choice(rate):
    return rate[2].task, rate[3]


class Compared:
    """Answers as `policy`, after comparing with what the reference would choose."""

    name = "compared"

    def __init__(self, policy, reference):
        self.policy, self.reference, self.compared = policy, reference, 0

    def choose(self, request):
        answer = self.policy.choose(request)
        if isinstance(answer, Decision):
            task, arm = self.reference.choose(request)
            self.differs = (self.compared, (answer.choice.task, answer.choice.arm), (task, arm))
            assert (answer.choice.task, answer.choice.arm) == (task, arm)
            self.compared += 1
        return answer


def game(seed, tasks, arms):
    """A random table, and a prior that is right about it in every second case and wrong in the others."""
    draw = np.random.default_rng(seed)
    names = tuple(f"m{j:02d}" for j in range(arms))
    factor = draw.normal(0, 0.1, (arms, 3))
    covariance = factor @ factor.T + 0.004 * np.eye(arms)
    mean = draw.uniform(0.4, 0.8, arms)
    truth = draw.multivariate_normal(mean, covariance, tasks) + draw.normal(0, 0.1, (tasks, 1))
    if seed % 2:
        truth = draw.beta(2, 2, (tasks, arms))
    table = Table(
        tuple(f"t{i}" for i in range(tasks)), names, truth.clip(0, 1), draw.uniform(1, 30, (tasks, arms))
    )
    return table, Prior(names, mean, covariance, NOISE, "test")


@pytest.mark.parametrize("name", ["greedy", "hybrid"])
@pytest.mark.parametrize("rule", ["", "+gp_ucb_oblivious"])
def test_greedy_and_hybrid_choose_as_algorithm_2_does(name, rule):
    frozen = 0
    for seed in range(8):
        table, prior = game(seed, tasks=2 + seed % 2, arms=24)
        reference = ReferenceTenants(hybrid=name == "hybrid", cost_aware=not rule)
        both = Compared(make_policy(name + rule), reference)
        trace = replay(table, both, prior=prior)
        # A choice that differs is an error of the policy, which the ladder would hide.
        assert not any(run.fallbacks for run in trace.runs), both.differs
        assert both.compared == len(trace.runs) == table.quality.size
        frozen += reference.in_turn
    assert (frozen > 0) == (name == "hybrid")


@pytest.mark.parametrize("devices", [1, 3])
def test_mm_gp_ei_takes_the_largest_rate(devices):
    for seed in range(6):
        table, prior = game(seed, tasks=2 + seed % 4, arms=8)
        both = Compared(make_policy("mm_gp_ei"), ReferenceMmGpEi())
        trace = replay(table, both, prior=prior, devices=devices)
        assert not any(run.fallbacks for run in trace.runs), both.differs
        assert both.compared == table.quality.size


@pytest.mark.parametrize(("rule", "per_second"), [("gp_ei", False), ("ei_per_second", True)])
def test_expected_improvement_is_that_of_the_textbook(rule, per_second):
    table, prior = game(1, tasks=2, arms=8)

    class Reference:
        def choose(self, request):
            task = max(request.tasks, key=lambda task: (len(task.completed) < 8, task.since, -task.opened))
            mean, deviation = posterior(prior, [(trial.arm, trial.quality) for trial in task.completed])
            taken = {trial.arm for trial in task.completed}
            u = (mean - task.best) / deviation
            gain = deviation * (u * norm.cdf(u) + norm.pdf(u))
            cost = np.array([arm.predicted_cost for arm in task.arms])
            rate = gain / cost if per_second else gain
            left = [j for j, arm in enumerate(prior.arms) if arm not in taken]
            return task.task, prior.arms[max(left, key=lambda j: rate[j])]

    both = Compared(make_policy(f"round_robin+{rule}"), Reference())
    trace = replay(table, both, prior=prior)
    assert not any(run.fallbacks for run in trace.runs), both.differs


@pytest.mark.parametrize("rule", ["most_cited", "most_recent"])
def test_fixed_orders_are_the_papers(rule):
    names = ["NIN", "GoogLeNet", "ResNet-50", "AlexNet", "BN-AlexNet", "ResNet-18", "VGG-16", "SqueezeNet"]
    cited = ["AlexNet", "VGG-16", "GoogLeNet", "ResNet-50", "ResNet-18", "BN-AlexNet", "NIN", "SqueezeNet"]
    recent = ["SqueezeNet", "BN-AlexNet", "ResNet-50", "ResNet-18", "VGG-16", "GoogLeNet", "NIN", "AlexNet"]
    table = Table(("t", "u"), tuple(names), np.full((2, 8), 0.5), np.ones((2, 8)))
    runs = replay(table, f"round_robin+{rule}").runs
    assert [names[run.arm] for run in runs][::2] == (cited if rule == "most_cited" else recent)
    assert all(one.task != other.task for one, other in pairwise(runs))


def test_the_scale_of_beta_is_part_of_the_name():
    table, prior = game(1, tasks=3, arms=8)
    assert make_policy("hybrid+gp_ucb*0.1").name == "hybrid+gp_ucb*0.1"
    assert make_policy("hybrid+gp_ucb*1").name == "hybrid"
    chosen = {
        name: [(run.task, run.arm) for run in replay(table, name, prior=prior).runs]
        for name in ("hybrid", "hybrid+gp_ucb*1", "hybrid+gp_ucb*0.01")
    }
    assert chosen["hybrid"] == chosen["hybrid+gp_ucb*1"] != chosen["hybrid+gp_ucb*0.01"]
