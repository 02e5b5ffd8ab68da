"""Images from images: auto-encoder, U-Net and pix2pix.

Builders take a `Geometry` and give a whole network; bodies go from `(N, C, H, W)` to `(N, F, D, E)`.
Sources: convolutional auto-encoder (Masci 2011), U-Net (Ronneberger 2015, arXiv 1505.04597), pix2pix (Isola
2017, arXiv 1611.07004).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from training.models.network import Geometry, Network
from training.models.preprocess import ScaleImages

WIDTHS = (32, 64, 128, 256)
CODE = 16  # channels of the auto-encoder's code, at an eighth of the image's height and width
ADVERSARIAL_WEIGHT = 0.01  # beside a mean absolute error of weight 1, as in pix2pix


class ImageRecovery(Network):
    """Gives images `(N, D, E, F)` in the targets' raw units; loss and body work on values scaled to [0, 1].

    With `residual`, what the body says is added to the input, resized, where both have the same channels: a
    network that has learnt nothing yet then answers with its input.
    """

    def __init__(
        self, before: ScaleImages, body: nn.Module, geometry: Geometry, *, residual: bool = False
    ) -> None:
        super().__init__(before, body, geometry)
        self.size = geometry.target_shape[:2]
        self.residual = residual and geometry.shape[2] == geometry.target_shape[2]
        self.low, self.span = geometry.target_low, max(geometry.target_high - geometry.target_low, 1e-30)
        self.register_buffer("variance", torch.ones(()))

    def fit_targets(self, targets: Tensor) -> None:
        """The variance of the scaled targets: the error of an even grey."""
        self.variance = self.scaled(targets).var(correction=0).clamp(min=1e-6)

    def scaled(self, images: Tensor) -> Tensor:
        """`(N, D, E, F)` in raw units → `(N, F, D, E)` in [0, 1]."""
        return ((images.float() - self.low) / self.span).permute(0, 3, 1, 2)

    def raw(self, x: Tensor) -> Tensor:
        """`(N, H, W, C)` raw → `(N, F, D, E)` scaled to [0, 1], as it comes."""
        answer: Tensor = super().raw(x)
        return answer + resized(self.scaled(x), self.size) if self.residual else answer

    def loss(self, raw: Tensor, targets: Tensor) -> Tensor:
        """Squared error of the scaled images over their variance."""
        error = nn.functional.mse_loss(raw, self.scaled(targets), reduction="none")
        return error.mean((1, 2, 3)).sum() / self.variance

    def forward(self, x: Tensor) -> Tensor:
        """`(N, D, E, F)` in raw units of the targets."""
        return self.raw(x).clamp(0.0, 1.0).permute(0, 2, 3, 1) * self.span + self.low


class Pix2Pix(ImageRecovery):
    """A U-Net that a critic of patches, trained beside it, must not tell from the truth.

    Both learn from one sum: the critic's loss sees the answers as constants, and the answers are judged by a
    critic whose weights are constants. One step of the optimiser is then a step of either (simultaneous
    descent, Mescheder 2017), with the logistic loss that does not saturate (Goodfellow 2014).
    """

    def __init__(self, before: ScaleImages, body: nn.Module, geometry: Geometry) -> None:
        super().__init__(before, body, geometry, residual=True)
        self.critic: nn.Module = _critic(geometry.shape[2] + geometry.target_shape[2])

    def training_loss(self, x: Tensor, targets: Tensor, forward: Callable[[Tensor], Tensor]) -> Tensor:
        """Absolute error, deceit of the critic and the critic's own loss, summed over the batch."""
        answers, truth = forward(x), self.scaled(targets)
        given = resized(self.before(x), self.size)
        constant = {name: value.detach() for name, value in self.critic.named_parameters()}
        judged = torch.func.functional_call(self.critic, constant, (torch.cat([given, answers], 1),))
        real = self.critic(torch.cat([given, truth], 1))
        false = self.critic(torch.cat([given, answers.detach()], 1))
        softplus = nn.functional.softplus
        critics = (softplus(-real).mean() + softplus(false).mean()) * len(x)
        distance = (answers - truth).abs().mean((1, 2, 3)).sum() / self.variance.sqrt()
        return distance + ADVERSARIAL_WEIGHT * softplus(-judged).mean() * len(x) + critics

    def forget_training(self) -> None:
        """The critic has done its work."""
        self.critic = nn.Identity()


