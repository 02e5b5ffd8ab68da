"""Image classifiers of up to 2016, as the trainer fits them to small inputs.

FLOPs are two per multiply-add. A network made for 224×224 photographs costs in proportion to the area it
sees; below some side its stem no longer shrinks the image, so that the cost stops falling: `floor`. The
figures were counted on the networks themselves (`torch.utils.flop_counter`, 3 channels, 10 classes).
"""

from __future__ import annotations

from collections.abc import Callable

from easeml_core.catalog.facts import ModelFacts, Size

TEMPLATE = "image-classification"
PHOTOGRAPH = 128  # from this side on, AlexNet and VGG have their dense layers of 4096 units

TOP_1 = "top-1 accuracy on ImageNet: {}"


def convolutions(at_224: float, floor: int, features: int, dense: float = 0.0) -> Callable[[Size], float]:
    """FLOPs: `at_224` of the convolutions at 224×224, `dense` of large dense layers, `features`: head."""

    def forward(size: Size) -> float:
        height, width = size.shape[0], size.shape[1]
        area = max(height, floor) * max(width, floor)
        photograph = min(height, width) >= PHOTOGRAPH
        return at_224 * area / 224**2 + dense * photograph + 2.0 * features * size.outputs

    return forward


def body_and_head(body: float, features: int, dense: float = 0.0) -> Callable[[Size], float]:
    """Trained values: `body` and, for photographs, `dense`, then a dense layer on `features`."""

    def weights(size: Size) -> float:
        photograph = min(size.shape[0], size.shape[1]) >= PHOTOGRAPH
        return body + dense * photograph + (features + 1.0) * size.outputs

    return weights


IMAGE_MODELS = (
    ModelFacts(
        name="AlexNet",
        framework="torch",
        family="convolutional",
        year=2012,
        citations=130_000,
        depth=8,
        expected={TEMPLATE: 0.57},
        reason=TOP_1.format("0.565 (torchvision)"),
        description="five convolutions and three dense layers; the network that began it",
        forward=convolutions(1.46e9, 32, 512, dense=1.09e8),
        weights=body_and_head(2.84e6, 512, dense=5.42e7),
        epochs=8,
    ),
    ModelFacts(
        name="BN-AlexNet",
        framework="torch",
        family="convolutional",
        year=2016,
        citations=1_000,
        depth=8,
        expected={TEMPLATE: 0.60},
        reason=TOP_1.format("0.601 (Simon et al. 2016)"),
        description="AlexNet with batch normalisation: learns at once where AlexNet hesitates",
        forward=convolutions(1.46e9, 32, 512, dense=1.09e8),
        weights=body_and_head(2.845e6, 512, dense=5.42e7),
        epochs=8,
    ),
    ModelFacts(
        name="NIN",
        framework="torch",
        family="convolutional",
        year=2013,
        citations=9_000,
        depth=9,
        expected={TEMPLATE: 0.60},
        reason=TOP_1.format("0.60 (Caffe model zoo)"),
        description="network in network: 1×1 convolutions instead of dense layers",
        forward=convolutions(1.363e9, 48, 192),
        weights=body_and_head(9.66e5, 192),
        epochs=8,
    ),
    ModelFacts(
        name="GoogLeNet",
        framework="torch",
        family="convolutional",
        year=2014,
        citations=60_000,
        depth=22,
        expected={TEMPLATE: 0.70},
        reason=TOP_1.format("0.698 (torchvision)"),
        description="inception modules: filters of several sizes side by side",
        forward=convolutions(2.995e9, 32, 1024),
        weights=body_and_head(5.6e6, 1024),
        epochs=8,
    ),
    ModelFacts(
        name="SqueezeNet",
        framework="torch",
        family="convolutional",
        year=2016,
        citations=10_000,
        depth=18,
        expected={TEMPLATE: 0.58},
        reason=TOP_1.format("0.582 (SqueezeNet 1.1, torchvision)"),
        description="AlexNet's accuracy with fifty times fewer weights",
        forward=convolutions(5.76e8, 18, 512),
        weights=body_and_head(7.22e5, 512),
        epochs=8,
    ),
    ModelFacts(
        name="VGG-16",
        framework="torch",
        family="convolutional",
        year=2014,
        citations=130_000,
        depth=16,
        expected={TEMPLATE: 0.73},
        reason=TOP_1.format("0.734 (with batch normalisation, torchvision)"),
        description="thirteen plain 3×3 convolutions; strong and costly",
        forward=convolutions(3.07e10, 8, 512, dense=2.2e8),
        weights=body_and_head(1.525e7, 512, dense=9.18e7),
        epochs=8,
    ),
    ModelFacts(
        name="ResNet-18",
        framework="torch",
        family="convolutional",
        year=2015,
        citations=220_000,
        depth=18,
        expected={TEMPLATE: 0.70},
        reason=TOP_1.format("0.698 (torchvision)"),
        description="residual connections: deep, yet easy to train",
        forward=convolutions(3.627e9, 32, 512),
        weights=body_and_head(1.117e7, 512),
        epochs=8,
    ),
    ModelFacts(
        name="ResNet-50",
        framework="torch",
        family="convolutional",
        year=2015,
        citations=220_000,
        depth=50,
        expected={TEMPLATE: 0.76},
        reason=TOP_1.format("0.761 (torchvision)"),
        description="ResNet with bottlenecks: deeper, for larger data",
        forward=convolutions(8.174e9, 32, 2048),
        weights=body_and_head(2.351e7, 2048),
        epochs=8,
    ),
    ModelFacts(
        name="SmallCNN",
        framework="torch",
        family="convolutional",
        year=1998,
        citations=70_000,
        depth=4,
        expected={TEMPLATE: 0.55},
        reason="smaller than AlexNet; of the kind of LeNet-5 (LeCun et al. 1998)",
        description="three convolutions: the cheap first try",
        forward=convolutions(1.012e9, 8, 128),
        weights=body_and_head(9.35e4, 128),
        epochs=8,
    ),
)
