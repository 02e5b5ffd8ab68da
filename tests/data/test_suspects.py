"""Mislabelled examples are found on real data with flipped labels, and what cannot be judged is said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn import datasets

from easeml_core.data.suspects import FEWEST, find_suspects, rank
from tests.data.test_arrays import npz
from tests.data.uploads import image, vector


def flipped(labels: Any, share: float, seed: int) -> tuple[Any, list[int]]:
    """Labels of which a share was moved to another class, and the positions of those."""
    random = np.random.default_rng(seed)
    wrong = random.choice(len(labels), round(share * len(labels)), replace=False)
    changed, classes = labels.copy(), labels.max() + 1
    changed[wrong] = (labels[wrong] + random.integers(1, classes, len(wrong))) % classes
    return changed, wrong.tolist()


def test_digits_with_one_label_in_ten_flipped(build: Any, put: Any) -> None:
    digits = datasets.load_digits()
    labels, wrong = flipped(digits.target, 0.1, seed=0)
    put("data/d.npz", npz(x=(digits.images * 15).astype(np.uint8), y=labels))
    version = build(image(8, 8, 1, 10))
    names = {f"d.npz[{i}]" for i in wrong}
    first = find_suspects(version, most=len(wrong))
    assert np.mean([suspect.id in names for suspect in first.suspects]) >= 0.9
    assert (first.judged, first.not_judged) == (1797, {})
    listed = find_suspects(version)
    assert 0.5 * len(wrong) < len(listed.suspects) < 1.2 * len(wrong)
    assert np.mean([suspect.id in names for suspect in listed.suspects]) >= 0.95
    right = {f"d.npz[{i}]": str(digits.target[i]) for i in wrong}
    told = [suspect.likely == right[suspect.id] for suspect in listed.suspects if suspect.id in names]
    assert np.mean(told) >= 0.95
    margins = [suspect.margin for suspect in listed.suspects]
    assert margins == sorted(margins)
    assert margins[-1] < 0


def test_a_rare_class_is_not_judged_and_said_so(build: Any, put: Any) -> None:
    wine = datasets.load_wine()
    common = np.flatnonzero(wine.target < 2)[:100]
    rare = np.flatnonzero(wine.target == 2)[:2]
    labels, wrong = flipped(wine.target[common], 0.1, seed=1)
    x = wine.data[[*common, *rare]]
    put("data/d.npz", npz(x=x, y=np.concatenate([labels, [2, 2]])))
    version = build(vector(13, 3))
    found = find_suspects(version, most=len(wrong))
    assert found.not_judged == {"2": 2}
    assert found.judged == 100
    assert np.mean([suspect.id in {f"d.npz[{i}]" for i in wrong} for suspect in found.suspects]) >= 0.7


def test_nothing_but_rare_classes_and_regressions(build: Any, put: Any) -> None:
    put("data/t.csv", "a,label\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in range(2 * FEWEST - 2)))
    found = find_suspects(build(vector(1, 2)))
    assert (found.suspects, found.judged) == ((), 0)
    assert found.not_judged == {"a": FEWEST - 1, "b": FEWEST - 1}
    put("data/t.csv", "a,label\n" + "".join(f"{i},{i * i}\n" for i in range(20)))
    with pytest.raises(ValueError, match="only classes"):
        find_suspects(build(vector(1, 1)))


def test_a_copy_does_not_vouch_for_its_own_label(build: Any, put: Any) -> None:
    # Five copies of one mislabelled digit: only a split by content keeps them from confirming each other.
    digits = datasets.load_digits()
    x, y = digits.images[:600] * 15, digits.target[:600].copy()
    odd = (y[0] + 3) % 10
    put("data/d.npz", npz(x=np.concatenate([x, *[x[:1]] * 4]).astype(np.uint8), y=[odd, *y[1:], *[odd] * 4]))
    ids = {suspect.id for suspect in find_suspects(build(image(8, 8, 1, 10))).suspects}
    assert {"d.npz[0]", *(f"d.npz[{i}]" for i in range(600, 604))} <= ids


def test_ranking_by_hand() -> None:
    probabilities = np.array([[0.9, 0.1], [0.2, 0.8], [0.3, 0.7], [0.1, 0.9]])
    likely, margin, suspects = rank(probabilities, np.array([0, 0, 1, 1]))
    assert likely.tolist() == [1, 1, 0, 0]
    assert margin == pytest.approx([0.8, -0.6, 0.4, 0.8])
    # The mean probability of class 1 among its own is 0.8: only the second example reaches it.
    assert suspects.tolist() == [False, True, False, False]
