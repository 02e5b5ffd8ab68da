"""Loss curves as pictures. Needs matplotlib (the `plots` extra), imported when called."""

from __future__ import annotations

from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from easeml_core.errors import OperatorError
from easeml_core.replay.metrics import Curves

COLOURS_KEPT = 48  # in a PNG
# Okabe & Ito (2008): told apart by colour-blind readers too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")


def save_curves(measured: Mapping[str, Curves], path: Path, *, title: str) -> None:
    """Write average and worst loss, side by side, against the share of the total cost."""
    figure = picture(8.2, 3.3)
    left, right = figure.subplots(1, 2)
    draw_curves(left, measured, title=f"{title}, average")
    draw_curves(right, measured, title=f"{title}, worst", which="worst")
    left.get_legend().remove()
    right.legend(fontsize=7, loc="lower left")
    save(figure, path)


def draw_curves(axes: Any, measured: Mapping[str, Curves], *, title: str, which: str = "average") -> None:
    """Draw one curve for each policy, on logarithmic axes."""
    # From just before the first trial of anybody ended.
    ends = [share for found in measured.values() for share in found.shares if share > 0]
    start = max(1e-4, 0.5 * min(ends, default=1.0))
    shares = np.geomspace(start, 1.0, 400)
    for number, (name, found) in enumerate(measured.items()):
        style = ":" if name == "clairvoyant" else "-"
        colour = "#000000" if name == "clairvoyant" else COLOURS[number % len(COLOURS)]
        values = np.maximum(found.at(shares, which), 1e-5)
        width = 2.2 if number == 0 else 1.2
        axes.step(shares, values, style, where="post", label=name, color=colour, linewidth=width)
    axes.set(xscale="log", yscale="log", xlim=(start, 1), ylim=(5e-4, 1), title=title)
    axes.set(xlabel="share of the total cost", ylabel=f"{which} accuracy loss")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7)


def picture(width: float, height: float) -> Any:
    """An empty figure, in inches, drawn without a display."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise OperatorError("plots need matplotlib: pip install 'easeml[plots]'") from None
    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Any, path: Path) -> None:
    """Write PNG or SVG, by the name's ending, small enough for a repository."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Without dates and with few colours: the same figures give the same file.
    if path.suffix == ".svg":
        figure.savefig(path, metadata={"Date": None})
        return
    from PIL import Image

    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=100)
    Image.open(buffer).convert("RGB").quantize(COLOURS_KEPT).save(path, optimize=True)
