"""A network with fixed features as the search's trainee: only its head is fitted, in one go."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from easeml_core.naming import CandidateName
from training.device import seed_everything
from training.models import Network, build_network
from training.models.heads import fit_head
from training.models.network import predict
from training.package import example_of, save_network
from training.pipelines import PipelineTrainee

_BATCH = 64  # examples whose features are computed at a time


class HeadTrainee(PipelineTrainee):
    """Fits the head of a network per setting; the features are those of the order's seed, for all settings.

    They are kept between settings, and computed on the CPU: they are computed once.
    """

    _features: Any = None

    def save(self, search: Any, model: Any, folder: Path) -> None:
        """Save the best setting's network as an MLflow model."""
        save_network(self._best(search), self.examples.facts, example_of(self.examples), model, folder)

    def _fit(self, setting: dict[str, Any]) -> Network:
        order, version = self.order, self.examples.version
        seed_everything(order.seed)
        name = CandidateName.parse(order.candidate)
        network = build_network(name, self.examples, setting).eval()
        targets = self.examples.targets(version.train)
        self.check_classes(targets)
        with self.watch.interruptible():
            if self._features is None:
                self._features = self._features_of(network)
            weights = self.example_weights(targets)
            fit_head(name.model, network, self._features, targets, setting, order.seed, weights)
        return network

    @torch.no_grad()
    def _features_of(self, network: Network) -> Any:
        """`(N, F)` of the training split; of counts, of which most are zero, a sparse matrix."""
        from scipy import sparse

        train, parts = self.examples.version.train, []
        for start in range(0, len(train), _BATCH):
            x = torch.from_numpy(self.examples.inputs(train[start : start + _BATCH]))
            part = network.body.features(network.before(x)).numpy()
            parts.append(sparse.csr_array(part) if (part == 0).mean() > 0.5 else part)
        return sparse.vstack(parts, "csr") if sparse.issparse(parts[0]) else np.concatenate(parts)

    def _predict(self, fitted: Any, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.floating]:
        return predict(fitted, self.examples, indices, _BATCH, torch.device("cpu"))
