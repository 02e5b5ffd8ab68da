"""What stands between raw inputs and a network's body, inside the exported graph."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from easeml_core.catalog.normalise import normalise


class ScaleImages(nn.Module):
    """`(N, H, W, C)` in raw units → `(N, C, H, W)`, scaled to [0, 1], normalised, standardised.

    `normaliser` is the k of `easeml_core.catalog.normalise.normalise`; None means identity.
    """

    def __init__(self, low: float, high: float, normaliser: float | None) -> None:
        super().__init__()
        self.low, self.span, self.k = low, max(high - low, 1e-30), normaliser
        self.register_buffer("mean", torch.zeros(1))
        self.register_buffer("deviation", torch.ones(1))

    def scale(self, x: Tensor) -> Tensor:
        """Scale and normalise, without the channel statistics."""
        x = ((x - self.low) / self.span).clamp(0.0, 1.0)
        return x if self.k is None else normalise(x, self.k)

    def fit(self, x: Tensor) -> None:
        """Take the channels' mean and deviation from a sample of the training split."""
        scaled = self.scale(x).flatten(0, 2)
        self.mean, self.deviation = scaled.mean(0), scaled.std(0, correction=0).clamp(min=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        """`(N, H, W, C)` raw → `(N, C, H, W)` standardised."""
        return ((self.scale(x) - self.mean) / self.deviation).permute(0, 3, 1, 2)


class Standardise(nn.Module):
    """`(…, D)` → the same, each feature with mean 0 and deviation 1 over the training split; NaN stays.

    Columns after the first `features`, which say where a node's children are, pass as they are.
    """

    def __init__(self, features: int) -> None:
        super().__init__()
        self.features = features
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("deviation", torch.ones(features))

    def fit(self, x: Tensor) -> None:
        """Take mean and deviation from a sample; padding (NaN) does not count, constants stay as they are."""
        self.mean, self.deviation = moments(x[..., : self.features])

    def forward(self, x: Tensor) -> Tensor:
        """Standardise the features."""
        standard = (x[..., : self.features] - self.mean) / self.deviation
        if x.shape[-1] == self.features:
            return standard
        return torch.cat([standard, x[..., self.features :]], -1)


class Unchanged(nn.Identity):
    """Inputs that are what they are: bytes."""

    def fit(self, x: Tensor) -> None:
        """There is nothing to know."""


class FixedLength(nn.Module):
    """Lets a network of series, trees or bytes be exported: `(N, T, D)` of any T is brought to `length` rows.

    torch.export unrolls or fixes the number of steps of a recurrent layer. Shorter examples are padded with
    NaN, which changes nothing; of a longer one, the rows beyond the longest of the data version are not read.
    """

    def __init__(self, network: nn.Module, length: int) -> None:
        super().__init__()
        self.network = network
        self.length = length

    def forward(self, x: Tensor) -> Tensor:
        """`(N, T, D)` of any T → what the network answers."""
        steps = torch.arange(self.length, device=x.device)
        kept = x[:, steps.clamp(max=x.shape[1] - 1)]
        beyond = (steps >= x.shape[1]).view(1, -1, 1)
        answer: Tensor = self.network(kept.masked_fill(beyond, float("nan")))
        return answer


def moments(x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation `(D,)` of `(…, D)`, without padding (NaN); a constant has the deviation 1."""
    flat = x.flatten(0, -2).double()
    mean = flat.nanmean(0)
    deviation = (flat - mean).square().nanmean(0).sqrt()
    return mean.float(), torch.where(deviation > 1e-12, deviation, torch.ones_like(deviation)).float()
