"""Networks from images to images; FLOPs and weights were counted on the networks themselves.

`Size` does not tell the target's shape: it is taken to have the channels of the input.
"""

from __future__ import annotations

from collections.abc import Callable

from easeml_core.catalog.facts import ADAMW_BAND, ModelFacts, Size

TEMPLATE = "image-recovery"
SMALL = 16  # below this side, networks halve the image twice instead of three times

# A quality of 0.45 is a peak signal-to-noise ratio of 25 dB.
_REASON = "{}; level assumed"


def _per_pixel(flops: float) -> Callable[[Size], float]:
    def forward(size: Size) -> float:
        height, width, channels = size.shape
        return flops * max(height * width, size.outputs / channels)

    return forward


def _weights(body: float, small: float, per_channel: float) -> Callable[[Size], float]:
    def weights(size: Size) -> float:
        return (small if min(size.shape[:2]) < SMALL else body) + per_channel * size.shape[2]

    return weights


RECOVERY_MODELS = (
    ModelFacts(
        name="auto-encoder",
        framework="torch",
        family="convolutional",
        year=2011,
        citations=4_000,
        depth=8,
        expected={TEMPLATE: 0.39},
        reason=_REASON.format("its code is a quarter of a grey image or less, so detail is lost"),
        description="through a narrow code and back: cheap, smooths what it recovers",
        search=ADAMW_BAND,
        forward=_per_pixel(4.8e4),
        weights=_weights(286_672, 71_120, 801),
        epochs=20,
        batch_size=32,
        patience=6,
    ),
    ModelFacts(
        name="U-Net",
        framework="torch",
        family="convolutional",
        year=2015,
        citations=100_000,
        depth=15,
        expected={TEMPLATE: 0.46},
        reason=_REASON.format("first in most comparisons of image restoration since (Ronneberger 2015)"),
        description="down and up again beside what was seen, added to the input",
        search=ADAMW_BAND,
        forward=_per_pixel(3.25e5),
        weights=_weights(1_947_392, 471_296, 321),
        epochs=20,
        batch_size=32,
        patience=6,
    ),
    ModelFacts(
        name="pix2pix",
        framework="torch",
        family="convolutional",
        year=2017,
        citations=25_000,
        depth=18,
        expected={TEMPLATE: 0.44},
        reason=_REASON.format("looks truer than it measures: a GAN trades error for detail (Isola 2017)"),
        description="a U-Net against a critic of patches: sharp where others blur",
        search=ADAMW_BAND,
        forward=_per_pixel(3.4e5),
        weights=_weights(1_980_833, 504_737, 1345),
        epochs=20,
        batch_size=32,
        patience=6,
    ),
)
