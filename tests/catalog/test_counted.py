"""The catalogue's counts are those of the networks that the trainer builds."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from easeml_core.catalog import MODELS, Size
from easeml_core.catalog.counted import SIDES
from training.models import images

torch.set_num_threads(1)


def count(name: str, side: int) -> tuple[float, float, float]:
    """Operations, numbers and layers of the forward pass of one image of 3 channels and 10 classes."""
    network = nn.Sequential(images.BUILDERS[name](3, side, 10), nn.Flatten()).eval()
    numbers: list[int] = []

    def note(module: nn.Module, inputs: object, output: torch.Tensor | tuple[torch.Tensor, ...]) -> None:
        numbers.append((output[0] if isinstance(output, tuple) else output).numel())

    for module in network.modules():
        if not list(module.children()):
            module.register_forward_hook(note)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        network(torch.zeros(1, 3, side, side))
    return float(counter.get_total_flops()), float(sum(numbers)), float(len(numbers))


@pytest.mark.parametrize("name", sorted(images.BUILDERS))
@pytest.mark.parametrize("side", [8, 28])
def test_what_is_in_the_table_is_counted(name: str, side: int) -> None:
    assert side in SIDES
    facts, size = MODELS[name], Size((side, side, 3), 10)
    assert facts.activations is not None
    assert facts.calls is not None
    operations, numbers, layers = count(name, side)
    assert facts.forward(size) == pytest.approx(operations, rel=0.01)
    assert facts.activations(size) == pytest.approx(numbers, rel=0.01)
    assert facts.calls(size) == pytest.approx(layers, rel=0.1)  # of some sizes, a pool is left out


@pytest.mark.parametrize("name", ["SmallCNN", "ResNet-18", "MobileNetV3"])
def test_what_is_between_is_not_far_off(name: str) -> None:
    for side in (12, 48):
        operations, _, _ = count(name, side)
        assert 1 / 3 < MODELS[name].forward(Size((side, side, 3), 10)) / operations < 3


def test_beyond_the_table_the_area_counts() -> None:
    one, four = (MODELS["VGG-16"].forward(Size((side, side, 3), 10)) for side in (224, 448))
    assert four == pytest.approx(4 * one)
    tiny, smallest = (MODELS["VGG-16"].forward(Size((side, side, 3), 10)) for side in (3, 8))
    assert tiny == smallest
