"""Image classifiers that start from torchvision's weights of ImageNet, which lie in a file of the host.

Their stems and strides stay what they were, and images under 64 pixels are enlarged. A first convolution for
another number of channels starts from the mean over the three that it knew, scaled so that its sums stay as
large.
"""

from __future__ import annotations

import torch
from torch import nn

from easeml_core.catalog.pretrained import SMALLEST, weights_file
from easeml_core.errors import OperatorError
from training.models.fit_images import Enlarge, torchvision_models

_FUNCTIONS = {
    "ResNet-18+pretrained": "resnet18",
    "ResNet-50+pretrained": "resnet50",
    "MobileNetV3+pretrained": "mobilenet_v3_large",
    "EfficientNet-B0+pretrained": "efficientnet_b0",
    "ConvNeXt-Tiny+pretrained": "convnext_tiny",
}


def pretrained(name: str, height: int, width: int, channels: int, outputs: int) -> nn.Module:
    """`(N, C, H, W)` → `(N, K)`; the last layer starts anew.

    Raises OperatorError where the file is missing, is not of this network or holds more than tensors.
    """
    network: nn.Module = getattr(torchvision_models(), _FUNCTIONS[name])(weights=None)
    path = weights_file(name)
    try:
        network.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    except Exception as error:  # of many kinds: of the file system, of pickle, of torch
        problem = (str(error).splitlines() or [type(error).__name__])[0]
        raise OperatorError(f"the weights of {name} cannot be read from {path}: {problem}") from error
    _replace_first(network, channels)
    _replace_last(network, outputs)
    return nn.Sequential(Enlarge(height, width, SMALLEST), network)


def _replace_first(network: nn.Module, channels: int) -> None:
    name, first = next((n, m) for n, m in network.named_modules() if isinstance(m, nn.Conv2d))
    if channels == first.in_channels:
        return
    layer = nn.Conv2d(
        channels,
        first.out_channels,
        first.kernel_size,
        first.stride,
        first.padding,
        bias=first.bias is not None,
    )
    with torch.no_grad():
        mean = first.weight.mean(1, keepdim=True) * (first.in_channels / channels)
        layer.weight.copy_(mean.expand_as(layer.weight))
        if layer.bias is not None and first.bias is not None:
            layer.bias.copy_(first.bias)
    network.set_submodule(name, layer)


def _replace_last(network: nn.Module, outputs: int) -> None:
    name, last = [(n, m) for n, m in network.named_modules() if isinstance(m, nn.Linear)][-1]
    network.set_submodule(name, nn.Linear(last.in_features, outputs))
