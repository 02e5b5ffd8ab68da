"""Near copies across the split are named; data that is dense, or of few values, is not taken for one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn import datasets

from tests.data.test_arrays import npz
from tests.data.uploads import image, series, vector


def test_images_saved_again_are_found(build: Any, put: Any) -> None:
    digits = datasets.load_digits()
    x, y = (digits.images * 15).astype(np.uint8), digits.target
    put("data/d.npz", npz(x=x, y=y))
    assert build(image(8, 8, 1, 10)).facts.near_duplicates == []
    noise = np.random.default_rng(0).integers(-2, 3, (100, 8, 8))
    again = np.clip(x[:100] + noise, 0, 255).astype(np.uint8)
    put("data/d.npz", npz(x=np.concatenate([x, again]), y=np.concatenate([y, y[:100]])))
    version = build(image(8, 8, 1, 10))
    number = {ident: i for i, ident in enumerate(version.ids)}
    pairs = [(number[held], number[seen]) for held, seen in version.facts.near_duplicates]
    val, train = set(version.val.tolist()), set(version.train.tolist())
    assert all(held in val and seen in train for held, seen in pairs)
    apart = sum((i in val) != (i + 1797 in val) for i in range(100))
    assert sum(abs(held - seen) == 1797 for held, seen in pairs) >= 0.9 * apart > 20
    assert len(pairs) <= 1.3 * apart


def test_images_that_span_many_orders_are_compared_by_all_of_them(build: Any, put: Any) -> None:
    """Linearly, all that is beside the few brightest pixels would be alike."""
    x, y = np.exp(4 * np.random.default_rng(0).normal(size=(40, 8, 8, 1))), np.arange(40) % 2
    put("data/d.npz", npz(x=x, y=y))
    facts = build(image(8, 8, 1, 2)).facts
    assert facts.dynamic_range > 1e6
    assert facts.near_duplicates == []
    put("data/d.npz", npz(x=np.concatenate([x, 1.001 * x[:20]]), y=np.concatenate([y, y[:20]])))
    version = build(image(8, 8, 1, 2))
    number = {ident: i for i, ident in enumerate(version.ids)}
    pairs = [abs(number[held] - number[seen]) for held, seen in version.facts.near_duplicates]
    assert len(pairs) > 2
    assert set(pairs) == {40}


@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer", "diabetes"])
def test_tables_of_real_measurements_hold_none(build: Any, put: Any, name: str) -> None:
    data = getattr(datasets, f"load_{name}")()
    put("data/d.npz", npz(x=data.data, y=data.target))
    if name == "diabetes":
        version = build(vector(data.data.shape[1], 1))
    else:
        version = build(vector(data.data.shape[1], len(data.target_names)))
    assert version.facts.near_duplicates == []


def test_rounded_rows_and_series_are_found(build: Any, put: Any) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(200, 6))
    put("data/d.npz", npz(x=np.concatenate([x, x.round(4)]), y=np.arange(400) % 2))
    assert len(build(vector(6, 2)).facts.near_duplicates) > 20
    walks = random.normal(size=(60, 30)).cumsum(axis=1)
    put("data/d.npz", npz(x=np.concatenate([walks, walks[:30] + 1e-3]), y=np.arange(90) % 2))
    assert len(build(series(1, 2)).facts.near_duplicates) > 2
    put("data/d.npz", npz(x=np.linspace(0, 1, 300)[:, None], y=np.arange(300) % 2))
    assert build(vector(1, 2)).facts.near_duplicates == []
