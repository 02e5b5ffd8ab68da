"""The catalogue's facts are true of what the trainer builds."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from easeml_core.catalog import MODELS, Size
from easeml_core.language import TEMPLATES
from easeml_core.naming import CandidateName
from training.models import TRAINABLE, Geometry, assemble, images, recovery, seq2seq, series, trees
from training.models.perceptron import mlp

OUTPUTS = 10


def counted(network: torch.nn.Module, x: torch.Tensor) -> tuple[float, float]:
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        network.eval()(x)
    return float(counter.get_total_flops()), float(sum(p.numel() for p in network.parameters()))


def test_both_know_the_same_models() -> None:
    for row in TEMPLATES:
        assert {name for name, m in MODELS.items() if row.id in m.templates} == TRAINABLE.get(row.id, set())


@pytest.mark.parametrize("side", [8, 28])
@pytest.mark.parametrize("name", sorted(images.BUILDERS))
def test_images(name: str, side: int) -> None:
    flops, weights = counted(images.BUILDERS[name](3, side, OUTPUTS), torch.zeros(1, 3, side, side))
    size = Size((side, side, 3), OUTPUTS)
    assert 1 / 3 < MODELS[name].forward(size) / flops < 3
    assert MODELS[name].weights(size) == pytest.approx(weights, rel=0.02)


IMAGE = Geometry("image", (16, 16, 3), 768, target_shape=(16, 16, 3))
SERIES = Geometry("series", (6,), OUTPUTS, 30)
PAIRS = Geometry("series", (6,), 2, 30, target_shape=(2,), target_length=30)
TREE = Geometry("tree", (5,), OUTPUTS, 20, children=2, levels=8)
BYTES = Geometry("bytes", (1,), OUTPUTS, 200)
BYTES_AGAIN = Geometry("bytes", (1,), 1, 200, target_length=200, recovers_itself=True)
LONG = [
    *((name, SERIES, "classification") for name in (*series.BUILDERS, "ROCKET")),
    *((name, PAIRS, "translation") for name in seq2seq.BUILDERS),
    *((name, IMAGE, "recovery") for name in recovery.BUILDERS),
    *((name, TREE, "classification") for name in (*trees.BUILDERS, "tree-kernel-SVM")),
    ("bit-level-RNN", BYTES, "classification"),
    ("bit-level-auto-encoder", BYTES_AGAIN, "recovery"),
]


@pytest.mark.parametrize(("name", "geometry", "task_kind"), LONG, ids=[name for name, *_ in LONG])
def test_other_networks(name: str, geometry: Geometry, task_kind: str) -> None:
    """What a tree costs depends on its shape, and an LSTM is one operation that the counter does not know: of
    those, only the weights are compared."""
    network = assemble(CandidateName(name), geometry, task_kind, 64)
    assert network is not None
    steps = () if geometry.kind == "image" else (geometry.max_length,)
    x = torch.zeros(1, *steps, *geometry.shape)
    size = Size(geometry.shape, geometry.outputs, mean_length=float(geometry.max_length))
    if geometry.kind == "tree" or "LSTM" in name:
        weights = float(sum(p.numel() for p in network.parameters()))
    else:
        flops, weights = counted(network, x)
        assert MODELS[name].forward(size) == pytest.approx(flops, rel=0.5)
    assert MODELS[name].weights(size) == pytest.approx(weights, rel=0.02)


def test_the_perceptron() -> None:
    flops, weights = counted(mlp(13, 64, OUTPUTS), torch.zeros(1, 13))
    size = Size((13,), OUTPUTS)
    assert MODELS["MLP"].forward(size) == pytest.approx(flops, rel=0.1)
    assert MODELS["MLP"].weights(size) == pytest.approx(weights, rel=0.02)
