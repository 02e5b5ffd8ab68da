from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from training.models import images
from training.models.fit_images import SMALLEST, Enlarge, stem_reduction
from training.models.network import Classifier, Geometry
from training.models.preprocess import ScaleImages, Standardise

torch.set_num_threads(1)


EXTREMES = [(8, 8, 1), (9, 300, 4), (64, 64, 13)]
TINY = ("SmallCNN", 5, 9, 1)  # is enlarged before it reaches the network, whichever that is


@pytest.mark.parametrize(
    ("name", "height", "width", "channels"),
    [*((name, *size) for name in images.BUILDERS for size in EXTREMES), TINY],
)
def test_image_models_take_any_size_and_channels(name: str, height: int, width: int, channels: int) -> None:
    side = max(min(height, width), SMALLEST)
    body = nn.Sequential(Enlarge(height, width), images.BUILDERS[name](channels, side, 4), nn.Flatten())
    network = Classifier(ScaleImages(0.0, 255.0, None), body, Geometry("image", (height, width, channels), 4))
    x = torch.rand(2, height, width, channels) * 255
    network.train()
    network.loss(network.raw(x), torch.tensor([0, 3])).backward()
    assert all(p.grad is not None and torch.isfinite(p.grad).all() for p in network.parameters())
    with torch.no_grad():
        probabilities = network.eval()(x[:1])
    assert probabilities.shape == (1, 4)
    assert probabilities.sum() == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize(("size", "later", "expected"), [(224, 8, 4), (28, 8, 4), (16, 8, 2), (8, 8, 1)])
def test_a_stem_shrinks_as_far_as_the_last_map_allows(size: int, later: int, expected: int) -> None:
    assert stem_reduction(size, later) == expected


@pytest.mark.parametrize("k", [0.2, 0.4, 0.6, 0.8])
def test_the_normaliser_has_its_single_maximum_where_the_paper_says(k: float) -> None:
    x = torch.linspace(0, 1, 100_001, dtype=torch.float64)
    y = ScaleImages(0.0, 1.0, k).scale(x)
    assert y[0] == 0
    assert y[-1] == pytest.approx(0, abs=1e-12)
    assert y.max() == pytest.approx(0.25, abs=1e-6)
    assert x[y.argmax()] == pytest.approx(2 ** (-1 / k), abs=1e-3)


def test_statistics_of_a_constant_feature_are_harmless() -> None:
    layer = Standardise(2)
    layer.fit(torch.tensor(np.array([[1.0, 5.0], [3.0, 5.0]], dtype=np.float32)))
    assert torch.isfinite(layer(torch.tensor([[2.0, 5.0]]))).all()
