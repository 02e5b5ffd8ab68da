"""Image classifiers, torchvision's where those fit, for the size and channels of the data.

Each builder takes `(channels, side, outputs)`, with `side` the shorter side in pixels, and gives a module
from `(N, C, H, W)` to `(N, K)`. Sources: AlexNet (Krizhevsky 2012, torchvision's one-column form), NIN (Lin
2013, arXiv 1312.4400), VGG-16 (Simonyan 2014), GoogLeNet (Szegedy 2014), ResNet-18 (He 2015), SqueezeNet
1.1 (Iandola 2016), ResNet-50 (He 2015). Where the original trains from scratch only with weeks of care (NIN,
VGG-16), batch normalisation is added; AlexNet comes without and with it (BN-AlexNet, Simon 2016, arXiv
1612.01452). Networks of after 2018 are in `modern_images`.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from training.models.fit_images import fit_pools, stem_reduction, torchvision_models
from training.models.modern_images import MODERN

Builder = Callable[[int, int, int], nn.Module]


def small_cnn(channels: int, side: int, outputs: int) -> nn.Module:
    """Three convolutions of 32, 64 and 128 filters, each followed by pooling: the cheap first try."""
    layers: list[nn.Module] = []
    for before, after in ((channels, 32), (32, 64), (64, 128)):
        layers += [*_convolution(before, after, 3), nn.MaxPool2d(2, 2)]
    return nn.Sequential(fit_pools(nn.Sequential(*layers), side), _average(), nn.Linear(128, outputs))


def alexnet(channels: int, side: int, outputs: int) -> nn.Module:
    """AlexNet; under 128 pixels the stem is a 3×3 convolution and the classifier has 512 units.

    Without batch normalisation a signal only reaches the last of eight layers from He's starting weights.
    """
    network = _alexnet(channels, side, outputs, normalised=False)
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    return network


def bn_alexnet(channels: int, side: int, outputs: int) -> nn.Module:
    """AlexNet with batch normalisation after every convolution."""
    return _alexnet(channels, side, outputs, normalised=True)


def _alexnet(channels: int, side: int, outputs: int, *, normalised: bool) -> nn.Sequential:
    stem = stem_reduction(side, later=8)
    first = nn.Conv2d(channels, 64, 11, 4, 2) if stem == 4 and side >= 128 else _stem(channels, 64, stem)
    layers = [
        first, nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2),
        *_convolution(64, 192, 5), nn.MaxPool2d(3, 2),
        *_convolution(192, 384, 3), *_convolution(384, 256, 3), *_convolution(256, 256, 3),
        nn.MaxPool2d(3, 2),
    ]  # fmt: skip
    kept = [layer for layer in layers if normalised or not isinstance(layer, nn.BatchNorm2d)]
    features = fit_pools(nn.Sequential(*kept), -(-side // stem))
    return nn.Sequential(features, *_classifier(256, side, outputs))


def vgg16(channels: int, side: int, outputs: int) -> nn.Module:
    """VGG-16's thirteen convolutions with batch normalisation; pools are left out once the map is 1×1."""
    layers: list[nn.Module] = []
    for filters, count in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(count):
            layers += _convolution(channels, filters, 3)
            channels = filters
        layers.append(nn.MaxPool2d(2, 2))
    for layer in layers:
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return nn.Sequential(fit_pools(nn.Sequential(*layers), side), *_classifier(512, side, outputs))


