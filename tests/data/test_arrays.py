""".npz and .npy files: arrays of many shapes, and those that would run code."""

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

from easeml_core.data import Limits, read_inputs
from easeml_core.data.findings import Findings
from easeml_core.data.forms import Form
from easeml_core.data.readers import Reading, read_examples
from easeml_core.data.sources import Sources
from easeml_core.data.tree import SourceFile, Tree
from easeml_core.data.units import Units
from tests.data.uploads import image, save_images, series, vector

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


def npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def test_npy_files_of_one_folder_belong_together(build: Any, put: Put, tmp_path: Path) -> None:
    large = RANDOM.normal(size=(60, 3000)).astype(np.float32)  # in 8 bytes it is mapped from disk
    put("data/train/x.npy", npy(np.asfortranarray(large.astype(">f8"))))
    put("data/train/y.npy", npy(np.tile(Y, 3)))
    put("data/test/X.npy", npy(large[:20] + 9))
    put("data/test/labels.npy", npy(np.array(["0", "1"])[Y]))
    version = build(vector(3000, 2))
    assert np.array_equal(version.inputs, np.concatenate([large[:20] + 9, large]))
    assert version.facts.class_counts == (40, 40)
    assert version.facts.n_val == 20
    assert (version.ids[0], version.ids[20]) == ("test/X.npy[0]", "train/x.npy[0]")
    request = tmp_path / "request"
    request.mkdir()
    (request / "x.npy").write_bytes(npy(large[:2]))
    inputs = read_inputs(request, facts=version.facts, limits=Limits(), staging=tmp_path / "staging")
    assert np.array_equal(inputs.inputs, large[:2])


def test_npy_files_named_as_parts(build: Any, put: Put) -> None:
    parts = {"x_train": X[:12], "y_train": Y[:12], "x_test": X[12:], "y_test": Y[12:]}
    for name, array in parts.items():
        put(f"data/{name}.npy", npy(array))
    version = build(vector(3, 2))
    assert (version.facts.n_train, version.facts.n_val) == (12, 8)
    assert version.ids[0] == "x_test.npy[0]"


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"x": npy(X)}, "data/x.npy: has no labels for x"),
        ({"pixels": npy(X), "y": npy(Y)}, "data/pixels.npy: has no inputs: expected an array named x"),
        ({"x": npy(X), "y": npy(Y)[:-8]}, "data/y.npy: cannot be read: its header tells of 160 bytes"),
        ({"x": npy(X).replace(b"(20, 3)", b"(9**9,)"), "y": npy(Y)}, "data/x.npy: cannot be read"),
        ({"x": b"text", "y": npy(Y)}, "data/x.npy: cannot be read"),
        (
            {"x": npy(X), "y": npy(np.array([None] * 20))},
            "data/y.npy: cannot be read: it holds Python objects",
        ),
    ],
)
def test_npy_files_that_are_refused(refused: Any, put: Put, files: dict[str, bytes], words: str) -> None:
    for name, content in files.items():
        put(f"data/{name}.npy", content)
    assert words in refused(vector(3, 2))


@pytest.mark.parametrize("shape", ["(99999999999, 3)", "(300000000, 3)"])
def test_a_header_that_lies_allocates_nothing(refused: Any, put: Put, shape: str) -> None:
    head = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("x.npy", b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + bytes(99))
    put("data/d.npz", stream.getvalue())
    assert "data/d.npz: cannot be read: its header tells of" in refused(vector(3, 2))


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