class AutoEncoder(nn.Module):
    """Halves the image two or three times, down to a code of few channels, and doubles it again."""

    def __init__(self, channels: int, size: tuple[int, int], filters: int) -> None:
        super().__init__()
        self.size, self.halvings = size, _halvings(size)
        widths = WIDTHS[: self.halvings]
        down = [
            layer
            for before, after in zip((channels, *widths), widths, strict=False)
            for layer in _block(before, after, 4, stride=2)
        ]
        up: list[nn.Module] = []
        for before, after in zip(widths[::-1], (*widths[-2::-1], widths[0]), strict=True):
            up += [nn.Upsample(scale_factor=2.0, mode="nearest"), *_block(before, after, 3)]
        code = [nn.Conv2d(widths[-1], CODE, 1), *_block(CODE, widths[-1], 3)]
        self.layers = nn.Sequential(*down, *code, *up, nn.Conv2d(widths[0], filters, 3, padding=1))

    def forward(self, x: Tensor) -> Tensor:
        """`(N, C, H, W)` → `(N, F, D, E)`."""
        return cropped(self.layers(filled(resized(x, self.size), self.halvings)), self.size)


class UNet(nn.Module):
    """Two convolutions at each of three or four sizes on the way down, and again on the way up, beside what
    was seen on the way down."""

    def __init__(self, channels: int, size: tuple[int, int], filters: int) -> None:
        super().__init__()
        self.size, self.halvings = size, _halvings(size)
        widths = WIDTHS[: self.halvings + 1]
        self.down = nn.ModuleList(
            nn.Sequential(*_block(before, after, 3), *_block(after, after, 3))
            for before, after in zip((channels, *widths), widths, strict=False)
        )
        self.up = nn.ModuleList(
            nn.Sequential(*_block(before + after, after, 3), *_block(after, after, 3))
            for before, after in zip(widths[:0:-1], widths[-2::-1], strict=True)
        )
        self.head = nn.Conv2d(widths[0], filters, 1)
        nn.init.zeros_(self.head.weight)  # starts from its input, where that is added, and else from grey
        nn.init.constant_(self.head.bias, 0.0)

    def forward(self, x: Tensor) -> Tensor:
        """`(N, C, H, W)` → `(N, F, D, E)`."""
        x = filled(resized(x, self.size), self.halvings)
        seen = []
        for number, layer in enumerate(self.down):
            x = layer(nn.functional.max_pool2d(x, 2) if number else x)
            seen.append(x)
        for layer, before in zip(self.up, seen[-2::-1], strict=True):
            x = layer(torch.cat([nn.functional.interpolate(x, scale_factor=2.0, mode="nearest"), before], 1))
        return cropped(self.head(x), self.size)


def resized(x: Tensor, size: tuple[int, int]) -> Tensor:
    """`(N, C, H, W)` → `(N, C, D, E)`, between pixels where larger, averaged where smaller."""
    if tuple(x.shape[2:]) == tuple(size):
        return x
    return nn.functional.interpolate(x, size=size, mode="bilinear", align_corners=False, antialias=True)


def filled(x: Tensor, halvings: int) -> Tensor:
    """Repeats the last row and column until both sides can be halved so often."""
    unit = 2**halvings
    return nn.functional.pad(x, (0, -x.shape[3] % unit, 0, -x.shape[2] % unit), mode="replicate")


def cropped(x: Tensor, size: tuple[int, int]) -> Tensor:
    """Takes off what `filled` added."""
    return x[:, :, : size[0], : size[1]]


def _halvings(size: tuple[int, int]) -> int:
    """Three for images from 16 pixels on, two for smaller ones."""
    return 3 if min(size) >= 16 else 2


def _block(before: int, after: int, kernel: int, stride: int = 1) -> list[nn.Module]:
    convolution = nn.Conv2d(before, after, kernel, stride, (kernel - 1) // 2, bias=False)
    return [convolution, nn.BatchNorm2d(after), nn.ReLU()]


def _critic(channels: int) -> nn.Sequential:
    """Says of every patch of some 20 pixels whether it looks true: logits `(N, 1, h, w)`."""
    return nn.Sequential(
        nn.Conv2d(channels, 32, 4, 2, 1), nn.LeakyReLU(0.2),
        nn.Conv2d(32, 64, 4, 2, 1), nn.LeakyReLU(0.2),
        nn.Conv2d(64, 1, 3, 1, 1),
    )  # fmt: skip


def _auto_encoder(geometry: Geometry, before: ScaleImages) -> ImageRecovery:
    return ImageRecovery(before, _body(AutoEncoder, geometry), geometry)


def _unet(geometry: Geometry, before: ScaleImages) -> ImageRecovery:
    return ImageRecovery(before, _body(UNet, geometry), geometry, residual=True)


def _pix2pix(geometry: Geometry, before: ScaleImages) -> ImageRecovery:
    return Pix2Pix(before, _body(UNet, geometry), geometry)


def _body(layers: Callable[[int, tuple[int, int], int], nn.Module], geometry: Geometry) -> nn.Module:
    height, width, filters = geometry.target_shape
    return layers(geometry.shape[2], (height, width), filters)


BUILDERS: dict[str, Callable[[Geometry, ScaleImages], ImageRecovery]] = {
    "auto-encoder": _auto_encoder,
    "U-Net": _unet,
    "pix2pix": _pix2pix,
}
