"""Image classifiers of after 2018, fitted to the size and channels of the data.

Builders as in `images`. Sources: MobileNetV3-Large (Howard 2019, arXiv 1905.02244), EfficientNet-B0 (Tan
2019, arXiv 1905.11946) and ConvNeXt-Tiny (Liu 2022, arXiv 2201.03545) are torchvision's; ViT-Tiny (Touvron
2020, arXiv 2012.12877) is written here, because torchvision's transformer takes square images only.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from training.models.fit_images import stem_reduction, torchvision_models

WIDTH, LAYERS, HEADS = 192, 12, 3  # of ViT-Tiny
PATCHES = (16, 8, 4, 2)  # sides of a patch; 16 is the original's
FEWEST_PATCHES = 7  # along the shorter side, where the image is large enough


def mobilenet_v3(channels: int, side: int, outputs: int) -> nn.Module:
    """MobileNetV3-Large; the stem keeps small images at their size."""
    network = torchvision_models().mobilenet_v3_large(weights=None, num_classes=outputs)
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.momentum = (
                0.1  # at torchvision's 0.01, statistics are still those of the start after a trial
            )
    return _with_small_stem(network, channels, side)


def efficientnet_b0(channels: int, side: int, outputs: int) -> nn.Module:
    """EfficientNet-B0; the stem keeps small images at their size."""
    network = torchvision_models().efficientnet_b0(weights=None, num_classes=outputs)
    return _with_small_stem(network, channels, side)


def convnext_tiny(channels: int, side: int, outputs: int) -> nn.Module:
    """ConvNeXt-Tiny; patches of the stem are 4, 2 or 1 pixels wide, so that three halvings remain."""
    network = torchvision_models().convnext_tiny(weights=None, num_classes=outputs)
    patch = stem_reduction(side, later=8, least=1.75)
    stem = network.features[0]
    stem[0] = nn.Conv2d(channels, stem[0].out_channels, patch, patch)
    return network


def vit_tiny(channels: int, side: int, outputs: int) -> nn.Module:
    """ViT-Tiny: 12 layers of 3 heads over patches; see `VisionTransformer`."""
    patch = next((p for p in PATCHES if side >= p * FEWEST_PATCHES), PATCHES[-1])
    return VisionTransformer(channels, patch, outputs)


class VisionTransformer(nn.Module):
    """A transformer over an image's patches, with fixed positions and the mean over patches as answer.

    Positions as two-dimensional sines and the mean instead of a class token (Beyer 2022, arXiv 2205.01580):
    they learn faster from little data, and any height and width will do.
    """

    def __init__(self, channels: int, patch: int, outputs: int) -> None:
        super().__init__()
        self.patch = patch
        self.embed = nn.Conv2d(channels, WIDTH, patch, patch)
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, 4 * WIDTH, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, LAYERS, nn.LayerNorm(WIDTH), enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """`(N, C, H, W)` → `(N, K)`; the last row and column of patches is filled up with zeros."""
        x = nn.functional.pad(x, (0, -x.shape[3] % self.patch, 0, -x.shape[2] % self.patch))
        patches = self.embed(x)
        positions = _positions(patches.shape[2], patches.shape[3]).to(x)
        answer: Tensor = self.head(self.layers(patches.flatten(2).transpose(1, 2) + positions).mean(1))
        return answer


def _positions(height: int, width: int) -> Tensor:
    """`(height · width, WIDTH)`: sines and cosines of the row, then of the column, at 48 frequencies."""
    quarter = WIDTH // 4
    frequencies = torch.exp(-math.log(10_000.0) * torch.arange(quarter) / (quarter - 1))
    rows = (torch.arange(height)[:, None] * frequencies)[:, None].expand(-1, width, -1)
    columns = (torch.arange(width)[:, None] * frequencies)[None].expand(height, -1, -1)
    return torch.cat([rows.sin(), rows.cos(), columns.sin(), columns.cos()], 2).flatten(0, 1)


def _with_small_stem(network: nn.Module, channels: int, side: int) -> nn.Module:
    """A network that halves four times after its stem: the stem halves too only from 64 pixels on."""
    stem = network.features[0]
    stride = min(2, stem_reduction(side, later=16, least=2))
    stem[0] = nn.Conv2d(channels, stem[0].out_channels, 3, stride, 1, bias=False)
    return network


MODERN: dict[str, Callable[[int, int, int], nn.Module]] = {
    "MobileNetV3": mobilenet_v3,
    "EfficientNet-B0": efficientnet_b0,
    "ConvNeXt-Tiny": convnext_tiny,
    "ViT-Tiny": vit_tiny,
}
