"""What image networks compute, counted once on the networks themselves, at several sizes.

For one image of 3 channels and 10 classes: floating-point operations of the forward pass
(`torch.utils.flop_counter`; two per multiply-add), numbers that all layers give, and layers. A stem that
shrinks more, or a pool that is left out, makes the counts jump between sizes, up or down. Between the sizes
of the table they are taken to follow a power of the side, beyond them the area.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypedDict

from easeml_core.catalog.facts import Size

SIDES = (8, 16, 28, 32, 64, 128, 224)
CLASSES = 10

# Layers, then for each side millions of operations and thousands of numbers.
_TABLE: Mapping[str, tuple[int, tuple[tuple[float, float], ...]]] = {
    "AlexNet": (23, (
        (27.95, 26.64), (27.95, 26.64), (28.2, 24.72), (28.35, 26.64),
        (111, 97.3), (584.8, 416.9), (1570, 1188),
    )),
    "BN-AlexNet": (28, (
        (27.95, 37.4), (27.95, 37.4), (28.2, 34.52), (28.35, 37.4),
        (111, 140.3), (584.8, 584.9), (1570, 1708),
    )),
    "NIN": (31, (
        (27.81, 122.9), (111.2, 491.7), (87.95, 382.3), (111.2, 491.7),
        (111.2, 491.7), (445, 1967), (1363, 6023),
    )),
    "GoogLeNet": (131, (
        (56.54, 138.1), (56.54, 138.1), (33.78, 96.71), (61.14, 162.7),
        (244.5, 644.5), (977.9, 2572), (2995, 7872),
    )),
    "SqueezeNet": (57, (
        (2.939, 28.38), (2.939, 28.38), (10.84, 96.19), (11.76, 113.5),
        (47.02, 453.8), (188.1, 1815), (576, 5559),
    )),
    "VGG-16": (54, (
        (50.83, 60.69), (157.7, 218.6), (538.1, 685.7), (627.5, 864.3),
        (2507, 3446), (1.021e4, 1.385e4), (3.088e4, 4.225e4),
    )),
    "ResNet-18": (61, (
        (69.44, 116.2), (69.44, 116.2), (68.48, 129.1), (74.03, 153.1),
        (296.1, 610.8), (1184, 2442), (3627, 7477),
    )),
    "ResNet-50": (159, (
        (162.3, 619), (162.3, 619), (158.4, 578.1), (166.9, 655.9),
        (667.3, 2617), (2669, 1.046e4), (8174, 3.204e4),
    )),
    "SmallCNN": (15, (
        (1.293, 11.8), (5.164, 46.74), (15.81, 143.3), (20.65, 186.5),
        (82.58, 745.6), (330.3, 2982), (1012, 9132),
    )),
    "MobileNetV3": (169, (
        (9.077, 96.48), (14.17, 276.7), (37.17, 877.4), (40.2, 1050),
        (40.2, 1050), (144.3, 4141), (430.6, 1.264e4),
    )),
    "EfficientNet-B0": (224, (
        (9.051, 158.7), (16.95, 435.2), (59.32, 1383), (63.96, 1650),
        (63.96, 1650), (252, 6510), (769.1, 1.987e4),
    )),
    "ConvNeXt-Tiny": (157, (
        (181.3, 643.6), (725.1, 2567), (419.8, 1738), (725.6, 2567),
        (727.3, 2567), (2909, 1.026e4), (8910, 3.143e4),
    )),
    "ViT-Tiny": (88, (
        (169.9, 485.4), (679.8, 1942), (521.1, 1486), (680.7, 1942),
        (684.2, 1942), (698.4, 1942), (2139, 5946),
    )),
}  # fmt: skip


class Counts(TypedDict):
    """The fields of `ModelFacts` that are counted."""

    forward: Callable[[Size], float]
    activations: Callable[[Size], float]
    calls: Callable[[Size], float]


def counted(name: str, features: int) -> Counts:
    """The counts of an image network whose last layer reads `features` numbers."""
    layers, rows = _TABLE[name]
    operations, numbers = ([row[column] for row in rows] for column in (0, 1))
    return {
        "forward": lambda size: (
            1e6 * _between(operations, size) + 2.0 * features * max(size.outputs - CLASSES, 0)
        ),
        "activations": lambda size: 1e3 * _between(numbers, size),
        "calls": lambda size: float(layers),
    }


def _between(counts: list[float], size: Size) -> float:
    """A count at the size's own side (of the square of its area); the smallest images are enlarged."""
    side = max(math.sqrt(size.shape[0] * size.shape[1]), SIDES[0])
    if side >= SIDES[-1]:
        return counts[-1] * (side / SIDES[-1]) ** 2
    upper = next(i for i, known in enumerate(SIDES) if known > side)
    share = math.log(side / SIDES[upper - 1]) / math.log(SIDES[upper] / SIDES[upper - 1])
    return float(counts[upper - 1] ** (1 - share) * counts[upper] ** share)
