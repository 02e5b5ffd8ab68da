"""What holds of every policy whatever it is asked: requests with any history, failures, running trials."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from easeml_core.allocator import kernels, priors
from easeml_core.allocator.ladder import check
from easeml_core.allocator.policy import make_policy
from easeml_core.allocator.testing import all_policies, rescaled, sample_history, sample_request, shuffled
from easeml_core.allocator.types import ActiveTrial, CompletedTrial, Decision, Ended, Nothing

PRIORS = ("sample", "catalogue", "none", *kernels.KERNELS)
# The two that decide on task and candidate at once as often as all others together.
policies = st.sampled_from(["easeml", "mm_gp_ei"]) | st.sampled_from(all_policies())


def with_prior(request, kind, past, seed):
    """`request` with a belief of another making, of a ragged history of `past` tasks."""
    if kind == "sample":
        return request
    if kind == "none":
        return replace(request, priors={})
    [(template, prior)] = request.priors.items()
    history = sample_history(prior.arms, past, seed)
    made = (
        priors.build(template, prior.arms, history)
        if kind == "catalogue"
        else kernels.tuned(template, prior.arms, history, kind)
    )
    return replace(request, priors={template: made})


requests = st.builds(
    lambda seed, tasks, arms, kind, past: with_prior(
        sample_request(seed, tasks=tasks, arms=arms), kind, past, seed
    ),
    st.integers(0, 10**6),
    st.integers(1, 5),
    st.integers(1, 7),
    st.sampled_from(PRIORS),
    st.integers(0, 9),
)


def choice(answer):
    return (answer.choice.task, answer.choice.arm) if isinstance(answer, Decision) else None


@given(policies, requests, st.integers(0, 10**6))
@settings(max_examples=200, deadline=None)
def test_permuting_tasks_arms_and_trials_permutes_the_decision(name, request, seed):
    policy = make_policy(name)
    assert choice(policy.choose(request)) == choice(policy.choose(shuffled(request, seed)))


@given(policies, requests, st.integers(-20, 20))
@settings(max_examples=200, deadline=None)
def test_the_unit_of_cost_does_not_change_the_decision(name, request, power):
    # A power of two rounds nothing: what is a tie stays one.
    policy = make_policy(name)
    assert choice(policy.choose(request)) == choice(policy.choose(rescaled(request, 2.0**power)))


def ended(request, draw, order):
    """`request` after one of its running trials came to some end."""
    busy = [task for task in request.tasks if task.active]
    task = draw.choice(busy)
    trial = draw.choice(task.active)
    how = draw.choice([Ended.SUCCEEDED, Ended.SUCCEEDED, *Ended])
    quality = draw.random() if how is Ended.SUCCEEDED else None
    done = CompletedTrial(trial.arm, how, quality, trial.predicted_cost, order)
    now = replace(
        task, completed=(*task.completed, done), active=tuple(t for t in task.active if t is not trial)
    )
    return replace(request, tasks=tuple(now if other is task else other for other in request.tasks))


def started(request, decision):
    """`request` after the decision's trial began on a device, and one trial less is left of its budget."""
    arm, cost = decision.choice.arm, decision.choice.predicted_cost
    tasks = []
    for task in request.tasks:
        if task.task == decision.choice.task:
            left = None if task.remaining_trials is None else task.remaining_trials - 1
            active = (*task.active, ActiveTrial(arm, f"cpu{request.step}", cost))
            tasks.append(replace(task, active=active, remaining_trials=left, since=0))
        else:
            tasks.append(replace(task, since=task.since + 1))
    return replace(request, tasks=tuple(tasks), step=request.step + 1, memory=decision.memory)


@given(policies, requests, st.integers(1, 3), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_nothing_that_ended_or_runs_is_ever_chosen_again(name, request, devices, draw):
    """Played to the end on several devices, with trials that fail, diverge and are lost."""
    policy, order = make_policy(name), 1000
    tried = {(t.task, trial.arm) for t in request.tasks for trial in (*t.completed, *t.active)}
    while True:
        running = sum(len(task.active) for task in request.tasks)
        answer = policy.choose(request) if running < devices else None
        if isinstance(answer, Decision):
            check(answer, request)
            assert choice(answer) not in tried
            tried.add(choice(answer))
            request = started(request, answer)
        elif running:
            request = ended(request, draw, order)
            order += 1
        else:
            break
    assert isinstance(answer, Nothing)
    assert not any(task.eligible() for task in request.tasks)