def nin(channels: int, side: int, outputs: int) -> nn.Module:
    """Network in network: three convolutions, each followed by two 1×1 ones, and no dense layer at all."""
    stem = stem_reduction(side, later=4, least=3)
    first = [_stem(channels, 192, stem, kernel=5), nn.BatchNorm2d(192), nn.ReLU()]
    layers = nn.Sequential(
        *first, *_convolution(192, 160, 1), *_convolution(160, 96, 1), nn.MaxPool2d(3, 2), nn.Dropout(0.3),
        *_convolution(96, 192, 5), *_convolution(192, 192, 1), *_convolution(192, 192, 1),
        nn.MaxPool2d(3, 2), nn.Dropout(0.3),
        *_convolution(192, 192, 3), *_convolution(192, 192, 1), nn.Conv2d(192, outputs, 1),
    )  # fmt: skip
    return nn.Sequential(fit_pools(layers, -(-side // stem)), _average())


def googlenet(channels: int, side: int, outputs: int) -> nn.Module:
    """GoogLeNet without its auxiliary classifiers, which the batch normalisation of torchvision replaces."""
    network = torchvision_models().googlenet(
        weights=None, num_classes=outputs, aux_logits=False, init_weights=False, transform_input=False
    )
    stem = stem_reduction(side, later=8)
    network.conv1.conv = _stem(channels, 64, stem, kernel=7 if stem == 4 else 3, halvings=1)
    if stem < 4:
        network.maxpool1 = nn.Identity()
    return network


def resnet18(channels: int, side: int, outputs: int) -> nn.Module:
    """ResNet-18; small images get a 3×3 first convolution and no first pooling."""
    return _resnet(torchvision_models().resnet18(weights=None, num_classes=outputs), channels, side)


def resnet50(channels: int, side: int, outputs: int) -> nn.Module:
    """ResNet-50, fitted to small images as ResNet-18 is."""
    return _resnet(torchvision_models().resnet50(weights=None, num_classes=outputs), channels, side)


def _resnet(network: nn.Module, channels: int, side: int) -> nn.Module:
    stem = stem_reduction(side, later=8)
    network.conv1 = _stem(channels, 64, stem, kernel=7 if stem == 4 else 3, halvings=1)
    if stem < 4:
        network.maxpool = nn.Identity()
    return network


def squeezenet(channels: int, side: int, outputs: int) -> nn.Module:
    """SqueezeNet 1.1; the stem keeps small images at their size."""
    network = torchvision_models().squeezenet1_1(weights=None, num_classes=outputs)
    stem = 2 if side / 16 >= 0.85 else 1
    features = network.features
    features[0] = _stem(channels, 64, stem)
    network.features = fit_pools(features, -(-side // stem))
    # The last ReLU cuts negative logits off; averaging first and leaving it out trains far more surely.
    network.classifier = nn.Sequential(nn.Dropout(0.3), nn.Conv2d(512, outputs, 1), nn.AdaptiveAvgPool2d(1))
    return network


BUILDERS: dict[str, Builder] = {
    "AlexNet": alexnet,
    "BN-AlexNet": bn_alexnet,
    "NIN": nin,
    "GoogLeNet": googlenet,
    "SqueezeNet": squeezenet,
    "VGG-16": vgg16,
    "ResNet-18": resnet18,
    "ResNet-50": resnet50,
    "SmallCNN": small_cnn,
    **MODERN,
}


class _Flat(nn.Module):
    """The mean over each whole map: `(N, C, H, W)` → `(N, C)`."""

    def forward(self, x: Tensor) -> Tensor:
        """Average the last two axes."""
        return x.mean((2, 3))


def _average() -> nn.Module:
    return _Flat()


def _convolution(before: int, after: int, kernel: int) -> list[nn.Module]:
    convolution = nn.Conv2d(before, after, kernel, padding=kernel // 2, bias=False)
    return [convolution, nn.BatchNorm2d(after), nn.ReLU()]


def _stem(channels: int, filters: int, reduction: int, kernel: int = 3, halvings: int = 2) -> nn.Conv2d:
    """A first convolution with the given reduction; `halvings=1` where a pool after it does the rest."""
    stride = min(reduction, 2**halvings)
    if stride == 4:
        kernel = max(kernel, 5)
    return nn.Conv2d(channels, filters, kernel, stride, kernel // 2, bias=False)


def _classifier(filters: int, side: int, outputs: int) -> list[nn.Module]:
    """The two dense layers of AlexNet and VGG: 6×6 maps and 4096 units for photographs, else 512."""
    if side >= 128:
        maps: list[nn.Module] = [nn.AdaptiveAvgPool2d((6, 6)), nn.Flatten()]
        inputs, hidden = filters * 36, 4096
    else:
        maps, inputs, hidden = [_average()], filters, 512
    return [
        *maps,
        nn.Dropout(0.5), nn.Linear(inputs, hidden), nn.ReLU(),
        nn.Dropout(0.5), nn.Linear(hidden, hidden), nn.ReLU(),
        nn.Linear(hidden, outputs),
    ]  # fmt: skip
