"""A torch network as the search's trainee."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from easeml_core.naming import CandidateName
from easeml_core.workorder import WorkOrder
from training.examples import Examples
from training.loop import Progress, Recipe, train
from training.memory import peak_memory_bytes
from training.models import Network, build_network
from training.models.network import predict
from training.package import EXAMPLE_ROWS, save_network
from training.run_log import RunLog
from training.search import Finished, Search
from training.watch import Stopped, Watch

log = logging.getLogger("training")


class NetworkTrainee:
    """Trains a network per setting; keeps the weights of the best one in the search's state."""

    def __init__(
        self, order: WorkOrder, examples: Examples, device: torch.device, watch: Watch, runs: RunLog
    ) -> None:
        self.order, self.examples, self.device, self.watch, self.runs = order, examples, device, watch, runs

    def fit(self, index: int, setting: dict[str, Any], search: Search) -> Finished:
        """Train one setting, from where an earlier attempt left it if it did."""
        order, child = self.order, self.runs.child(index, setting)
        recipe = Recipe(
            setting,
            order.objective,
            order.max_epochs,
            order.batch_size,
            search.accumulate,
            order.patience,
            order.seed + index,
            self.device,
        )
        network = self._build(recipe.seed, setting)
        progress = Progress() if search.progress is None else Progress.restore(search.progress)
        behind = False

        def after_epoch(progress: Progress, metrics: dict[str, float]) -> bool:
            nonlocal behind
            log.info(
                "setting %d, epoch %d of %d: %s",
                index + 1,
                progress.epoch,
                order.max_epochs,
                "  ".join(f"{name} {value:.4g}" for name, value in metrics.items()),
            )
            system = {"system/memory_gigabytes": peak_memory_bytes() / 1e9}
            if self.device.type == "cuda":
                system["system/gpu_memory_gigabytes"] = torch.cuda.max_memory_allocated(self.device) / 1e9
            child.metrics(metrics | system, progress.epoch)
            search.progress = progress.state()
            search.save(self.watch.compute_seconds)
            behind = search.is_behind(progress.curve)
            return behind

        try:
            train(network, self.examples, recipe, self.watch, progress, after_epoch)
        except Stopped:
            search.save(self.watch.compute_seconds, now=True)
            raise
        assert progress.best is not None  # at least one epoch is done
        if search.is_best(progress.best):
            search.best_weights = progress.best_weights
        state = "behind" if behind else "done"
        self.runs.close_child(state)
        return Finished(
            setting, state, progress.best.score, progress.best.quality, progress.epoch, curve=progress.curve
        )

    def answers(self, search: Search, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """The best setting's answers for examples of the data version."""
        return predict(self._best(search).to(self.device), self.examples, indices, 512, self.device)

    def save(self, search: Search, model: Any, folder: Path) -> None:
        """Save the best setting's network as an MLflow model."""
        example = self.examples.inputs(self.examples.version.train[:EXAMPLE_ROWS])
        if len(example) < EXAMPLE_ROWS:
            example = np.repeat(example, EXAMPLE_ROWS, axis=0)
        save_network(self._best(search), self.examples.facts, example, model, folder)

    def _build(self, seed: int, setting: dict[str, Any]) -> Network:
        torch.manual_seed(seed)
        return build_network(CandidateName.parse(self.order.candidate), self.examples, setting)

    def _best(self, search: Search) -> Network:
        assert search.best is not None
        assert search.best_weights is not None
        network = self._build(self.order.seed, search.best.setting)
        network.load_state_dict(search.best_weights)
        return network
