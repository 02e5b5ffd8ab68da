"""ROCKET: many random convolutions of a series, of each the share of positive values and the largest one.

Source: Dempster, Petitjean and Webb 2020 (arXiv 1910.13051), sections 3.1 and 3.2, with these differences:
kernels share lengths and dilations in groups, so that each group is one convolution; all see zeros around the
series; series are standardised over the training split, not each by itself, and the mean and deviation of
each variable are features too, because kernels whose weights sum to zero cannot see a level.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from training.models.series import lengths_of

KERNELS = 1000  # the paper's 10,000 gain little (its figure 10)
LENGTHS = (7, 9, 11)


class Rocket(nn.Module):
    """Fixed features, and a linear head that is fitted to them in one go."""

    def __init__(self, features: int, longest: int, outputs: int) -> None:
        super().__init__()
        groups = [
            (length, 2**power)
            for length in LENGTHS
            for power in range(int(math.log2(max((longest - 1) / (length - 1), 1))) + 1)
        ]
        self.dilations = [dilation for _, dilation in groups]
        count = -(-KERNELS // len(groups))
        for number, (length, _) in enumerate(groups):
            self.register_buffer(f"kernels_{number}", _kernels(count, features, length))
            self.register_buffer(f"biases_{number}", torch.rand(count) * 2 - 1)
        self.head = nn.Linear(2 * count * len(groups) + 2 * features, outputs)

    def features(self, x: Tensor) -> Tensor:
        """`(N, T, D)`, NaN where padded → `(N, F)`; steps after the end do not count."""
        valid, lengths = lengths_of(x)
        there, steps = valid.unsqueeze(1), lengths.unsqueeze(1)
        x = torch.where(valid.unsqueeze(-1), x, torch.zeros_like(x)).transpose(1, 2)
        mean = x.sum(2) / steps
        deviation = (((x - mean.unsqueeze(2)) * there).square().sum(2) / steps).sqrt()
        found = [mean, deviation]
        for number, dilation in enumerate(self.dilations):
            kernels, biases = self.get_buffer(f"kernels_{number}"), self.get_buffer(f"biases_{number}")
            pad = dilation * (kernels.shape[2] // 2)
            y = nn.functional.conv1d(x, kernels, biases, padding=pad, dilation=dilation)
            found.append(((y > 0) & there).sum(2) / steps)
            found.append(y.masked_fill(~there, -1e9).amax(2))
        return torch.cat(found, 1)

    def forward(self, x: Tensor) -> Tensor:
        """`(N, T, D)` → `(N, K)`."""
        answer: Tensor = self.head(self.features(x))
        return answer


def _kernels(count: int, features: int, length: int) -> Tensor:
    """Normal weights less their mean, over a random number of the variables: `(count, D, length)`."""
    weights = torch.randn(count, features, length)
    weights = weights - weights.mean(2, keepdim=True)
    most = math.log2(min(features, length) + 1)
    chosen = (2 ** (torch.rand(count) * most)).long().clamp(min=1, max=features)
    order = torch.rand(count, features).argsort(1).argsort(1)
    return weights * (order < chosen.unsqueeze(1)).unsqueeze(2)
