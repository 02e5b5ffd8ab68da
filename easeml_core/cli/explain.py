"""Decisions in plain words and numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from easeml_core.allocator.tenants import count
from easeml_core.cli.calibration import judged
from easeml_core.cli.output import printable, seconds, table

if TYPE_CHECKING:
    from rich.console import RenderableType

HOW_OFTEN = {"50": "every second time", "90": "nine times in ten"}
ENDED = {"failed": "failed", "diverged": "diverged", "lost": "was lost", "cancelled": "was cancelled"}
LISTED = 6  # trials of a task in a sentence


def sentences(decision: dict[str, Any]) -> list[str]:
    """What `reports.explain` tells, as sentences: why, what was seen, believed, expected, and what came."""
    made = decision["made_at"].replace("T", " ").replace("+00:00", " UTC")
    return [
        f"Decision {decision['decision']}, {made}: {decision['candidate']} for {decision['task']} on "
        f"{decision['device']}.",
        f"Why: {decision['reason']}",
        *_seen(decision["seen"], decision["task"]),
        *_basis(decision["seen"].get("basis", {})),
        _policy(decision),
        f"Expected: {expected(decision)}.",
        f"Came: {came(decision)} ({decision['trial']}).",
    ]


def expected(decision: dict[str, Any]) -> str:
    """What was expected of quality and time."""
    parts = [
        f"{often} between {decision['intervals'][share][0]:.3f} and {decision['intervals'][share][1]:.3f}"
        for share, often in HOW_OFTEN.items()
    ]
    return (
        f"quality {decision['expected_quality']:.3f} ± {decision['deviation']:.3f} ({', '.join(parts)}), in "
        f"{seconds(decision['predicted_seconds'])}"
    )


def came(decision: dict[str, Any]) -> str:
    """What came of a decision, against what was expected."""
    took = seconds(decision["cost_seconds"])
    if decision["quality"] is None:
        if decision["outcome"] in ENDED:
            return f"the trial {ENDED[decision['outcome']]} after {took}"
        return f"nothing yet, the trial is {decision['outcome']}"
    return f"quality {decision['quality']:.3f}, {_where(decision)}, in {took}{_against(decision)}"


def decisions_list(decisions: list[dict[str, Any]], calibration: dict[str, Any]) -> RenderableType | str:
    """Every decision: what, why, over what, expected and got; below, how well they were predicted."""
    from rich.console import Group

    if not decisions:
        return "nothing has been decided yet"
    blocks = [
        f"{one['decision']}  {one['made_at'][:16].replace('T', ' ')}  {one['device']}: {one['candidate']} "
        f"for {one['task']}\n"
        f"   why       {one['reason']}\n"
        f"   over      {runners_up(one['runners_up'])}\n"
        f"   expected  {expected(one)}\n"
        f"   came      {came(one)}"
        + ("".join(f"\n   instead   of {failure}" for failure in one["fallbacks"]))
        for one in decisions
    ]
    so_far = f"Predictions so far: {judged(calibration['all'])}. More: easeml calibration"
    return Group(*(printable(f"{block}\n") for block in blocks), so_far)


def runners_up(found: list[dict[str, Any]]) -> str:
    """The next best, in one line."""
    if not found:
        return "nothing: no other candidate of any task could be started"
    return "; ".join(
        f"{one['arm']} of {one['task']} ({one['expected_quality']:.3f} ± {one['deviation']:.3f} in "
        f"{seconds(one['predicted_cost'])}, score {one['score']:.3g})"
        for one in found
    )


def explanation(decision: dict[str, Any]) -> RenderableType:
    """A decision in words, its runners-up, and the attempts of its trial."""
    from rich.console import Group

    others = table(
        ("task", "candidate", "score", "expected", "±", "cost", "reached since"),
        (
            (
                one["task"],
                one["arm"],
                f"{one['score']:.4g}",
                one["expected_quality"],
                one["deviation"],
                seconds(one["predicted_cost"]),
                one["quality"],
            )
            for one in decision["runners_up"]
        ),
        title=f"Chosen, with score {decision['score']:.4g}, over",
    )
    attempts = table(
        ("attempt", "device", "state", "time", "reason"),
        (
            (one["attempt"], one["device"], one["state"], seconds(one["seconds"]), one["reason"])
            for one in decision["attempts"]
        ),
        title="Attempts",
    )
    words = printable("\n".join(sentences(decision)))
    return Group(words, *(["", others] if decision["runners_up"] else []), attempts)


def _seen(seen: dict[str, Any], task: str) -> list[str]:
    if not seen:
        return []  # a decision of before this was kept
    tried = [
        f"{one['candidate']} {one['ended'] if one['quality'] is None else format(one['quality'], '.3f')}"
        for one in seen["tried"][-LISTED:]
    ]
    more = len(seen["tried"]) - len(tried)
    history = f" ({', '.join(tried)}{f' and {more} before' if more else ''})" if tried else ""
    running = [f"{one['candidate']} on {one['device']}" for one in seen["running"]]
    limits = [
        "" if seen["remaining_trials"] is None else count(seen["remaining_trials"], "trial"),
        "" if seen["remaining_seconds"] is None else f"{seconds(seen['remaining_seconds'])} of device time",
        ""
        if seen["deadline_in_seconds"] is None
        else f"{seconds(seen['deadline_in_seconds'])} to its deadline",
    ]
    left = " and ".join(limit for limit in limits if limit) or "no limit"
    return [
        f"Seen: {count(seen['open_tasks'], 'open task')}, {seen['tasks_with_work']} with work left, "
        f"{count(seen['running_trials'], 'trial')} running. {task} (weight {seen['weight']:g}) had ended "
        f"{len(seen['tried'])} of {count(seen['candidates'], 'candidate')}{history}, "
        + (f"ran {', '.join(running)}, " if running else "")
        + f"could start {seen['left']}, had {left} left, and had waited {count(seen['waited'], 'decision')}."
    ]


def _basis(basis: dict[str, Any]) -> list[str]:
    if not basis:
        return []
    text = f"Believed: learned from {basis['learned_from']}"
    before = basis.get("before_any_trial")
    if before:
        text += f"; before any trial of the task {before['quality']:.3f} ± {before['deviation']:.3f}"
    if basis.get("jitter"):
        text += (
            "; that was not quite consistent in itself, so "
            f"{basis['jitter']:g} of its variance was added for every candidate"
        )
    experts = basis.get("experts")
    if experts:
        names = {"history": "past tasks", "afresh": "the catalogue and the open tasks alone"}
        shares = " and ".join(f"{share:.0%} {names[name]}" for name, share in experts["families"].items())
        text += f"; experts: {shares}; {experts['average']:.0%} all tasks on average"
        close = [f"{one['weight']:.0%} {one['task']}" for one in experts["closest"] if one["weight"] >= 0.005]
        if close:
            text += f", single tasks it is most like: {', '.join(close)}"
    return [text + "."]


def _policy(decision: dict[str, Any]) -> str:
    if not decision["fallbacks"]:
        return f"Policy: {decision['policy']}."
    return f"Policy: {decision['policy']}, in place of what failed: {'; '.join(decision['fallbacks'])}."


def _against(decision: dict[str, Any]) -> str:
    if not (decision["cost_seconds"] and decision["predicted_seconds"]):
        return ""
    ratio = decision["cost_seconds"] / decision["predicted_seconds"]
    if 0.9 <= ratio <= 1.1:
        return ", as predicted"
    how = f"{ratio:.1f} times as long" if ratio > 1 else f"{1 / ratio:.1f} times as fast"
    return f", {how} as predicted"


def _where(decision: dict[str, Any]) -> str:
    quality, intervals = decision["quality"], decision["intervals"]
    for share in HOW_OFTEN:
        if intervals[share][0] <= quality <= intervals[share][1]:
            return f"inside the {share} % interval"
    return f"{'above' if quality > intervals[share][1] else 'below'} both intervals"
