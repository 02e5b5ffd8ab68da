"""Draws `data-report.png`: some images of each class, or a plot of anything else, to see at a glance.

Drawn with Pillow, which intake has loaded anyway; the same data version gives the same bytes.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt
    from PIL import Image, ImageDraw

    from easeml_core.data import Version

_CLASSES, _EACH = 10, 8
_CELL, _GAP, _LABEL = 64, 4, 150
_PLOT = (720, 480)
_MARGIN = 40
_POINTS = 1500
_LINES = 5
_STEPS = 400
_INK, _PAPER = "#222222", "#ffffff"
# Tableau's ten, told apart by most who see colours differently.
_COLOURS = (
    "#4e79a7", "#f28e2b", "#e15759", "#76b7b2", "#59a14f",
    "#edc948", "#b07aa1", "#ff9da7", "#9c755f", "#bab0ac",
)  # fmt: skip


def draw(version: Version) -> bytes:
    """A PNG."""
    drawers = {"image": _images, "series": _series}
    stream = io.BytesIO()
    drawers.get(version.facts.kind, _points)(version).save(stream, "PNG")
    return stream.getvalue()


def _groups(version: Version) -> list[tuple[str, npt.NDArray[np.int64]]]:
    """Name and positions in use of each of the first classes; of all, where there are none."""
    facts = version.facts
    used = np.sort(np.concatenate([version.train, version.val]))
    if facts.classes is None:
        return [("", used)]
    labels = np.asarray(version.targets[used])
    return [(name, used[labels == i]) for i, name in enumerate(facts.classes[:_CLASSES])]


def _some(positions: npt.NDArray[np.int64], most: int) -> npt.NDArray[np.int64]:
    """At most so many, at equal distances."""
    if len(positions) <= most:
        return positions
    return positions[np.linspace(0, len(positions) - 1, most).astype(np.int64)]


def _canvas(width: int, height: int) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (width, height), _PAPER)
    return image, ImageDraw.Draw(image)


def _text(drawing: ImageDraw.ImageDraw, at: tuple[float, float], text: str, colour: str = _INK) -> None:
    from PIL import ImageFont

    shown = text if len(text) <= 20 else f"{text[:18]}.."
    drawing.text(at, shown, fill=colour, font=ImageFont.load_default(14))


def _images(version: Version) -> Image.Image:
    """A row of images per class; of a recovery, each input above what is to be recovered from it."""
    from easeml_core.data.features import orders

    facts = version.facts
    rows: list[tuple[str, list[Image.Image]]] = []
    for name, positions in _groups(version):
        shown = _some(positions, _EACH if facts.classes is not None else 3 * _EACH)
        for some in [shown[start : start + _EACH] for start in range(0, len(shown), _EACH)]:
            low, high = orders([facts.low, facts.high], facts).tolist()
            rows.append((name, [_tile(orders(version.inputs[i], facts), low, high) for i in some]))
            if facts.target_low is not None and facts.target_high is not None:
                low, high = facts.target_low, facts.target_high
                rows.append(("to recover", [_tile(version.targets[i], low, high) for i in some]))
    label = _LABEL if any(name for name, _ in rows) else _GAP
    image, drawing = _canvas(label + _EACH * (_CELL + _GAP), _GAP + len(rows) * (_CELL + _GAP))
    for row, (name, tiles) in enumerate(rows):
        top = _GAP + row * (_CELL + _GAP)
        _text(drawing, (_GAP, top + _CELL / 2 - 8), name)
        for column, tile in enumerate(tiles):
            image.paste(tile, (label + column * (_CELL + _GAP), top))
    return image


def _tile(values: npt.NDArray[Any], low: float, high: float) -> Image.Image:
    """(H, W, C) with `low` black and `high` white, within a square cell."""
    from PIL import Image

    shares = (np.asarray(values, dtype=np.float32) - low) / ((high - low) or 1.0)
    pixels = np.rint(shares.clip(0, 1) * 255).astype(np.uint8)
    if pixels.shape[2] not in (1, 3):
        pixels = pixels[:, :, : 3 if pixels.shape[2] == 4 else 1]
    image = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels).convert("RGB")
    scale = _CELL / max(image.size)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    method = Image.Resampling.NEAREST if scale > 1 else Image.Resampling.BOX
    cell = Image.new("RGB", (_CELL, _CELL), "#dddddd")
    cell.paste(image.resize(size, method), ((_CELL - size[0]) // 2, (_CELL - size[1]) // 2))
    return cell


def _points(version: Version) -> Image.Image:
    """An example per point, on the two directions in which the data varies most, in standard deviations; of
    a regression, the first one against the (first) value to predict."""
    from easeml_core.data.features import features

    groups = _groups(version)
    chosen = [_some(positions, max(20, _POINTS // len(groups))) for _, positions in groups]
    points = features(version, np.concatenate(chosen)).astype(np.float64)
    spread = points.std(axis=0)
    points = (points - points.mean(axis=0)) / np.where(spread > 0, spread, 1)
    _, _, directions = np.linalg.svd(points, full_matrices=False)
    plane = np.zeros((len(points), 2))
    found = points @ directions[:2].T
    plane[:, : found.shape[1]] = found
    names = ("main direction of the data", "second direction")
    if version.facts.task_kind == "regression":
        plane[:, 1] = version.targets[np.concatenate(chosen), 0]
        names = (names[0], "value to predict")
    low, high = plane.min(axis=0), plane.max(axis=0)
    image, drawing = _axes(names, low, high, [name for name, _ in groups])
    at = _onto(plane, low, high)
    start = 0
    for number, positions in enumerate(chosen):
        for x, y in at[start : start + len(positions)].tolist():
            drawing.ellipse((x - 3, y - 3, x + 3, y + 3), fill=_COLOURS[number % len(_COLOURS)])
        start += len(positions)
    return image


def _series(version: Version) -> Image.Image:
    """Some series of each class, of which the first value per step is drawn."""
    groups = _groups(version)
    each = _LINES if version.facts.classes is not None else 2 * _LINES
    lines = []
    for number, (_, positions) in enumerate(groups):
        for i in _some(positions, each).tolist():
            start, end = version.offsets[i : i + 2].tolist()
            step = -(-(end - start) // _STEPS)
            values = np.asarray(version.values[start:end:step, 0], dtype=np.float64)
            lines.append((number, np.stack([np.arange(len(values)) * step, values], axis=1)))
    joined = np.concatenate([line for _, line in lines])
    low, high = joined.min(axis=0), joined.max(axis=0)
    image, drawing = _axes(("step", "first value of a step"), low, high, [name for name, _ in groups])
    for number, line in lines:
        at = [(x, y) for x, y in _onto(line, low, high).tolist()]
        drawing.line(at if len(at) > 1 else at * 2, fill=_COLOURS[number % len(_COLOURS)], width=2)
    return image


def _axes(
    names: tuple[str, str],
    low: npt.NDArray[np.float64],
    high: npt.NDArray[np.float64],
    legend: list[str],
) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    width, height = _PLOT
    image, drawing = _canvas(width + _LABEL, height)
    drawing.rectangle((_MARGIN, _MARGIN, width - _MARGIN, height - _MARGIN), outline="#bbbbbb")
    from PIL import ImageFont

    font = ImageFont.load_default(14)
    across, up = (f"{name}, {low[i]:.4g} to {high[i]:.4g}" for i, name in enumerate(names))
    drawing.text((_MARGIN, height - _MARGIN + 8), f"across: {across}", fill=_INK, font=font)
    drawing.text((_MARGIN, _MARGIN - 24), f"up: {up}", fill=_INK, font=font)
    for number, name in enumerate(filter(None, legend)):
        _text(drawing, (width, _MARGIN + 20 * number), name, _COLOURS[number % len(_COLOURS)])
    return image, drawing


def _onto(
    points: npt.NDArray[np.float64], low: npt.NDArray[np.float64], high: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """(N, 2) within `low` and `high`, as pixels within the frame, y upwards."""
    width, height = _PLOT
    span = np.where(high > low, high - low, 1.0)
    shares = (points - low) / span
    inner = np.array([width, height]) - 2 * (_MARGIN + 6)
    at: npt.NDArray[np.float64] = np.stack(
        [_MARGIN + 6 + shares[:, 0] * inner[0], height - _MARGIN - 6 - shares[:, 1] * inner[1]], axis=1
    )
    return at
