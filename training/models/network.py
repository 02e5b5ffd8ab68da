"""A network that takes raw inputs and gives the model's answer: what is trained is what is exported.

Everything between the data version's raw units and the answer is inside the graph, so a loaded model needs
none of our code: scaling, normaliser, standardising, masking of padding, softmax, the targets' scale.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from training.examples import Examples
from training.models.preprocess import ScaleImages, Standardise, Unchanged, moments

_STATISTICS_FROM = 5000  # examples; mean and deviation are known well enough from so many


@dataclass(frozen=True, slots=True)
class Geometry:
    """The shapes a model is built for.

    `shape` is `(H, W, C)`, or `(D,)` of a vector, a step or a node; `outputs` is K; `max_length` is in steps,
    nodes or bytes. `children` is R, the links of a node, and `levels` the height of the highest tree. Of what
    is to be recovered or answered with: `target_shape`, `target_length`, and its range `target_low` to
    `target_high`; `recovers_itself` says that the target of an example is the example.
    """

    kind: str
    shape: tuple[int, ...]
    outputs: int
    max_length: int = 1
    low: float = 0.0
    high: float = 1.0
    children: int = 0
    levels: int = 1
    target_shape: tuple[int, ...] = ()
    target_length: int = 1
    target_low: float = 0.0
    target_high: float = 1.0
    recovers_itself: bool = False

    @classmethod
    def of(cls, examples: Examples) -> Geometry:
        """The geometry of a data version."""
        facts, tree = examples.facts, examples.facts.kind == "tree"
        return cls(
            facts.kind,
            tuple(facts.shape),
            facts.outputs,
            facts.max_length or 1,
            facts.low,
            facts.high,
            children=examples.version.children.shape[1] if tree else 0,
            levels=tree_levels(examples.version.children, examples.version.offsets) if tree else 1,
            target_shape=tuple(facts.target_shape or ()),
            target_length=facts.target_max_length or facts.max_length or 1,
            target_low=facts.target_low or 0.0,
            target_high=1.0 if facts.target_high is None else facts.target_high,
            recovers_itself=not (examples.version.folder / "target_values.npy").exists(),
        )


class Network(nn.Module):
    """Preprocessing and body. `raw` is what the loss sees; calling it gives the model's answer."""

    is_classification = False

    def __init__(
        self, before: ScaleImages | Standardise | Unchanged, body: nn.Module, geometry: Geometry
    ) -> None:
        super().__init__()
        self.before = before
        self.body = body
        self.geometry = geometry

    def fit_statistics(self, examples: Examples) -> None:
        """Set every statistic that the network keeps from the training split."""
        sample = examples.sample(examples.version.train, _STATISTICS_FROM)
        self.before.fit(torch.from_numpy(examples.inputs(sample)))
        self.fit_targets(torch.from_numpy(examples.targets(sample)))

    def fit_targets(self, targets: Tensor) -> None:
        """Set what is kept of the targets, of which a sample is given."""

    def raw(self, x: Tensor) -> Tensor:
        """What the body makes of raw inputs."""
        answer: Tensor = self.body(self.before(x))
        return answer

    def loss(self, raw: Tensor, targets: Tensor) -> Tensor:
        """Summed over the batch; about 1 per example for an answer that is always the same."""
        raise NotImplementedError

    def training_loss(self, x: Tensor, targets: Tensor, forward: Callable[[Tensor], Tensor]) -> Tensor:
        """The loss that is trained on; `forward` computes `raw`, perhaps faster."""
        return self.loss(forward(x), targets)

    def forget_training(self) -> None:
        """Drop what only training needs, before the network is exported."""


class Classifier(Network):
    """Gives `(N, K)` probabilities."""

    is_classification = True

    def __init__(
        self, before: ScaleImages | Standardise | Unchanged, body: nn.Module, geometry: Geometry
    ) -> None:
        super().__init__(before, body, geometry)
        self.register_buffer("class_weights", torch.ones(geometry.outputs))

    def loss(self, raw: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy of logits `(N, K)`; an example counts as much as its class."""
        return nn.functional.cross_entropy(raw, targets, self.class_weights, reduction="sum")

    def forward(self, x: Tensor) -> Tensor:
        """`(N, K)` probabilities."""
        return self.raw(x).softmax(1)


class Regressor(Network):
    """Gives `(N, K)` values in the targets' own units; the body works on standardised targets."""

    def __init__(self, before: Standardise, body: nn.Module, geometry: Geometry) -> None:
        super().__init__(before, body, geometry)
        self.register_buffer("target_mean", torch.zeros(geometry.outputs))
        self.register_buffer("target_deviation", torch.ones(geometry.outputs))

    def fit_targets(self, targets: Tensor) -> None:
        """Mean and deviation of each value."""
        self.target_mean, self.target_deviation = moments(targets)

    def loss(self, raw: Tensor, targets: Tensor) -> Tensor:
        """Squared error of standardised targets."""
        wanted = (targets - self.target_mean) / self.target_deviation
        return nn.functional.mse_loss(raw, wanted, reduction="none").mean(1).sum()

    def forward(self, x: Tensor) -> Tensor:
        """`(N, K)` values."""
        return self.raw(x) * self.target_deviation + self.target_mean


def tree_levels(children: npt.NDArray[np.int64], offsets: npt.NDArray[np.int64]) -> int:
    """The largest number of nodes on a way from a root downwards, over all trees of a data version."""
    level, starts = 0, offsets[:-1][np.diff(offsets) > 0]
    nodes = starts
    while len(nodes):
        level += 1
        below = children[nodes]
        nodes = (below + starts[:, None])[below >= 0]
        starts = np.repeat(starts, (below >= 0).sum(1))
    return max(level, 1)


@torch.no_grad()
def predict(
    network: nn.Module,
    examples: Examples,
    indices: npt.NDArray[np.int64],
    batch_size: int,
    device: torch.device,
) -> npt.NDArray[np.float32]:
    """The network's answers `(len(indices), …)` in evaluation mode."""
    network.eval()
    answers = [
        network(torch.from_numpy(examples.inputs(indices[start : start + batch_size])).to(device)).cpu()
        for start in range(0, len(indices), batch_size)
    ]
    return torch.cat(answers).numpy()
