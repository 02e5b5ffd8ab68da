"""Fits networks made for 224×224 photographs to whatever size the data has.

Two rules, so that nothing is upsampled (which costs time and adds nothing) unless an image is tiny:

* the stem keeps its reduction (4, 2 or 1) as far as the last map stays large enough;
* a pooling step that would leave nothing to pool is left out.
"""

from __future__ import annotations

import importlib
import math
from types import ModuleType

from torch import Tensor, nn

SMALLEST = 8  # images with a shorter side are enlarged to this


def torchvision_models() -> ModuleType:
    """`torchvision.models`, imported when a network is built."""
    # It loads torch's compiler, 90 MB, which a standby that has trained no network yet does without.
    return importlib.import_module("torchvision.models")


def stem_reduction(size: int, later: int, least: float = 0.85) -> int:
    """The largest of 4, 2, 1 by which a stem may shrink `size` so that, `later` reductions on, the last
    map's side is still about `least` or more. ResNet-18 (later=8): 28 → 4, 16 → 2, 8 → 1."""
    for reduction in (4, 2):
        if size / (reduction * later) >= least:
            return reduction
    return 1


def fit_pools(layers: nn.Sequential, size: int) -> nn.Sequential:
    """The same layers for maps of side `size`: each max pool padded so that it halves, or left out at 1.

    Only for stacks whose other layers keep the size.
    """
    fitted: list[nn.Module] = []
    for layer in layers:
        if isinstance(layer, nn.MaxPool2d):
            if size == 1:
                continue
            kernel = int(layer.kernel_size)
            fitted.append(nn.MaxPool2d(kernel, 2, padding=1 if kernel == 3 else 0, ceil_mode=kernel == 2))
            size = math.ceil(size / 2)
        else:
            fitted.append(layer)
    return nn.Sequential(*fitted)


class Enlarge(nn.Module):
    """Repeats pixels until the shorter side of an image is `smallest` or more; larger images pass."""

    def __init__(self, height: int, width: int, smallest: int = SMALLEST) -> None:
        super().__init__()
        self.factor = max(1, math.ceil(smallest / min(height, width)))

    def forward(self, x: Tensor) -> Tensor:
        """`(N, C, H, W)` → `(N, C, f·H, f·W)`."""
        if self.factor == 1:
            return x
        return nn.functional.interpolate(x, scale_factor=float(self.factor), mode="nearest")
