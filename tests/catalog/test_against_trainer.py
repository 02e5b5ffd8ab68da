"""The catalogue's facts are true of what the trainer builds."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from easeml_core.catalog import MODELS, Size
from easeml_core.language import TEMPLATES
from training.models import TRAINABLE, images, series
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


@pytest.mark.parametrize("name", sorted(series.BUILDERS))
def test_series(name: str) -> None:
    network = series.BUILDERS[name](6, 64, OUTPUTS)
    weights = sum(p.numel() for p in network.parameters())
    assert MODELS[name].weights(Size((6,), OUTPUTS)) == pytest.approx(weights, rel=0.02)


def test_the_perceptron() -> None:
    flops, weights = counted(mlp(13, 64, OUTPUTS), torch.zeros(1, 13))
    size = Size((13,), OUTPUTS)
    assert MODELS["MLP"].forward(size) == pytest.approx(flops, rel=0.1)
    assert MODELS["MLP"].weights(size) == pytest.approx(weights, rel=0.02)
