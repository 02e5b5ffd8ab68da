"""Image classifiers of up to 2016, as the trainer fits them to small inputs."""

from __future__ import annotations

from collections.abc import Callable

from easeml_core.catalog.counted import counted
from easeml_core.catalog.facts import ADAMW_BAND, ModelFacts, Size

TEMPLATE = "image-classification"
PHOTOGRAPH = 128  # from this side on, AlexNet and VGG have their dense layers of 4096 units

TOP_1 = "top-1 accuracy on ImageNet: {}"


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
        search=ADAMW_BAND,
        **counted("AlexNet", 512),
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
        search=ADAMW_BAND,
        **counted("BN-AlexNet", 512),
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
        search=ADAMW_BAND,
        **counted("NIN", 192),
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
        search=ADAMW_BAND,
        **counted("GoogLeNet", 1024),
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
        search=ADAMW_BAND,
        **counted("SqueezeNet", 512),
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
        search=ADAMW_BAND,
        **counted("VGG-16", 512),
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
        search=ADAMW_BAND,
        **counted("ResNet-18", 512),
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
        search=ADAMW_BAND,
        **counted("ResNet-50", 2048),
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
        search=ADAMW_BAND,
        **counted("SmallCNN", 128),
        weights=body_and_head(9.35e4, 128),
        epochs=8,
    ),
)
