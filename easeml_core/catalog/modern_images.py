"""Image classifiers of after 2018, as the trainer fits them to small inputs.

Their accuracy on ImageNet needs hundreds of epochs and much augmentation. Trained from scratch on the
thousands of images that tasks have, they fall behind (Liu et al. 2021, arXiv 2106.03746, for transformers):
what is expected of them is put lower accordingly.
"""

from __future__ import annotations

from easeml_core.catalog.counted import counted
from easeml_core.catalog.facts import ADAMW_BAND, ModelFacts
from easeml_core.catalog.images import TEMPLATE, TOP_1, body_and_head

MODERN_IMAGE_MODELS = (
    ModelFacts(
        name="MobileNetV3",
        framework="torch",
        family="convolutional",
        year=2019,
        citations=9_000,
        depth=20,
        expected={TEMPLATE: 0.66},
        reason=TOP_1.format("0.740 (torchvision); less from scratch on small data"),
        description="separable convolutions with attention to channels: made for telephones",
        search=ADAMW_BAND,
        **counted("MobileNetV3", 1280),
        weights=body_and_head(4202000.0, 1280),
        epochs=8,
    ),
    ModelFacts(
        name="EfficientNet-B0",
        framework="torch",
        family="convolutional",
        year=2019,
        citations=25_000,
        depth=18,
        expected={TEMPLATE: 0.68},
        reason=TOP_1.format("0.777 (torchvision); less from scratch on small data"),
        description="a network found by search: accurate for its few operations",
        search=ADAMW_BAND,
        **counted("EfficientNet-B0", 1280),
        weights=body_and_head(4008000.0, 1280),
        epochs=8,
    ),
    ModelFacts(
        name="ConvNeXt-Tiny",
        framework="torch",
        family="convolutional",
        year=2022,
        citations=8_000,
        depth=18,
        expected={TEMPLATE: 0.64},
        reason=TOP_1.format(
            "0.825 (torchvision), by long training; from scratch on small data below ResNets"
        ),
        description="a ResNet with what transformers taught: large kernels, few norms",
        search=ADAMW_BAND,
        **counted("ConvNeXt-Tiny", 768),
        weights=body_and_head(27820000.0, 768),
        epochs=8,
    ),
    ModelFacts(
        name="ViT-Tiny",
        framework="torch",
        family="attention",
        year=2020,
        citations=45_000,
        depth=12,
        expected={TEMPLATE: 0.55},
        reason=TOP_1.format("0.722 (Touvron et al. 2020); without convolutions it needs far more data"),
        description="a transformer over patches of the image",
        search=ADAMW_BAND,
        **counted("ViT-Tiny", 192),
        weights=body_and_head(5340000.0, 192),
        epochs=8,
    ),
)
