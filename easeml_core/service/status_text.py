"""`status.md`: the same as `status.json`, for people."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from easeml_core.naming import EXAMPLES_CSV, INFER_DIR, REPORT_MD

if TYPE_CHECKING:
    from easeml_core.service.status import Status

_SHOWN = 50

_STATES = {
    "waiting": "waits",
    "rejected": "rejected",
    "open": "accepted, being trained",
    "paused": "paused",
    "done": "done",
    "failed": "stopped: too many trials failed",
    "cancelled": "cancelled",
}


def status_text(status: Status) -> str:
    """Markdown: what the state is, what to mend, what was learnt from the data, what was tried."""
    reason = f": {plain(status.state_reason)}" if status.state_reason else ""
    parts = [f"# {status.task}\n\n**{_STATES.get(status.state, status.state)}**{reason}\n"]
    if status.problems:
        goes_on = " The earlier version goes on." if status.accepted else ""
        parts.append(f"## To mend\n\n{_count(len(status.problems))} in the latest upload.{goes_on}\n")
        parts.append(problems_text(status.problems))
    if status.ignored:
        parts.append(f"Ignored, for they are leftovers or mean nothing here: {_names(status.ignored)}\n")
        if any(name.startswith(f"{INFER_DIR}/") for name in status.ignored):
            parts.append("Requests under such names are never answered; rename them.\n")
    if status.champion:
        parts.append(_champion(status.champion))
    if status.data:
        parts.append(_data(status.data))
    if status.budget and status.accepted:
        parts.append(_budget(status.budget))
    if status.running:
        rows = [(t["candidate"], t["state"], t["device"] or "") for t in status.running]
        parts.append("## Running now\n\n" + table(("candidate", "state", "device"), rows))
    if status.leaderboard:
        head = ("candidate", status.objective, "quality", "cost (s)", "trial")
        best = [
            (
                t["candidate"],
                _number(t["score"]),
                _number(t["quality"]),
                f"{t['cost_seconds']:.1f}",
                t["trial"],
            )
            for t in status.leaderboard
        ]
        parts.append("## Leaderboard\n\n" + table(head, best))
        remarks = [f"- {t['trial']}, {plain(t['reason'])}\n" for t in status.leaderboard if t["reason"]]
        parts.append("".join(remarks))
    if failed := failed_trials(status.trials):
        rows = [(t["candidate"], t["state"], t["reason"]) for t in failed]
        parts.append("## Failed trials\n\n" + table(("candidate", "state", "reason"), rows))
    if status.candidates:
        rows = [(c["candidate"], c["state"], _number(c["quality"])) for c in status.candidates]
        parts.append("## Candidates\n\n" + table(("candidate", "state", "quality"), rows))
    if status.inferences:
        rows = [(i["request"], i["state"], i["predictions"] or "") for i in status.inferences]
        parts.append("## Predictions\n\n" + table(("request", "state", "file"), rows))
    if "experiment" in status.links:
        parts.append(f"Runs in MLflow: <{status.links['experiment']}>\n")
    return "\n".join(parts)


def problems_text(problems: Iterable[dict[str, Any]]) -> str:
    """One list item per problem: where, what, and what to do."""
    lines = []
    for problem in problems:
        where = problem["file"] + (f", line {problem['line']}" if "line" in problem else "")
        field = f" (`{problem['field']}`)" if "field" in problem else ""
        lines.append(f"- **{plain(where)}**{field}: {plain(problem['message'])}")
        if "fix" in problem:
            lines.append(f"  - What to do: {plain(problem['fix'])}")
    return "\n".join(lines) + "\n"


def _champion(champion: dict[str, Any]) -> str:
    score = f"{champion['objective']} {_number(champion['score'])}"
    lines = [f"## Champion\n\n{champion['candidate']} with {score} (quality {_number(champion['quality'])})"]
    lines.append(f"Model `{champion['model_uri']}`, version {champion['model_version']}.")
    if not champion["on_current_data"]:
        lines.append(plain(on_present_data(champion)))
    return "\n".join(lines) + "\n"


def failed_trials(trials: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that ended without a quality, through no wish of the tenant."""
    return [trial for trial in trials if trial["state"] in ("failed", "diverged", "lost")]


def on_present_data(champion: dict[str, Any]) -> str:
    """What there is to know of a champion that was trained on an earlier data version."""
    lead = "It was trained on an earlier data version"
    if champion["current_score"] is None:
        return f"{lead}; how good it is on the present one is not known: {champion['current_reason']}."
    score = f"{champion['objective']} {_number(champion['current_score'])}"
    return f"{lead}; on the present one it has {score}, and stays until a model is better there."


def _data(data: dict[str, Any]) -> str:
    facts = data["facts"]
    lines = [
        f"## Data\n\nVersion `{data['digest'][:16]}`: {data['n_train']} examples to train on, "
        f"{data['n_val']} to validate on."
    ]
    if facts.get("n_switched_off"):
        lines.append(f"Switched off by refine.csv: {facts['n_switched_off']}.")
    if facts.get("classes"):
        counts = facts.get("class_counts") or [None] * len(facts["classes"])
        pairs = zip(facts["classes"], counts, strict=True)
        shown = [f"{name} ({count})" if count is not None else name for name, count in pairs]
        lines.append(f"Classes: {_names(shown)}.")
    lines.append(f"Details are in `{REPORT_MD}`, the ids of all examples in `{EXAMPLES_CSV}`.")
    lines += [f"- Warning: {plain(warning)}" for warning in facts.get("warnings", ())]
    if near := facts.get("near_duplicates"):
        lines.append(f"- Warning: {len(near)} validation examples are nearly the same as one to train on.")
    if facts.get("n_quarantined"):
        lines.append(f"\n{facts['n_quarantined']} broken examples were left out:\n")
        found = facts["quarantined"]
        lines += [f"- {plain(item['file'])}: {plain(item['reason'])}" for item in found[:_SHOWN]]
        if facts["n_quarantined"] > _SHOWN:
            lines.append(f"- and {facts['n_quarantined'] - min(_SHOWN, len(found))} more")
    if facts.get("dropped"):
        lines.append(f"\nNo data, left out: {_names(facts['dropped'])}.")
    told_elsewhere = ("columns", "targets")
    changed = {key: value for key, value in facts.get("converted", {}).items() if key not in told_elsewhere}
    if changed:
        lines.append("\nConverted: " + "; ".join(f"{plain(k)}: {v}" for k, v in changed.items()) + ".")
    return "\n".join(lines) + "\n"


def _budget(budget: dict[str, Any]) -> str:
    trials = f"{budget['used_trials']}" + (f" of {budget['trials']}" if budget["trials"] is not None else "")
    seconds = f"{budget['charged_seconds']:.1f} s" + (
        f" of {budget['seconds']:.1f} s" if budget["seconds"] is not None else ""
    )
    return f"## Budget\n\n{trials} trials, {seconds} of device time used.\n"


def table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    """A table in Markdown."""
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    lines += ["| " + " | ".join(plain(str(cell)).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _names(names: list[str]) -> str:
    shown = ", ".join(plain(name) for name in names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN} more"


def _count(problems: int) -> str:
    return "1 problem" if problems == 1 else f"{problems} problems"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"


def plain(text: str) -> str:
    """Tenants' own words must not become markup or links."""
    flat = " ".join(str(text).split())
    return "".join(f"\\{c}" if c in "\\`*_[]<>#" else c for c in flat)
