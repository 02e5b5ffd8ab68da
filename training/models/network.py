"""A network that takes raw inputs and gives probabilities or values: what is trained is what is exported.

Everything between the data version's raw units and the answer is inside the graph, so a loaded model needs
none of our code: scaling, normaliser, standardising, masking of padding, softmax, the targets' scale.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from easeml_core.catalog.normalise import normalise
from training.examples import Examples

_STATISTICS_FROM = 5000  # examples; mean and deviation are known well enough from so many


@dataclass(frozen=True, slots=True)
class Geometry:
    """The shapes a model is built for. `shape` is `(H, W, C)` or `(D,)`; `outputs` is K."""

    kind: str
    shape: tuple[int, ...]
    outputs: int
    is_classification: bool
    max_length: int = 1

    @classmethod
    def of(cls, examples: Examples) -> Geometry:
        """The geometry of a data version."""
        facts = examples.facts
        return cls(
            facts.kind,
            tuple(facts.shape),
            facts.outputs,
            examples.is_classification,
            facts.max_length or 1,
        )


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
    """`(…, D)` → the same, each feature with mean 0 and deviation 1 over the training split; NaN stays."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(features))
        self.register_buffer("deviation", torch.ones(features))

    def fit(self, x: Tensor) -> None:
        """Take mean and deviation from a sample; padding (NaN) does not count, constants stay as they are."""
        flat = x.flatten(0, -2).double()
        mean = flat.nanmean(0)
        deviation = (flat - mean).square().nanmean(0).sqrt()
        self.mean = mean.float()
        self.deviation = torch.where(deviation > 1e-12, deviation, torch.ones_like(deviation)).float()

    def forward(self, x: Tensor) -> Tensor:
        """Standardise the last axis."""
        return (x - self.mean) / self.deviation


class Network(nn.Module):
    """Preprocessing, body and head. `raw` is what the loss sees; calling it gives the model's answer.

    For regression the body works on standardised targets, and the answer is in the targets' own units.
    """

    def __init__(self, before: ScaleImages | Standardise, body: nn.Module, geometry: Geometry) -> None:
        super().__init__()
        self.before = before
        self.body = body
        self.is_classification = geometry.is_classification
        self.register_buffer("target_mean", torch.zeros(geometry.outputs))
        self.register_buffer("target_deviation", torch.ones(geometry.outputs))

    def fit_statistics(self, examples: Examples) -> None:
        """Set every statistic of the preprocessing from the training split."""
        sample = examples.sample(examples.version.train, _STATISTICS_FROM)
        self.before.fit(torch.from_numpy(examples.inputs(sample)))
        if not self.is_classification:
            targets = torch.from_numpy(examples.targets(examples.version.train).astype(np.float64))
            deviation = targets.std(0, correction=0)
            self.target_mean = targets.mean(0).float()
            self.target_deviation = torch.where(
                deviation > 1e-12, deviation, torch.ones_like(deviation)
            ).float()

    def raw(self, x: Tensor) -> Tensor:
        """`(N, K)` logits, or standardised values."""
        return self.body(self.before(x))

    def loss(self, raw: Tensor, targets: Tensor) -> Tensor:
        """Summed over the batch: cross-entropy, or squared error of standardised targets."""
        if self.is_classification:
            return nn.functional.cross_entropy(raw, targets, reduction="sum")
        wanted = (targets - self.target_mean) / self.target_deviation
        return nn.functional.mse_loss(raw, wanted, reduction="none").mean(1).sum()

    def forward(self, x: Tensor) -> Tensor:
        """`(N, K)` probabilities, or values in the targets' own units."""
        raw = self.raw(x)
        return raw.softmax(1) if self.is_classification else raw * self.target_deviation + self.target_mean


class FixedLength(nn.Module):
    """Lets a series network be exported: `(N, T, D)` of any T is brought to `length` steps first.

    torch.export unrolls or fixes the number of steps of a recurrent layer. Shorter series are padded with
    NaN, which changes nothing; of a longer one, the steps beyond the longest of the data version are not
    read.
    """

    def __init__(self, network: Network, length: int) -> None:
        super().__init__()
        self.network = network
        self.length = length

    def forward(self, x: Tensor) -> Tensor:
        """`(N, T, D)` of any T → `(N, K)`."""
        steps = torch.arange(self.length, device=x.device)
        kept = x[:, steps.clamp(max=x.shape[1] - 1)]
        beyond = (steps >= x.shape[1]).view(1, -1, 1)
        return self.network(kept.masked_fill(beyond, float("nan")))


@torch.no_grad()
def predict(
    network: nn.Module,
    examples: Examples,
    indices: npt.NDArray[np.int64],
    batch_size: int,
    device: torch.device,
) -> npt.NDArray[np.float32]:
    """The network's answers `(len(indices), K)` in evaluation mode."""
    network.eval()
    answers = [
        network(torch.from_numpy(examples.inputs(indices[start : start + batch_size])).to(device)).cpu()
        for start in range(0, len(indices), batch_size)
    ]
    return torch.cat(answers).numpy()
