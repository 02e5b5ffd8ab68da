"""The plots of the allocator's report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from easeml_core.replay import plots
from easeml_core.replay.metrics import Curves


def curves(measured: Mapping[str, Curves], path: Path, title: str) -> None:
    """Average and worst loss of all policies, side by side."""
    figure = plots.picture(8.2, 3.3)
    left, right = figure.subplots(1, 2)
    plots.draw_curves(left, measured, title=f"{title}, average")
    plots.draw_curves(right, measured, title=f"{title}, worst", which="worst")
    right.get_legend().remove()
    plots.save(figure, path)
