"""The training loop of one network with one setting of the hyper-parameters.

It reads top to bottom: set the rate, step over the batches, evaluate, note, checkpoint, stop early. What it
needs to go on is tensors and plain values, and every epoch seeds its own generators, so that an epoch can be
taken up by another process exactly where this one ended.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from training.device import seed_torch
from training.examples import Indices, batches
from training.feed import Feed
from training.group import Group
from training.memory import is_out_of_memory
from training.models.network import Network, predict
from training.score import DivergedError, Scored, evaluate
from training.speed import Speed
from training.watch import Unwatched, Watch

CLIP_NORM = 1.0  # of the gradient; recurrent layers do not learn past a burst of it
WARM_UP = 0.1  # share of all steps in which the rate rises
WORSE_THAN_CONSTANT = 1000.0  # a loss so many times that of the constant predictor will not come back
EVALUATED = 512  # examples answered at a time


@dataclass
class Progress:
    """Where a setting's training stands. `state()` and `restore` are the checkpoint's form of it."""

    best: Scored | None = None
    best_epoch: int = 0
    best_weights: dict[str, Any] = field(default_factory=dict)
    curve: list[float] = field(default_factory=list)  # quality after each epoch
    resume: dict[str, Any] | None = None  # weights and optimiser after the last epoch; None: never goes on

    @property
    def epoch(self) -> int:
        """Epochs done."""
        return len(self.curve)

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
    patience: int
    seed: int
    speed: Speed
    pieces: int = 1  # each batch is computed in so many, for want of memory
    group: Group = field(default_factory=Group)

    def is_over(self, progress: Progress) -> bool:
        """Whether more epochs would change nothing: all are used, or the score has stopped improving."""
        return progress.epoch >= self.max_epochs or progress.epoch - progress.best_epoch >= self.patience


def train(
    network: Network,
    feed: Feed,
    recipe: Recipe,
    watch: Watch | Unwatched,
    progress: Progress,
    epochs: int,
    after_epoch: Callable[[Progress, dict[str, float], Callable[[], dict[str, Any]]], None],
) -> None:
    """Train until `epochs` epochs are done in all, or the training is over.

    `after_epoch(progress, metrics, resume)` logs and checkpoints; `resume()` is what `progress.resume` has to
    be for the next epoch to be taken up, and shares its tensors with the network. Raises DivergedError on a
    loss or score that is not finite or beyond use, Stopped when the watch says so.
    """
    examples, speed, group = feed.examples, recipe.speed, recipe.group
    network.to(speed.device, memory_format=torch.channels_last)
    parameters = [*network.parameters()]  # walking a network's modules takes longer than a small step
    optimiser = _optimiser(parameters, recipe.setting)
    if progress.resume is not None:
        network.load_state_dict(progress.resume["weights"])
        optimiser.load_state_dict(progress.resume["optimiser"])
        speed.scaler.load_state_dict(progress.resume["scaler"])
    forward = speed.forward(network)
    train_indices, validation = examples.version.train, examples.version.val
    targets = examples.targets(validation)
    mine = np.array_split(validation, group.size)[group.rank]
    steps_per_epoch = len(batches(train_indices, recipe.batch_size, np.random.default_rng(0)))
    steps = steps_per_epoch * recipe.max_epochs
    limit = WORSE_THAN_CONSTANT * (
        math.log(max(examples.facts.outputs, 2)) if network.is_classification else 1.0
    )

    def resume() -> dict[str, Any]:
        return {
            "weights": network.state_dict(),
            "optimiser": optimiser.state_dict(),
            "scaler": speed.scaler.state_dict(),
        }

    while progress.epoch < epochs and not recipe.is_over(progress):
        watch.epoch = progress.epoch + 1
        plan = _plan(train_indices, recipe, progress.epoch)
        seed_torch(seed_of(recipe.seed, progress.epoch, group.rank), speed.device)
        network.train()
        fed = feed.batches(piece for _, pieces in plan for piece in pieces)
        total, short = torch.zeros(2, device=speed.device)
        for number, (size, pieces) in enumerate(plan):
            watch.check()
            rate = recipe.setting["learning_rate"] * rate_factor(
                progress.epoch * steps_per_epoch + number, steps
            )
            for trained in optimiser.param_groups:
                trained["lr"] = rate
            optimiser.zero_grad(set_to_none=True)
            try:
                for _ in pieces:
                    x, y = next(fed)
                    loss = network.training_loss(x, y, forward)
                    speed.scaler.scale(loss / size).backward()
                    total += loss.detach()
            except Exception as error:
                if group.size == 1 or not is_out_of_memory(error):
                    raise
                short += 1  # the others wait for our gradients now: all are told after the epoch
                fed = feed.batches(piece for _, later in plan[number + 1 :] for piece in later)
            group.add_gradients(parameters)
            speed.scaler.unscale_(optimiser)
            torch.nn.utils.clip_grad_norm_(parameters, CLIP_NORM)
            speed.scaler.step(optimiser)
            speed.scaler.update()

        if group.size > 1 and float(group.add(short)) > 0:
            raise MemoryError("one of the processes ran out of memory")
        mean_loss = float(group.add(total)) / len(train_indices)  # the only wait for the GPU in an epoch
        if not math.isfinite(mean_loss) or mean_loss > limit:
            raise DivergedError(f"training loss is {mean_loss:.4g} after epoch {progress.epoch + 1}")
        watch.check()
        group.average_statistics(network)
        rows = max(EVALUATED // recipe.pieces, 1)
        answers = group.gather(predict(network, examples, mine, rows, speed.device))
        scored = evaluate(recipe.objective, examples.facts, targets, answers)
        progress.curve.append(scored.quality)
        if progress.best is None or scored.quality > progress.best.quality:
            progress.best, progress.best_epoch = scored, progress.epoch
            _keep(network, progress.best_weights)
        metrics = {
            "train_loss": mean_loss,
            recipe.objective: scored.score,
            "quality": scored.quality,
            "learning_rate": rate,
        }
        after_epoch(progress, metrics, resume)


def rate_factor(step: int, steps: int) -> float:
    """One cycle: linear warm-up over the first tenth of `steps`, then half a cosine down to zero."""
    share = (step + 0.5) / steps
    if share < WARM_UP:
        return share / WARM_UP
    return 0.5 * (1.0 + math.cos(math.pi * (share - WARM_UP) / (1.0 - WARM_UP)))


def _plan(indices: Indices, recipe: Recipe, epoch: int) -> list[tuple[int, list[Indices]]]:
    """An epoch's batches, shuffled: of each its size, and the pieces that this process computes of it."""
    shuffle = np.random.default_rng([recipe.seed, epoch])
    plan = []
    for batch in batches(indices, recipe.batch_size, shuffle):
        share = recipe.group.share(batch)
        count = min(recipe.pieces, max(len(share) // 2, 1))
        pieces = [share] if count == 1 else np.array_split(share, count)
        plan.append((len(batch), pieces if len(share) else []))
    return plan


def seed_of(*parts: int) -> int:
    """A seed in [0, 2^63) of its own for each combination of numbers."""
    return int(np.random.SeedSequence(parts).generate_state(1, np.uint64)[0] >> np.uint64(1))


def _keep(network: Network, kept: dict[str, Any]) -> None:
    """Copy the network's state into the tensors of `kept`: making new ones would take ten times longer."""
    for name, value in network.state_dict().items():
        if name in kept:
            kept[name].copy_(value)
        else:
            kept[name] = value.detach().to("cpu", copy=True)


def _optimiser(parameters: list[nn.Parameter], setting: dict[str, Any]) -> torch.optim.Optimizer:
    decay = float(setting.get("weight_decay", 1e-4))
    if setting.get("optimizer", "adamw") == "sgd":
        return torch.optim.SGD(
            parameters, setting["learning_rate"], momentum=0.9, nesterov=True, weight_decay=decay
        )
    return torch.optim.AdamW(parameters, setting["learning_rate"], weight_decay=decay, fused=True)
