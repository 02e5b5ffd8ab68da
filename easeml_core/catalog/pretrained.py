"""Image classifiers that start from weights of ImageNet, where the host has the files.

Nothing is downloaded: the files are those of torchvision, under the names it gives them, in the folder where
`torch.hub` keeps them: `$TORCH_HOME/hub/checkpoints`, by default `~/.cache/torch/hub/checkpoints`. A service
whose trainers run on several hosts needs them on each. Every network here is in the catalogue, so that
earlier results keep their meaning; offered are those whose file is there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from easeml_core.catalog.facts import ModelFacts, Size
from easeml_core.catalog.space import Choice, Space

TEMPLATE = "image-classification"
SMALLEST = 64  # pixels; smaller images are enlarged, for the filters know the scale of photographs
FILES = {
    "ResNet-18+pretrained": "resnet18-f37072fd.pth",
    "ResNet-50+pretrained": "resnet50-0676ba61.pth",
    "MobileNetV3+pretrained": "mobilenet_v3_large-8738ca79.pth",
    "EfficientNet-B0+pretrained": "efficientnet_b0_rwightman-7f5810bc.pth",
    "ConvNeXt-Tiny+pretrained": "convnext_tiny-983f1562.pth",
}

# Weights that were learnt already are not to be shaken.
_SEARCH = Space(learning_rate=Choice(0.0003, 0.001))


def weights_file(name: str) -> Path:
    """Where the weights of a model of `FILES` are looked for."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser()
    home = Path(os.environ.get("TORCH_HOME", cache / "torch")).expanduser()
    return home / "hub" / "checkpoints" / FILES[name]


def is_offered(name: str) -> bool:
    """Whether a model can be trained here: all can but those whose weights are missing."""
    return name not in FILES or weights_file(name).is_file()


def _forward(at_224: float, features: int) -> Callable[[Size], float]:
    def forward(size: Size) -> float:
        area = max(size.shape[0], SMALLEST) * max(size.shape[1], SMALLEST)
        return at_224 * area / 224**2 + 2.0 * features * size.outputs

    return forward


def _model(
    name: str,
    year: int,
    citations: int,
    depth: int,
    expected: float,
    flops: float,
    body: float,
    features: int,
) -> ModelFacts:
    return ModelFacts(
        name=f"{name}+pretrained",
        framework="torch",
        family="convolutional",
        year=year,
        citations=citations,
        depth=depth,
        expected={TEMPLATE: expected},
        reason="fine-tuned, networks keep their order and gain where data is scarce (Kornblith 2019)",
        description=f"{name} from weights learnt on ImageNet",
        forward=_forward(flops, features),
        weights=lambda size: body + (features + 1.0) * size.outputs,
        search=_SEARCH,
        epochs=8,
    )


# Years are those in which torchvision published the weights.
PRETRAINED_MODELS = (
    _model("ResNet-18", 2016, 220_000, 18, 0.80, 3.627e9, 1.117e7, 512),
    _model("ResNet-50", 2016, 220_000, 50, 0.82, 8.174e9, 2.351e7, 2048),
    _model("MobileNetV3", 2021, 9_000, 20, 0.80, 4.306e8, 4.202e6, 1280),
    _model("EfficientNet-B0", 2021, 25_000, 18, 0.82, 7.691e8, 4.008e6, 1280),
    _model("ConvNeXt-Tiny", 2023, 8_000, 18, 0.83, 8.91e9, 2.782e7, 768),
)
