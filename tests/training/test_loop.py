"""The training loop makes the training that a plain PyTorch loop makes, on the same batches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from benchmarks.training import bare, ours
from easeml_core.data import open_version
from easeml_core.workorder import WorkOrder
from training import device as devices
from training.examples import Examples, batches
from training.networks import NetworkTrainee
from training.run_log import Unlogged
from training.watch import Unwatched

CPU = torch.device("cpu")


@pytest.mark.parametrize(("candidate", "kind"), [("SmallCNN", "image"), ("MLP", "vector"), ("GRU", "series")])
def test_the_loop_trains_as_a_bare_one(make_order: Callable[..., Path], candidate: str, kind: str) -> None:
    order = WorkOrder.read(make_order(candidate, kind, max_epochs=3, patience=3))
    examples = Examples(open_version(Path(order.version_dir)))
    devices.seed_everything(0)
    curve = ours(order, NetworkTrainee(order, examples, CPU, Unwatched(), Unlogged()))
    scores = list(bare(order, examples, CPU))
    steps = len(batches(examples.version.train, order.batch_size))
    assert curve == pytest.approx(scores[steps :: steps + 1], abs=1e-7)
    assert len(set(curve)) > 1  # it learns, so that another training would have another curve
