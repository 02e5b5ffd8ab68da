"""What is to be predicted comes in the units of the data version, or is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from easeml_core.data import Inputs, Limits, read_inputs
from tests.data.test_archives import zipped
from tests.data.test_arrays import npz
from tests.data.uploads import image, save_images, series, vector

Put = Callable[[str, "bytes | str"], Path]


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Inputs]:
    def run(version: Any, **files: bytes) -> Inputs:
        folder = tmp_path / "request"
        folder.mkdir()
        for name, content in files.items():
            (folder / name.replace("__", ".")).write_bytes(content)
        inputs = read_inputs(folder, facts=version.facts, limits=Limits(), staging=tmp_path / "staging")
        assert not (tmp_path / "staging/scratch").exists()
        return inputs

    return run


def test_images_and_their_problems(build: Any, upload: Path, read: Any, tmp_path: Path) -> None:
    for label in ("a", "b"):
        save_images(upload, label, 5)
    version = build(image(8, 8, 1, 2))
    inside = {f"some/{p.name}": p.read_bytes() for p in (upload / "data/a").iterdir()}
    inputs = read(version, good__png=inside["some/0-0.png"], bad__png=b"<html>", more__zip=zipped(inside))
    assert inputs.ids == ["good.png", *(f"more.zip/some/0-{i}.png" for i in range(5))]
    assert inputs.inputs.dtype == np.uint8
    assert np.array_equal(inputs.inputs[0], version.inputs[version.ids.index("a/0-0.png")])
    assert [problem.file for problem in inputs.problems] == ["bad.png"]


def test_tables_with_or_without_label(build: Any, put: Put, read: Any) -> None:
    put("data/t.csv", "a,b,label\n1,2,x\n3,4,y\n5,6,x\n7,8,y\n")
    version = build(vector(2, 2))
    inputs = read(version, one__csv=b"b,a\n20,10\n", two__csv=b"id,a,b,label\np,1,2,x\nq,?,2,x\n")
    assert inputs.ids == ["one.csv#1", "p"]
    assert inputs.inputs[:].tolist() == [[10, 20], [1, 2]]
    assert [problem.file for problem in inputs.problems] == ["two.csv#2"]


def test_a_table_with_other_columns_is_refused(build: Any, put: Put, read: Any) -> None:
    put("data/t.csv", "a,b,label\n1,2,x\n3,4,y\n5,6,x\n7,8,y\n")
    inputs = read(build(vector(2, 2)), one__csv=b"a,c\n20,10\n")
    assert inputs.ids == []
    assert "its columns differ" in inputs.problems[0].message


def test_series_without_class(build: Any, put: Put, read: Any) -> None:
    head = "@univariate true\n@timeStamps false\n@classLabel "
    put("data/X.ts", head + "true a b\n@data\n1,2,3:a\n4,5:b\n6:a\n7,8:b\n")
    version = build(series(1, 2))
    inputs = read(version, n__ts=(head + "false\n@data\n9,8\n7\n").encode(), x__npz=npz(x=[[1.0, np.nan]]))
    assert inputs.offsets.tolist() == [0, 1, 3, 4] or inputs.offsets.tolist() == [0, 2, 3, 4]
    assert sorted(inputs.ids) == ["n.ts#1", "n.ts#2", "x.npz[0]"]


def test_series_longer_than_any_before_are_named(build: Any, put: Put, read: Any) -> None:
    head = "@univariate true\n@timeStamps false\n@classLabel "
    put("data/X.ts", head + "true a b\n@data\n1,2,3:a\n4,5:b\n6:a\n7,8:b\n")
    version = build(series(1, 2))
    inputs = read(version, n__ts=(head + "false\n@data\n9,8,7\n9,8,7,6,5\n").encode())
    assert inputs.ids == ["n.ts#1", "n.ts#2"]
    assert inputs.offsets.tolist() == [0, 3, 8]  # all steps are there: the model takes what it can
    assert inputs.problems == ()
    (cut,) = inputs.cut
    assert cut.file == "n.ts#2"
    assert "has 5 steps, of which the first 3 were read" in cut.message


@pytest.mark.parametrize(("scale", "expected"), [(1.0, 1.0), (255.0, 255.0)])
def test_images_come_in_the_units_of_arrays(
    build: Any, put: Put, read: Any, tmp_path: Path, scale: float, expected: float
) -> None:
    x = np.linspace(0, scale, 20 * 64).reshape(20, 8, 8, 1)
    put("data/d.npz", npz(x=x, y=np.arange(20) % 2))
    version = build(image(8, 8, 1, 2))
    Image.new("L", (8, 8), 255).save(tmp_path / "white.png")
    inputs = read(version, white__png=(tmp_path / "white.png").read_bytes())
    assert inputs.inputs.max() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("x", "kept"),
    [
        (np.full((2, 8, 8, 1), 255.0), 2),
        (np.full((2, 4, 4, 1), 200), 2),
        (np.stack([np.full((8, 8, 1), 0.5), np.full((8, 8, 1), 7)]), 1),
        (np.stack([np.full((8, 8, 1), 300), np.ones((8, 8, 1), int)]), 1),
        (np.stack([np.full((8, 8, 1), np.nan), np.ones((8, 8, 1))]), 1),
    ],
)
def test_arrays_for_8_bit_images_must_be_bytes(
    build: Any, upload: Path, read: Any, x: Any, kept: int
) -> None:
    for label in ("a", "b"):
        save_images(upload, label, 5)
    inputs = read(build(image(8, 8, 1, 2)), q__npz=npz(x=x))
    assert inputs.ids == ["q.npz[0]", "q.npz[1]"][2 - kept :]
    assert inputs.inputs.max() == x[-1].max()
    said = [(problem.file, problem.message) for problem in inputs.problems]
    text = "row 0: beside 8-bit images, values must be whole numbers from 0 to 255"
    assert said == ([] if kept == 2 else [("q.npz", text)])


def test_a_row_left_out_for_its_id_is_named(build: Any, put: Put, read: Any) -> None:
    put("data/t.csv", "a,b,label\n1,2,x\n3,4,y\n5,6,x\n7,8,y\n")
    inputs = read(build(vector(2, 2)), q__csv=b"id,a,b\np,1,2\n,3,4\nr,5,6\n")
    assert inputs.ids == ["p", "r"]
    assert [(p.file, p.message) for p in inputs.problems] == [("q.csv", "row 2: the id is empty")]


def test_nothing_to_predict_is_said(build: Any, put: Put, read: Any) -> None:
    put("data/t.csv", "a,b,label\n1,2,x\n3,4,y\n5,6,x\n7,8,y\n")
    inputs = read(build(vector(2, 2)), notes__pdf=b"x")
    assert inputs.ids == []
    assert inputs.problems
