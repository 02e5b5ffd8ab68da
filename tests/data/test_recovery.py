"""Images to recover: pairs of files and of arrays, made of real photographs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_sample_image

from easeml_core.data import Limits, read_inputs
from tests.data.test_archives import zipped
from tests.data.test_arrays import npz
from tests.data.uploads import spec_of

Put = Callable[[str, "bytes | str"], Path]
SPEC = spec_of("[Tensor[16, 16, 3]], []", "[Tensor[16, 16, 3]], []")


def patches(count: int, *, noise: float = 25.0) -> tuple[np.ndarray, np.ndarray]:
    """`count` patches (16, 16, 3) uint8 of a photograph of a temple, noisy and clean."""
    photo = load_sample_image("china.jpg")
    random = np.random.default_rng(3)
    at = random.integers(0, (photo.shape[0] - 16, photo.shape[1] - 16), (count, 2))
    clean = np.stack([photo[y : y + 16, x : x + 16] for y, x in at])
    noisy = np.clip(clean + random.normal(0, noise, clean.shape), 0, 255)
    return np.rint(noisy).astype(np.uint8), clean


def png(pixels: np.ndarray, folder: Path) -> bytes:
    path = folder / "one.png"
    Image.fromarray(pixels).save(path)
    return path.read_bytes()


@pytest.fixture
def pairs(tmp_path: Path) -> dict[str, bytes]:
    """Twenty pairs as files."""
    noisy, clean = patches(20)
    sides = {"inputs": noisy, "targets": clean}
    return {f"{side}/{i:02}.png": png(x[i], tmp_path) for side, x in sides.items() for i in range(20)}


def test_folders_of_pairs(build: Any, put: Put, pairs: dict[str, bytes]) -> None:
    for name, content in pairs.items():
        put(f"data/{name}", content)
    version = build(SPEC)
    facts = version.facts
    assert (facts.kind, facts.task_kind, facts.shape) == ("image", "recovery", (16, 16, 3))
    assert (facts.target_shape, facts.outputs, facts.classes) == ((16, 16, 3), 768, None)
    assert (facts.n, facts.n_train, facts.n_val) == (20, 16, 4)
    noisy, clean = patches(20)
    assert version.ids == [f"inputs/{i:02}.png" for i in range(20)]
    assert version.inputs.dtype == version.targets.dtype == np.uint8
    assert np.array_equal(version.inputs, noisy)
    assert np.array_equal(version.targets, clean)
    assert (facts.target_low, facts.target_high) == (clean.min(), clean.max())


def test_the_constant_answer_is_the_mean_image(build: Any, put: Put) -> None:
    noisy, clean = patches(40)
    put("data/d.npz", npz(inputs=noisy, targets=clean))
    version = build(SPEC)
    facts = version.facts
    scaled = (version.targets - facts.target_low) / (facts.target_high - facts.target_low)
    fit, held = scaled[version.train], scaled[version.val]
    assert facts.reference["mse"] == pytest.approx(((held - fit.mean(0)) ** 2).mean())
    assert facts.reference["mae"] == pytest.approx(np.abs(held - np.median(fit, 0)).mean())


@pytest.mark.parametrize("layout", ["one archive", "two archives", "split folders"])
def test_pairs_in_other_places(build: Any, put: Put, pairs: dict[str, bytes], layout: str) -> None:
    if layout == "one archive":
        put("data/all.zip", zipped({f"photos/{name}": content for name, content in pairs.items()}))
    elif layout == "two archives":
        for side in ("inputs", "targets"):
            put(f"data/{side}.zip", zipped({n.split("/")[1]: c for n, c in pairs.items() if side in n}))
    else:
        for name, content in pairs.items():
            part = "test" if "/0" in name else "train"
            put(f"data/{part}/{name}", content)
    version = build(SPEC)
    assert version.facts.n == 20
    _, clean = patches(20)
    assert np.array_equal(version.targets[:2], clean[:2])
    if layout == "split folders":
        assert (version.facts.n_train, version.facts.n_val) == (10, 10)


def test_arrays_of_other_shapes_and_units(build: Any, put: Put) -> None:
    noisy, clean = patches(20)
    x = np.moveaxis(noisy.astype(np.float32) / 255, 3, 1)
    put("data/d.npz", npz(inputs=x, targets=clean.mean(axis=3) / 1000, ids=[f"p{i}" for i in range(20)]))
    version = build(spec_of("[Tensor[16, 16, 3]], []", "[Tensor[16, 16, 1]], []"))
    assert version.ids[0] == "p0"
    assert version.inputs.dtype == version.targets.dtype == np.float32
    assert version.inputs.max() <= 1
    assert version.facts.target_high == pytest.approx(clean.mean(axis=3).max() / 1000)
    assert np.allclose(version.targets[:, :, :, 0], clean.mean(axis=3) / 1000)


def test_a_feed_keeps_the_split_and_one_changed_target_makes_a_version(build: Any, put: Put) -> None:
    noisy, clean = patches(60)
    put("data/d.npz", npz(inputs=noisy[:40], targets=clean[:40]))
    first = build(SPEC)
    put("data/feed-2.npz", npz(inputs=noisy[40:], targets=clean[40:]))
    second = build(SPEC, parent=first)
    assert second.facts.parent == first.facts.digest
    split = dict(zip(second.manifest["content"], second.manifest["split"], strict=True))
    before = zip(first.manifest["content"], first.manifest["split"], strict=True)
    assert all(split[content] == part for content, part in before)
    clean[0, 0, 0, 0] ^= 1
    put("data/d.npz", npz(inputs=noisy[:40], targets=clean[:40]))
    assert build(SPEC, parent=first).facts.digest != second.facts.digest


def test_refining_leaves_out_but_corrects_nothing(build: Any, put: Put, refused: Any) -> None:
    noisy, clean = patches(20)
    put("data/d.npz", npz(inputs=noisy, targets=clean))
    put("refine.csv", "id,keep\nd.npz[0],0\n")
    assert build(SPEC).facts.n_switched_off == 1
    put("refine.csv", "id,keep,label\nd.npz[0],1,3\n")
    assert "row 1: there is no label to correct" in refused(SPEC)


def test_every_problem_is_told_at_once(refused: Any, put: Put, pairs: dict[str, bytes]) -> None:
    for name, content in pairs.items():
        put(f"data/{name}", content)
    (put("data/targets/03.png", b"")).unlink()
    (put("data/inputs/04.png", b"")).unlink()
    put("data/inputs/05.tif", pairs["inputs/05.png"])
    put("data/lost.png", pairs["inputs/05.png"])
    said = refused(SPEC)
    for words in (
        "inputs/03.png: has no partner of the same name in `targets`",
        "targets/04.png: has no partner of the same name in `inputs`",
        "05.tif: and inputs/05.png are named alike",
        "lost.png: lies in neither of the folders `inputs` and `targets`",
    ):
        assert words in said


def test_a_broken_side_leaves_out_the_pair(build: Any, put: Put, pairs: dict[str, bytes]) -> None:
    for name, content in pairs.items():
        put(f"data/{name}", content)
    put("data/targets/07.png", b"<html>")
    version = build(SPEC)
    assert version.facts.n == 19
    assert "inputs/07.png" not in version.ids
    assert version.facts.quarantined[0]["file"] == "data/targets/07.png"


NOISY, CLEAN = patches(4)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (npz(inputs=NOISY), "has no labels for inputs"),
        (npz(inputs=NOISY, targets=CLEAN[:3]), "inputs has 4 examples, targets has 3"),
        (npz(inputs=NOISY, targets=CLEAN[..., :2]), "targets has shape (4, 16, 16, 2); the program wants"),
        (npz(inputs=NOISY, targets=CLEAN.astype(str)), "targets must hold numbers"),
        (npz(inputs=NOISY, targets=np.full(CLEAN.shape, np.nan)), "4 of 4 examples are broken"),
        (npz(inputs=NOISY, targets=np.zeros((4, 0, 16, 3))), "it holds no values"),
    ],
)
def test_arrays_that_are_refused(refused: Any, put: Put, content: bytes, words: str) -> None:
    put("data/d.npz", content)
    assert words in refused(SPEC)


def test_requests_need_no_targets(build: Any, put: Put, pairs: dict[str, bytes], tmp_path: Path) -> None:
    for name, content in pairs.items():
        put(f"data/{name}", content)
    version = build(SPEC)
    request = tmp_path / "request"
    request.mkdir()
    (request / "new.png").write_bytes(pairs["inputs/03.png"])
    inputs = read_inputs(request, facts=version.facts, limits=Limits(), staging=tmp_path / "staging")
    assert inputs.ids == ["new.png"]
    assert np.array_equal(inputs.inputs[0], version.inputs[3])
