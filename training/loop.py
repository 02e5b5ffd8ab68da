"""The training loop of one network with one setting of the hyper-parameters.

It reads top to bottom: set the rate, step over the batches, evaluate, note, stop early, checkpoint. Its
whole state is a dict of tensors and plain values, so an epoch can be taken up by another process exactly
where this one ended: same weights, same optimiser, same order of batches.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from training.examples import Examples, batches
from training.models.network import Network, predict
from training.score import DivergedError, Scored, evaluate
from training.watch import Watch

CLIP_NORM = 1.0  # of the gradient; recurrent layers do not learn past a burst of it
WARM_UP = 0.1  # share of all steps in which the rate rises
WORSE_THAN_CONSTANT = 1000.0  # a loss so many times that of the constant predictor will not come back


@dataclass
class Progress:
    """Where a setting's training stands. `state()` and `restore` are the checkpoint's part of it."""

    epoch: int = 0  # epochs done
    best: Scored | None = None
    best_epoch: int = 0
    best_weights: dict[str, Any] = field(default_factory=dict)
    curve: list[float] = field(default_factory=list)  # quality after each epoch
    resume: dict[str, Any] | None = None  # weights, optimiser, generators of the epoch

    def state(self) -> dict[str, Any]:
        """As plain values and tensors."""
        best = None if self.best is None else [self.best.score, self.best.quality]
        return {**vars(self), "best": best}

    @classmethod
    def restore(cls, state: dict[str, Any]) -> Progress:
        """What `state()` gave."""
        best = None if state["best"] is None else Scored(*state["best"])
        return cls(**{**state, "best": best})


@dataclass(frozen=True)
class Recipe:
    """How to train: everything the loop needs beside the network and the data."""

    setting: dict[str, Any]
    objective: str
    max_epochs: int
    batch_size: int
    accumulate: int  # each batch is computed in so many pieces, for want of memory
    patience: int
    seed: int
    device: torch.device


def train(
    network: Network,
    examples: Examples,
    recipe: Recipe,
    watch: Watch,
    progress: Progress,
    after_epoch: Callable[[Progress, dict[str, float]], bool],
) -> Progress:
    """Train until the epochs are used, the score stops improving or `after_epoch` says to give up.

    `after_epoch(progress, metrics)` logs and checkpoints; True gives the setting up. Leaves the network
    with its best weights. Raises DivergedError on a loss or score that is not finite or beyond use, Stopped
    when the watch says so; `progress` then still holds the last whole epoch.
    """
    network.to(recipe.device, memory_format=torch.channels_last)
    optimiser = _optimiser(network, recipe.setting)
    shuffle = np.random.default_rng(recipe.seed)
    train_indices, validation = examples.version.train, examples.version.val
    targets = examples.targets(validation)
    steps_per_epoch = len(batches(train_indices, recipe.batch_size, np.random.default_rng(0)))
    steps = steps_per_epoch * recipe.max_epochs
    limit = WORSE_THAN_CONSTANT * (
        math.log(max(examples.facts.outputs, 2)) if network.is_classification else 1.0
    )
    torch.manual_seed(recipe.seed)
    if progress.resume is not None:
        _take_up(progress.resume, network, optimiser, shuffle)

    while progress.epoch < recipe.max_epochs:
        if progress.epoch - progress.best_epoch >= recipe.patience:
            break
        watch.epoch = progress.epoch + 1
        network.train()
        total = torch.zeros((), device=recipe.device)
        for number, batch in enumerate(batches(train_indices, recipe.batch_size, shuffle)):
            watch.check()
            step = progress.epoch * steps_per_epoch + number
            for group in optimiser.param_groups:
                group["lr"] = recipe.setting["learning_rate"] * rate_factor(step, steps)
            optimiser.zero_grad(set_to_none=True)
            for piece in np.array_split(batch, min(recipe.accumulate, max(len(batch) // 2, 1))):
                x = torch.from_numpy(examples.inputs(piece)).to(recipe.device)
                y = torch.from_numpy(examples.targets(piece)).to(recipe.device)
                loss = network.loss(network.raw(x), y)
                (loss / len(batch)).backward()
                total += loss.detach()
            torch.nn.utils.clip_grad_norm_(network.parameters(), CLIP_NORM)
            optimiser.step()

        mean_loss = float(total) / len(train_indices)  # the only wait for the GPU in an epoch
        if not math.isfinite(mean_loss) or mean_loss > limit:
            raise DivergedError(f"training loss is {mean_loss:.4g} after epoch {progress.epoch + 1}")
        watch.check()
        scored = evaluate(
            recipe.objective,
            examples.facts,
            targets,
            predict(network, examples, validation, 512, recipe.device),
        )
        progress.epoch += 1
        progress.curve.append(scored.quality)
        if progress.best is None or scored.quality > progress.best.quality:
            progress.best, progress.best_epoch = scored, progress.epoch
            progress.best_weights = _copy(network.state_dict())
        # Copies: the next epoch changes the originals, and a stop in its middle must not.
        progress.resume = {
            "weights": _copy(network.state_dict()),
            "optimiser": _copy(optimiser.state_dict()),
            "shuffle": shuffle.bit_generator.state,
            "torch": torch.get_rng_state(),
        }
        metrics = {
            "train_loss": mean_loss,
            recipe.objective: scored.score,
            "quality": scored.quality,
            "learning_rate": optimiser.param_groups[0]["lr"],
        }
        if after_epoch(progress, metrics):
            break

    network.load_state_dict(progress.best_weights)
    return progress


def rate_factor(step: int, steps: int) -> float:
    """One cycle: linear warm-up over the first tenth of `steps`, then half a cosine down to zero."""
    share = (step + 0.5) / steps
    if share < WARM_UP:
        return share / WARM_UP
    return 0.5 * (1.0 + math.cos(math.pi * (share - WARM_UP) / (1.0 - WARM_UP)))


def _optimiser(network: Network, setting: dict[str, Any]) -> torch.optim.Optimizer:
    decay = float(setting.get("weight_decay", 1e-4))
    if setting.get("optimizer", "adamw") == "sgd":
        return torch.optim.SGD(
            network.parameters(), setting["learning_rate"], momentum=0.9, nesterov=True, weight_decay=decay
        )
    return torch.optim.AdamW(network.parameters(), setting["learning_rate"], weight_decay=decay, fused=True)


def _copy(state: Any) -> Any:
    """A state dict on the CPU, independent of the original."""
    if isinstance(state, torch.Tensor):
        return state.detach().to("cpu", copy=True)
    if isinstance(state, dict):
        return {key: _copy(value) for key, value in state.items()}
    return [_copy(value) for value in state] if isinstance(state, list) else state


def _take_up(
    saved: dict[str, Any], network: Network, optimiser: torch.optim.Optimizer, shuffle: np.random.Generator
) -> None:
    network.load_state_dict(saved["weights"])
    optimiser.load_state_dict(saved["optimiser"])
    shuffle.bit_generator.state = saved["shuffle"]
    torch.set_rng_state(saved["torch"])
