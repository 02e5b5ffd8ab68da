"""The fall-back ladder: a device never idles because a policy failed.

The configured policy is asked first, then round robin with GP-UCB, then round robin with the cheapest
candidate, which needs no prior and no linear algebra. A rung fails by raising anything at all, or by an
answer that does not hold: a task or arm that may not be started, a number that is not finite, memory that
is not JSON-ready, or "nothing" where something could be started. Every failure is logged and is part of the
decision, so people see it where they look for reasons.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from easeml_core.allocator.policy import make_policy
from easeml_core.allocator.types import AllocationRequest, Decision, Nothing, Policy, Scored
from easeml_core.errors import FallbackError

log = logging.getLogger(__name__)

LOWER_RUNGS = ("round_robin", "round_robin+cheapest")


def choose_with_ladder(
    policy: str | Policy, request: AllocationRequest, make: Callable[[str], Policy] | None = None
) -> Decision | Nothing:
    """Ask `policy` (a name, or a policy itself), then the lower rungs, until one answer holds.

    `make` makes a policy of its name, `make_policy` unless given. `Decision.fallbacks` has one line per
    failed rung, `name: what was wrong`. Raises `FallbackError` only if even the last rung failed.
    """
    failures: list[str] = []
    for name, rung in _rungs(policy):
        try:
            answer = ((make or make_policy)(rung) if isinstance(rung, str) else rung).choose(request)
            check(answer, request)
        except Exception as problem:  # the ladder is there for the errors that nobody foresaw
            failures.append(f"{name}: {type(problem).__name__}: {problem}")
            log.warning("policy %s failed, the next one decides", name, exc_info=True)
            continue
        return replace(answer, fallbacks=tuple(failures)) if isinstance(answer, Decision) else answer
    raise FallbackError("no policy could decide: " + "; ".join(failures))


def check(answer: Decision | Nothing, request: AllocationRequest) -> None:
    """Raise `FallbackError` unless `answer` may be acted on."""
    if isinstance(answer, Nothing):
        if any(task.eligible() for task in request.tasks):
            raise FallbackError(f"answered that nothing can be started ({answer.reason}), but something can")
        return
    if not isinstance(answer, Decision):
        raise FallbackError(f"answered {type(answer).__name__}, not a decision")
    choice = answer.choice
    # Of one task only: with a thousand open tasks this would take longer than the decision.
    eligible = (arm for task in request.tasks if task.task == choice.task for arm in task.eligible())
    arm = next((arm for arm in eligible if arm.name == choice.arm), None)
    if arm is None:
        raise FallbackError(f"chose {choice.arm} of {choice.task}, which may not be started now")
    if choice.predicted_cost != arm.predicted_cost:
        raise FallbackError(f"gave {choice.arm} a cost of {choice.predicted_cost}, not {arm.predicted_cost}")
    for scored in (choice, *answer.runners_up):
        _check_finite(scored)
    try:
        json.dumps(answer.memory, allow_nan=False)
    except (TypeError, ValueError) as problem:
        raise FallbackError(f"its memory is not JSON-ready: {problem}") from problem


def _check_finite(scored: Scored) -> None:
    numbers = (scored.score, scored.expected_quality, scored.deviation, scored.predicted_cost)
    if not all(math.isfinite(number) for number in numbers):
        raise FallbackError(f"gave {scored.arm} of {scored.task} a number that is not finite: {numbers}")


def _rungs(policy: str | Policy) -> Iterator[tuple[str, str | Policy]]:
    first = policy if isinstance(policy, str) else getattr(policy, "name", type(policy).__name__)
    yield first, policy
    for name in LOWER_RUNGS:
        if name != first or not isinstance(policy, str):
            yield name, name
