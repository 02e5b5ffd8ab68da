"""Rare classes: where the objective counts classes the same, training does too, and it pays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from easeml_core.data import open_version
from training.examples import Examples
from training.imbalance import MOST, class_weights
from training.trial import run_attempt

MakeOrder = Callable[..., Path]
SEARCHES: dict[str, dict[str, Any]] = {"MLP": {"learning_rate": 0.003}, "LogisticRegression": {"C": 0.01}}
COUNTS = (170, 170, 6)


@pytest.fixture(scope="module")
def rare(save_version: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Real digits 3, 8 and 9, of which there are few 9 to learn from; many of each to validate on."""
    rng = np.random.default_rng(0)
    inputs, digits = load_digits(return_X_y=True)
    rows = [rng.permutation(np.flatnonzero(digits == digit)) for digit in (3, 8, 9)]
    used = np.concatenate(rows)
    classes = np.repeat(np.arange(3), [len(row) for row in rows])
    starts = np.cumsum([0, *(len(row) for row in rows)])
    train = np.concatenate(
        [np.arange(a, a + min(count, 110)) for a, count in zip(starts, COUNTS, strict=False)]
    )
    val = np.concatenate([np.arange(b - 60, b) for b in starts[1:]])
    noisy = inputs[used] + rng.normal(0, 6, (len(used), 64))
    facts: dict[str, Any] = {"kind": "vector", "task_kind": "classification", "shape": (64,), "outputs": 3}
    facts |= {"dtype": "float32", "low": 0.0, "high": 16.0, "classes": ("three", "eight", "nine")}
    arrays = {"inputs": noisy.astype(np.float32), "targets": classes, "train": train, "val": val}
    return save_version(tmp_path_factory.mktemp("rare") / "version", facts, **arrays)


def test_weights_make_classes_count_the_same(rare: Path) -> None:
    examples = Examples(open_version(rare))
    weights = class_weights(examples, "balanced_accuracy")
    assert weights is not None
    counts = np.bincount(examples.targets(examples.version.train))
    assert weights * counts == pytest.approx(np.full(3, counts.sum() / 3))
    assert weights.max() < MOST
    assert class_weights(examples, "accuracy") is None


@pytest.mark.parametrize("candidate", SEARCHES)
def test_rare_classes_are_found_where_they_count(
    candidate: str, rare: Path, make_order: MakeOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields: dict[str, Any] = {"objective": "balanced_accuracy", "version_dir": rare, "max_epochs": 15}
    fields |= {"search": SEARCHES[candidate], "patience": 15}
    weighted = run_attempt(make_order(candidate, "vector", **fields).parent)
    monkeypatch.setattr("training.imbalance.COUNT_CLASSES_THE_SAME", frozenset())
    plain = run_attempt(make_order(candidate, "vector", **fields).parent)
    assert weighted.score is not None, weighted.reason
    assert plain.score is not None
    assert weighted.score > plain.score + 0.02
