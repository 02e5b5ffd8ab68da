"""On images whose range spans many orders of magnitude, a candidate with a normaliser beats the one without.

Real digits, a hundred thousand times dimmer than the bright point that stands somewhere in each image, as
galaxies are beside a star. Scaled linearly to [0, 1], all that is left of a digit is rounding.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits

from easeml_core.catalog import candidates_for
from easeml_core.data import Limits, build_version, open_version
from easeml_core.naming import CandidateName, version_dir
from tests.data.uploads import NAME, spec_of
from training.examples import Examples
from training.feed import Feed
from training.loop import Progress, Recipe, train
from training.models import build_network
from training.speed import Speed
from training.watch import Unwatched

COUNT, EPOCHS, CPU = 900, 4, torch.device("cpu")


def dim_digits() -> tuple[np.ndarray, np.ndarray]:
    """`(N, 8, 8, 1)` float32 and their classes."""
    rng = np.random.default_rng(0)
    digits, classes = load_digits(return_X_y=True)
    images = digits[:COUNT].reshape(-1, 8, 8) / 16 * 10 ** rng.uniform(-5, -3, (COUNT, 1, 1))
    points = rng.integers(0, 8, (2, COUNT))
    images[np.arange(COUNT), points[0], points[1]] = rng.uniform(0.5, 1.0, COUNT)
    return images[..., None].astype(np.float32), classes[:COUNT]


def accuracy(candidate: str, examples: Examples) -> float:
    """The best accuracy of a few epochs on the validation split."""
    torch.manual_seed(0)
    network = build_network(CandidateName.parse(candidate), examples, {})
    recipe = Recipe({"learning_rate": 0.003}, "accuracy", EPOCHS, 32, EPOCHS, 0, Speed(CPU))
    progress = Progress()
    train(network, Feed(examples, CPU), recipe, Unwatched(), progress, EPOCHS, lambda *epoch: None)
    assert progress.best is not None
    return progress.best.score


def test_a_normalised_candidate_wins_where_the_range_is_high(tmp_path: Path) -> None:
    upload = tmp_path / "upload"
    (upload / "data").mkdir(parents=True)
    images, classes = dim_digits()
    np.savez(upload / "data" / "dim.npz", x=images, y=classes)
    spec = spec_of("[Tensor[8, 8, 1]], []", "[Tensor[10]], []")
    facts = build_version(
        upload, spec, parent=None, limits=Limits(), versions_dir=tmp_path / "versions", name=NAME
    )
    offered = candidates_for(spec, facts.model_dump())
    assert {"SmallCNN", "SmallCNN+f0.2", "SmallCNN+f0.8"} <= set(offered)
    examples = Examples(open_version(version_dir(tmp_path / "versions", NAME, facts.digest)))
    plain, normalised = accuracy("SmallCNN", examples), accuracy("SmallCNN+f0.2", examples)
    assert plain < 0.3
    assert normalised > 0.7