def headers(**shapes: tuple[tuple[int, ...], str]) -> bytes:
    """An npz whose arrays have a shape and a type, and not one byte of values."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, (shape, kind) in shapes.items():
            head = io.BytesIO()
            facts = {"descr": kind, "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(head, facts)
            archive.writestr(f"{name}.npy", head.getvalue())
    return stream.getvalue()


STEPS = RANDOM.normal(size=(20, 5, 1))
MANY = 10**12


@pytest.mark.parametrize(
    ("content", "spec", "words"),
    [
        (headers(x=((MANY, 0, 1), "<f4"), y=((MANY,), "<U0")), series(1, 2), "it holds no values"),
        (headers(x=((MANY, 0), "<f4"), y=((MANY,), "<U0")), series(1, 2), "it holds no values"),
        (headers(x=((0, 3), "<f4"), y=((0,), "<i8")), vector(3, 2), "it holds no values"),
        (npz(x=X, y=np.zeros((20, 0))), vector(3, 2), "the labels of x are all empty"),
        (
            npz(x=X, y=np.array(["a", ""])[Y]),
            vector(3, 3),
            "1, 3, 5, 7, 9, 11, 13, 15, 17, 19: the label is empty",
        ),
        (npz(x=X, y=np.array(["a", " "])[Y]), vector(3, 3), "the label is empty"),
        (npz(x=X, y=np.array(["a", "b\0c"])[Y]), vector(3, 2), "the label has a NUL character in it"),
        (npz(x=X, y=np.array(["a", "\ud800"])[Y]), vector(3, 2), "the label is not Unicode text"),
        (npz(x=X, y=np.array([b"a", b"\xff"])[Y]), vector(3, 2), "the label is not Unicode text"),
        (npz(x=X, y=np.array([97, 0x110000], "<u4")[Y].view("<U1")), vector(3, 2), "is not Unicode text"),
        (
            npz(x=X, y=Y, ids=np.array(["\ud800", *"abcdefghijklmnopqrs"])),
            vector(3, 2),
            "row 0: the id is not",
        ),
        (npz(x=X, y=Y, ids=np.array(["", *"abcdefghijklmnopqrs"])), vector(3, 2), "row 0: the id is empty"),
        (npz(x=X, y=Y, classes="a"), vector(3, 2), "classes must be a list of names"),
        (npz(x=X, y=Y, classes=[["a", "b"]]), vector(3, 2), "classes must be a list of names"),
        (npz(x=X, y=Y, classes=["a", "\ud800"]), vector(3, 2), "the label is not Unicode text"),
        (npz(x=STEPS, y=Y, lengths=[np.nan] + [3] * 19), series(1, 2), "row 0: its length must be a whole"),
        (npz(x=STEPS, y=Y, lengths=[2.5] + [3] * 19), series(1, 2), "row 0: its length must be a whole"),
        (npz(x=STEPS, y=Y, lengths=[-1] + [3] * 19), series(1, 2), "row 0: its length must be a whole"),
        (npz(x=STEPS, y=Y, lengths=[6] + [3] * 19), series(1, 2), "a whole number from 0 to 5"),
        (npz(x=STEPS, y=Y, lengths=["a"] * 20), series(1, 2), "lengths must be whole numbers"),
        (npz(x=X, y=[1e300] + [1.0] * 19), vector(3, 1), "row 0: the value to predict is 1e+300; a finite"),
        (npz(x=X, y=[-1e39] + [1.0] * 19), vector(3, 1), "row 0: the value to predict is -1e+39; a finite"),
    ],
)
def test_headers_labels_and_lengths_that_are_refused(
    refused: Any, put: Put, content: bytes, spec: str, words: str
) -> None:
    put("data/d.npz", content)
    said = refused(spec)
    assert words in said
    assert "has no example that can be used" not in said  # its reason is there


@pytest.mark.parametrize("ids", [[f" {i}" for i in range(20)], [str(i).encode() for i in range(20)]])
def test_ids_are_trimmed_text(build: Any, put: Put, ids: list[Any]) -> None:
    put("data/d.npz", npz(x=X, y=np.array([b"a", b"b"])[Y], ids=ids, classes=["a", "b"]))
    version = build(vector(3, 2))
    assert version.ids == [str(i) for i in range(20)]
    assert version.facts.classes == ("a", "b")


@pytest.mark.parametrize(
    ("pixels", "fits"),
    [
        (np.full((4, 8, 8), 255.0), True),
        (np.full((4, 8, 8), 200), True),
        (np.full((4, 8, 8), 0.5), False),
        (np.full((4, 8, 8), 256), False),
        (np.full((4, 8, 8), -1), False),
        (np.full((4, 8, 8), np.nan), False),
    ],
)
def test_table_pixels_beside_8_bit_images_must_be_bytes(
    build: Any, refused: Any, put: Put, upload: Path, pixels: Any, fits: bool
) -> None:
    for label in ("a", "b"):
        save_images(upload, label, 5)
    head = ",".join(f"p{i}" for i in range(64))
    rows = "\n".join(",".join(map(str, row.ravel())) + ",a" for row in pixels)
    put("data/t.csv", f"{head},label\n{rows}\n")
    if fits:
        version = build(image(8, 8, 1, 2))
        assert version.facts.dtype == "uint8"
        assert np.array_equal(version.inputs[-4:, :, :, 0], pixels)
    else:
        words = "data/t.csv: rows 1, 2, 3, 4: beside 8-bit images, values must be whole numbers from 0 to 255"
        assert words in refused(image(8, 8, 1, 2))


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({}, None),
        ({"max_upload_bytes": 1_000_000}, "data/e.npz: unpacks to more than is allowed"),
        ({"max_files": 3}, "data/e.npz: has more examples than one upload may have"),
    ],
)
def test_one_allowance_for_all_files(
    build: Any, refused: Any, put: Put, limits: dict[str, int], words: str | None
) -> None:
    for name in "de":  # 600 kB and 20 rows each
        put(f"data/{name}.npz", npz(x=RANDOM.normal(size=(20, 3)), y=Y, more=np.zeros(600_000, np.uint8)))
    if words is None:
        assert build(vector(3, 2)).facts.n == 40
    else:
        assert words in refused(vector(3, 2), **limits)


def test_scratch_is_given_back_file_by_file(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.npz").write_bytes(npz(x=X, y=Y))
    form = Form("vector", "classification", (3,), 2)
    files = tuple(SourceFile(f"{name}.npz", tmp_path / f"{name}.npz") for name in "ab")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    findings = Findings()
    sources = Sources(arrays=files)
    reading = Reading(
        Tree(files), sources, form, Units("float32"), Limits(), scratch, findings, labelled=True
    )
    examples = read_examples(reading)
    held = {len(list(scratch.iterdir())) for _ in examples}
    assert held == {1}
    assert not list(scratch.iterdir())


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
