""".npz files: arrays of many shapes, and those that would run code."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data.uploads import image, series, vector

Put = Callable[[str, "bytes | str"], Path]
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(20, 3)).astype(np.float32)
Y = np.arange(20) % 2


def npz(**arrays: Any) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("labels", "classes", "first"),
    [
        (Y, ("0", "1"), 0),
        (Y.astype(np.float64), ("0", "1"), 0),
        (Y.astype(bool), ("0", "1"), 0),
        (Y[:, None], ("0", "1"), 0),
        (np.array(["b", "a"])[Y], ("a", "b"), 1),
        (np.array([b"b", b"a"])[Y], ("a", "b"), 1),
        (np.eye(2)[Y], ("0", "1"), 0),
    ],
)
def test_labels(build: Any, put: Put, labels: Any, classes: tuple[str, ...], first: int) -> None:
    put("data/d.npz", npz(x=X, y=labels))
    version = build(vector(3, 2))
    assert version.facts.classes == classes
    assert version.targets[0] == first
    assert np.array_equal(version.inputs, X)
    assert version.ids[:2] == ["d.npz[0]", "d.npz[1]"]


def test_names_of_classes_and_ids(build: Any, put: Put) -> None:
    ids = [f"patient {i}" for i in range(20)]
    put("data/d.npz", npz(inputs=X, targets=Y, classes=["ill", "well"], ids=ids))
    version = build(vector(3, 2))
    assert version.facts.classes == ("ill", "well")
    assert version.ids == ids


def test_given_splits(build: Any, put: Put) -> None:
    put("data/d.npz", npz(x_train=X[:12], y_train=Y[:12], x_test=X[12:], y_test=Y[12:]))
    version = build(vector(3, 2))
    assert (version.facts.n_train, version.facts.n_val) == (12, 8)
    assert {version.ids[i].partition("[")[0] for i in version.val} == {"d.npz:x_test"}


@pytest.mark.parametrize(
    ("x", "note"),
    [
        (RANDOM.integers(0, 255, (20, 4, 6, 3), dtype=np.uint8), None),
        (RANDOM.normal(size=(20, 4, 6, 3)), None),
        (RANDOM.normal(size=(20, 3, 4, 6)), "channels moved last"),
        (RANDOM.normal(size=(20, 72)), "rows folded to (4, 6, 3)"),
        (RANDOM.integers(0, 255, (20, 8, 12, 3), dtype=np.uint8), "resized to 4x6"),
        (np.asfortranarray(RANDOM.normal(size=(20, 4, 6, 3))), None),
    ],
)
def test_images(build: Any, put: Put, x: Any, note: str | None) -> None:
    put("data/d.npz", npz(x=x, y=Y))
    version = build(image(4, 6, 3, 2))
    assert version.inputs.shape == (20, 4, 6, 3)
    assert version.facts.dtype == ("uint8" if x.dtype == np.uint8 else "float32")
    assert version.facts.converted.get("data/d.npz:x") == note
    if note is None:
        assert np.array_equal(version.inputs, x.astype(version.facts.dtype))


def test_series_padded_or_with_lengths(build: Any, put: Put) -> None:
    x = RANDOM.normal(size=(20, 5, 2))
    lengths = 1 + np.arange(20) % 5
    put("data/d.npz", npz(x=x, y=Y, lengths=lengths))
    first = build(series(2, 2))
    assert np.diff(first.offsets).tolist() == lengths.tolist()
    padded = x.copy()
    padded[np.arange(5) >= lengths[:, None]] = np.nan
    put("data/d.npz", npz(x=padded, y=Y))
    assert build(series(2, 2)).facts.digest == first.facts.digest


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (os.environ["EVIL_FOLDER"],)


@pytest.mark.parametrize("name", ["x", "y"])
def test_nothing_is_ever_unpickled(
    refused: Any, put: Put, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("EVIL_FOLDER", str(tmp_path / "evil"))
    evil = np.empty(2, dtype=object)
    evil[:] = [Evil(), Evil()]
    stream = io.BytesIO()
    np.savez(stream, **({"x": X, "y": Y} | {name: evil}))  # type: ignore[arg-type]
    put("data/d.npz", stream.getvalue())
    assert "Python objects, which are never loaded" in refused(vector(3, 2))
    with zipfile.ZipFile(io.BytesIO(), "w") as archive:
        raw = io.BytesIO()
        archive.fp = raw
        archive.writestr("x.npy", pickle.dumps(Evil()))
        archive.close()
    put("data/d.npz", raw.getvalue())
    assert "data/d.npz: cannot be read" in refused(vector(3, 2))
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize(
    ("content", "spec", "words"),
    [
        (b"not a zip", vector(3, 2), "cannot be read"),
        (npz(x=X[:, :2], y=Y), vector(3, 2), "x has shape (20, 2); the program wants (examples, 3)"),
        (npz(x=X), vector(3, 2), "has no labels for x"),
        (npz(z=X, y=Y), vector(3, 2), "has no inputs"),
        (npz(x=X, y=Y[:5]), vector(3, 2), "has 20 examples, its labels have shape (5,)"),
        (npz(x=X, y=Y + 0.5), vector(3, 2), "the label 0.5 is no class"),
        (npz(x=X, y=np.full(20, np.nan)), vector(3, 2), "the label nan is no class"),
        (npz(x=X, y=np.ones((20, 2))), vector(3, 2), "must be one-hot rows"),
        (npz(x=X.astype(str), y=Y), vector(3, 2), "x must hold numbers"),
        (npz(x=X, y=Y + 5, classes=["a", "b"]), vector(3, 2), "the label is not in 0..1"),
        (npz(x=X, y=Y, ids=["a"] * 20), vector(3, 2), "the id 'a' is given twice"),
        (npz(x=np.full((20, 3), np.nan), y=Y), vector(3, 2), "20 of 20 examples are broken"),
        (npz(x=np.float32(1), y=Y), vector(3, 2), "x has shape ()"),
        (npz(x=X, y=Y.astype(str)), vector(3, 1), "values to predict must be numbers"),
        (npz(x=X, y=np.where(Y, np.inf, 1.0)), vector(3, 1), "the value to predict is inf"),
    ],
)
def test_files_that_are_refused(refused: Any, put: Put, content: bytes, spec: str, words: str) -> None:
    put("data/d.npz", content)
    assert words in refused(spec)


def test_a_bomb_is_stopped(refused: Any, put: Put) -> None:
    put("data/d.npz", npz(x=np.zeros((30_000_000, 3), np.float32), y=Y))
    assert "unpacks to more than is allowed" in refused(vector(3, 2))
