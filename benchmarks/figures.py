"""The plots of the allocator's report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from easeml_core.replay import plots
from easeml_core.replay.metrics import Curves

SHOWN = (
    "easeml",
    "hybrid",
    "round_robin",
    "mm_gp_ei",
    "round_robin+ei_per_second",
    "round_robin+most_cited",
    "round_robin+most_recent",
    "clairvoyant",
)


def curves(measured: Mapping[str, Curves], path: Path, title: str) -> None:
    """Average and worst loss, side by side; of the policies in SHOWN, since more cannot be told apart."""
    measured = {name: measured[name] for name in SHOWN if name in measured}
    figure = plots.picture(8.2, 3.3)
    left, right = figure.subplots(1, 2)
    plots.draw_curves(left, measured, title=f"{title}, average")
    plots.draw_curves(right, measured, title=f"{title}, worst", which="worst")
    left.get_legend().remove()
    right.legend(fontsize=7, loc="lower left")
    plots.save(figure, path)
