"""A torch network as the search's trainee."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from easeml_core.naming import CandidateName
from easeml_core.workorder import Outcome, WorkOrder
from training.examples import Examples
from training.feed import Feed
from training.group import Group
from training.imbalance import class_weights
from training.loop import Progress, Recipe, train
from training.memory import peak_memory_bytes
from training.models import Network, build_network
from training.models.network import predict
from training.package import example_of, save_network
from training.run_log import RunLog, Unlogged
from training.score import DivergedError
from training.search import Search, Tried
from training.speed import Speed
from training.watch import Stopped, Unwatched, Watch

log = logging.getLogger("training")

_FLOATS = 4  # per weight in a checkpoint: as it is, as it was best, and the optimiser's two
MOST_PIECES = 16  # of a batch; where even those do not fit, the network itself does not


class NetworkTrainee:
    """Trains a network per setting. Weights between two rungs, and those of the best epoch, are in the
    checkpoint: of several settings, only the one in training takes memory."""

    def __init__(
        self,
        order: WorkOrder,
        examples: Examples,
        device: torch.device,
        watch: Watch | Unwatched,
        runs: RunLog | Unlogged,
        group: Group | None = None,
    ) -> None:
        self.order, self.examples, self.device, self.watch, self.runs = order, examples, device, watch, runs
        self.group = group or Group()
        self.feed = Feed(examples, device)
        self._best: tuple[int, Network] | None = None

    @property
    def most_pieces(self) -> int:
        """A piece holds two examples at least: batch normalisation cannot train on one."""
        return min(MOST_PIECES, max(self.order.batch_size // 2, 1))

    def fit(self, index: int, tried: Tried, epochs: int, search: Search) -> None:
        """Train a setting on, from where the last rung, or an earlier attempt, left it."""
        order, child = self.order, self.runs.child(index, tried.setting)
        recipe = Recipe(
            tried.setting,
            order.objective,
            order.max_epochs,
            order.batch_size,
            order.patience,
            order.seed + index,
            Speed(self.device, order.precision, order.compiled),
            search.pieces,
            self.group,
        )
        saved = search.checkpoint.load_setting(index)
        progress = Progress() if saved is None else Progress.restore(saved)
        if saved is not None:
            log.info("resuming setting %d after epoch %d", index + 1, progress.epoch)

        def after_epoch(
            progress: Progress, metrics: dict[str, float], resume: Callable[[], dict[str, Any]]
        ) -> None:
            log.info(
                "setting %d, epoch %d of %d: %s",
                index + 1,
                progress.epoch,
                order.max_epochs,
                "  ".join(f"{name} {value:.4g}" for name, value in metrics.items()),
            )
            child.metrics(metrics | self._system(), progress.epoch)
            is_over = recipe.is_over(progress)
            if is_over or progress.epoch == epochs or search.checkpoint.is_due(size):
                progress.resume = None if is_over else resume()
                search.checkpoint.save_setting(index, progress.state())
                self._note(tried, progress)

        if progress.epoch < epochs and not recipe.is_over(progress):
            network = self._build(recipe.seed, tried.setting)
            size = 4 * sum(_FLOATS * parameter.numel() for parameter in network.parameters())
            try:
                train(network, self.feed, recipe, self.watch, progress, epochs, after_epoch)
            except DivergedError:
                child.state = "diverged"
                raise
            except Stopped as stop:
                if stop.outcome is Outcome.DEADLINE and progress.best is not None:
                    progress.resume = None  # its time is used: nothing goes on from here
                    search.checkpoint.save_setting(index, progress.state())
                    self._note(tried, progress)
                raise
        self._note(tried, progress)
        tried.state = child.state = "done" if recipe.is_over(progress) else "paused"
        search.save(self.watch.compute_seconds)
        self.group.wait()

    def answers(self, search: Search, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """The best setting's answers for examples of the data version."""
        return predict(self._best_of(search).to(self.device), self.examples, indices, 512, self.device)

    def save(self, search: Search, model: Any, folder: Path) -> None:
        """Save the best setting's network as an MLflow model."""
        save_network(self._best_of(search), self.examples.facts, example_of(self.examples), model, folder)

    def _build(self, seed: int, setting: dict[str, Any]) -> Network:
        torch.manual_seed(seed)
        network = build_network(CandidateName.parse(self.order.candidate), self.examples, setting)
        weights = class_weights(self.examples, self.order.objective)
        if weights is not None:
            network.class_weights = torch.from_numpy(weights)
        return network

    def _best_of(self, search: Search) -> Network:
        assert search.best is not None
        if self._best is None or self._best[0] != search.best:
            saved = search.checkpoint.load_setting(search.best)
            if saved is None:
                raise OSError(f"the weights of setting {search.best + 1} cannot be read back")
            network = self._build(self.order.seed, search.tried[search.best].setting)
            network.load_state_dict(saved["best_weights"])
            self._best = search.best, network
        return self._best[1]

    def _note(self, tried: Tried, progress: Progress) -> None:
        assert progress.best is not None  # at least one epoch is done
        tried.note(progress.best, progress.curve)

    def _system(self) -> dict[str, float]:
        system = {"system/memory_gigabytes": peak_memory_bytes() / 1e9}
        if self.device.type == "cuda":
            system["system/gpu_memory_gigabytes"] = torch.cuda.max_memory_allocated(self.device) / 1e9
        return system
