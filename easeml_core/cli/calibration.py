"""`easeml calibration`: were the allocator's predictions what they claimed to be?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from easeml_core.cli.output import table

if TYPE_CHECKING:
    from rich.console import RenderableType

SHARES = ("50", "90")


def calibration_view(report: dict[str, Any]) -> RenderableType | str:
    """One line per policy and template, and per period of each."""
    from rich.console import Group

    if not report["all"]["decisions"]:
        return "no decision's trial has ended yet"
    columns = ("policy", "template", "ended", "in 50 %", "in 90 %", "off by", "cost", "verdict")
    rows = [(group["policy"], group["template"], *_figures(group)) for group in report["groups"]]
    rows.append(("all", None, *_figures(report["all"])))
    parts: list[Any] = [
        f"{judged(report['all']).capitalize()}.",
        table(columns, rows),
        "in 50 %, in 90 %: share of qualities inside the interval that was to hold so many; off by: mean "
        "error of the expected quality; cost: typical factor between predicted and charged time, and (how "
        "many times as long as predicted trials took).",
    ]
    for group in report["groups"]:
        if group["periods"]:
            over_time = [
                (
                    period["from"][:16].replace("T", " "),
                    period["to"][:16].replace("T", " "),
                    *_figures(period),
                )
                for period in group["periods"]
            ]
            title = f"Over time: {group['policy']}, {group['template']}"
            parts.append(table(("from", "to", *columns[2:]), over_time, title=title))
    return Group(*parts)


def judged(found: dict[str, Any]) -> str:
    """A calibration in one sentence, without its end."""
    number = found["decisions"]
    if found["within"] is None:
        return f"{number} decisions ended, none with a quality to compare"
    cost = (
        "" if found["cost_factor"] is None else f"; times are off by a factor of {found['cost_factor']:.2f}"
    )
    return (
        f"of {number} decisions whose trials ended, {number - found['failed']} with a quality, "
        f"{found['within']['50']:.0%} came inside the 50 % interval and {found['within']['90']:.0%} inside "
        f"the 90 % interval ({found['verdict']}); qualities are off by {found['quality_error']:.3f}{cost}"
    )


def _figures(found: dict[str, Any]) -> tuple[Any, ...]:
    inside = found["within"] or {}
    cost = found["cost_factor"] and f"{found['cost_factor']:.2f} ({found['cost_bias']:.2f})"
    shares = (f"{inside[share]:.0%}" if share in inside else None for share in SHARES)
    ended = f"{found['decisions']} ({found['failed']} failed)" if found["failed"] else found["decisions"]
    return (ended, *shares, found["quality_error"], cost, found["verdict"])
