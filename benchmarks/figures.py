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
    plots.save_curves({name: measured[name] for name in SHOWN if name in measured}, path, title=title)
