"""Sources of one data set, and what is predicted with it later, come in one unit or are named."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from easeml_core.data import Limits, read_inputs
from tests.data.test_arrays import npz
from tests.data.uploads import image, save_images

Put = Callable[[str, "bytes | str"], Path]
Inputs = Callable[..., Any]
SIDE = 8
GREY16 = (np.arange(SIDE * SIDE, dtype=np.uint16) * 1031).reshape(SIDE, SIDE)


def png16(values: Any, colour_type: int) -> bytes:
    """A PNG of 16 bits per channel, `values` (h, w, c), each row filtered by the row above it."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    height, width = values.shape[:2]
    rows = [np.frombuffer(row.astype(">u2").tobytes(), np.uint8) for row in values]
    above = [np.zeros_like(rows[0]), *rows]
    body = b"".join(b"\2" + (row - up).tobytes() for row, up in zip(rows, above, strict=False))
    head = struct.pack(">IIBBBBB", width, height, 16, colour_type, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(body))
        + chunk(b"IEND", b"")
    )


def tiff16(values: Any, order: str) -> bytes:
    """An uncompressed RGB TIFF of 16 bits per channel in byte order "<" or ">"."""
    height, width, _ = values.shape
    body = values.astype(f"{order}u2").tobytes()
    tags = [
        (256, 3, 1, width),
        (257, 3, 1, height),
        (258, 3, 3, 8 + len(body)),
        (259, 3, 1, 1),
        (262, 3, 1, 2),
        (273, 4, 1, 8),
        (277, 3, 1, 3),
        (278, 3, 1, height),
        (279, 4, 1, len(body)),
    ]
    bits = struct.pack(f"{order}3H", 16, 16, 16)
    out = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(f"{order}I", 8 + len(body) + len(bits))
    out += body + bits + struct.pack(f"{order}H", len(tags))
    for tag, kind, count, value in tags:
        short = kind == 3 and count == 1
        out += struct.pack(f"{order}HHI", tag, kind, count)
        out += struct.pack(f"{order}HH", value, 0) if short else struct.pack(f"{order}I", value)
    return out + b"\0\0\0\0"


@pytest.fixture
def ask(tmp_path: Path) -> Inputs:
    """Read what is to be predicted, in the units of a version."""

    def run(version: Any, **files: bytes) -> Any:
        folder = tmp_path / "asked"
        folder.mkdir()
        for name, content in files.items():
            (folder / name.replace("__", ".")).write_bytes(content)
        return read_inputs(folder, facts=version.facts, limits=Limits(), staging=tmp_path / "read")

    return run


def saved(folder: Path, name: str, array: Any) -> bytes:
    path = folder / name
    Image.fromarray(array).save(path)
    return path.read_bytes()


def images(put: Put, folder: Path, ending: str, arrays: Any) -> None:
    for i, array in enumerate(arrays):
        put(f"data/{'ab'[i % 2]}/{i}.{ending}", saved(folder, f"made.{ending}", array))


@pytest.mark.parametrize(("colour_type", "channels"), [(2, 3), (6, 4), (4, 2)])
def test_colour_png_of_16_bits_keeps_its_levels(
    build: Any, put: Put, colour_type: int, channels: int
) -> None:
    random = np.random.default_rng(0)
    made = [random.integers(0, 65536, (SIDE, SIDE, channels), np.uint16) for _ in range(8)]
    for i, values in enumerate(made):
        put(f"data/{'ab'[i % 2]}/{i}.png", png16(values, colour_type))
    version = build(image(SIDE, SIDE, 4 if channels != 3 else 3, 2))
    assert (version.facts.dtype, version.facts.white) == ("float32", 1.0)
    found = version.inputs[version.ids.index("b/3.png")] * 65535
    wanted = made[3] if channels != 2 else made[3][:, :, [0, 0, 0, 1]]
    assert np.abs(found - wanted).max() < 0.01


@pytest.mark.parametrize("order", ["<", ">"])
def test_colour_tiff_of_16_bits_keeps_its_levels(build: Any, put: Put, order: str) -> None:
    random = np.random.default_rng(0)
    made = [random.integers(0, 65536, (SIDE, SIDE, 3), np.uint16) for _ in range(8)]
    for i, values in enumerate(made):
        put(f"data/{'ab'[i % 2]}/{i}.tif", tiff16(values, order))
    version = build(image(SIDE, SIDE, 3, 2))
    assert np.abs(version.inputs[version.ids.index("b/3.tif")] * 65535 - made[3]).max() < 0.01
    grey = build(image(SIDE, SIDE, 1, 2)).inputs[:]
    assert len(np.unique(grey)) > 256


@pytest.mark.parametrize(
    ("deep", "array", "unit"),
    [
        (False, np.full((6, SIDE, SIDE), 200, np.uint8), 200),
        (False, np.ones((6, SIDE, SIDE), bool), 255),
        (True, np.full((6, SIDE, SIDE), 51, np.uint8), 0.2),
        (True, np.ones((6, SIDE, SIDE), bool), 1),
    ],
)
def test_arrays_beside_images_come_in_their_units(
    build: Any, put: Put, upload: Path, tmp_path: Path, deep: bool, array: Any, unit: float
) -> None:
    if deep:
        images(put, tmp_path, "png", [GREY16 + i for i in range(6)])
    else:
        save_images(upload, "a", 4)
        save_images(upload, "b", 4)
    array[:, 0, 0] = [0, 1, 0, 1, 0, 1]  # not all of one content
    put("data/more.npz", npz(x=array, y=np.array(list("ababab"))))
    version = build(image(SIDE, SIDE, 1, 2))
    assert version.facts.white == (1.0 if deep else 255.0)
    assert version.inputs[version.ids.index("more.npz[2]")].max() == pytest.approx(unit)


@pytest.mark.parametrize("dtype", ["float64", "uint16", "int64"])
def test_arrays_without_a_white_are_not_mixed_with_images(
    refused: Any, put: Put, tmp_path: Path, dtype: str
) -> None:
    images(put, tmp_path, "png", [GREY16 + i for i in range(6)])
    put("data/more.npz", npz(x=np.ones((6, SIDE, SIDE), dtype), y=np.array(list("ababab"))))
    assert f"images and arrays of {dtype} have no common unit" in refused(image(SIDE, SIDE, 1, 2))


def test_arrays_in_two_units_are_refused(refused: Any, put: Put) -> None:
    random = np.random.default_rng(0)
    y = np.array(list("abababab"))
    put("data/one.npz", npz(x=random.integers(0, 256, (8, SIDE, SIDE), np.uint8), y=y))
    put("data/two.npz", npz(x=random.random((8, SIDE, SIDE)), y=y))
    said = refused(image(SIDE, SIDE, 1, 2))
    assert "data/two.npz: its values go from 0 to 1, those of data/one.npz to 25" in said


def test_32_bit_tiffs_are_taken_as_they_are_now_and_later(
    build: Any, put: Put, tmp_path: Path, ask: Inputs
) -> None:
    made = [np.full((SIDE, SIDE), 100.5 * (i + 1), np.float32) for i in range(8)]
    images(put, tmp_path, "tif", made)
    version = build(image(SIDE, SIDE, 1, 2))
    assert (version.facts.high, version.facts.white) == (804.0, None)
    asked = ask(
        version,
        float__tif=saved(tmp_path, "x.tif", made[1]),
        whole__tif=saved(tmp_path, "y.tif", np.full((SIDE, SIDE), 70000, np.int32)),
        grey__png=saved(tmp_path, "z.png", np.full((SIDE, SIDE), 9, np.uint8)),
    )
    assert asked.ids == ["float.tif", "whole.tif"]
    assert asked.inputs[:, 0, 0, 0].tolist() == [201.0, 70000.0]
    assert [problem.file for problem in asked.problems] == ["grey.png"]
    assert "nobody can tell what its white is" in asked.problems[0].message


def test_32_bit_tiffs_beside_other_images_must_be_shares(build: Any, put: Put, tmp_path: Path) -> None:
    images(put, tmp_path, "png", [np.full((SIDE, SIDE), 10 * i, np.uint8) for i in range(20)])
    put("data/a/share.tif", saved(tmp_path, "s.tif", np.full((SIDE, SIDE), 0.25, np.float32)))
    put("data/a/count.tif", saved(tmp_path, "c.tif", np.full((SIDE, SIDE), 900, np.float32)))
    version = build(image(SIDE, SIDE, 1, 2))
    assert version.inputs[version.ids.index("a/share.tif")].max() == 0.25
    assert version.inputs[version.ids.index("b/3.png")].max() == pytest.approx(30 / 255)
    (left_out,) = version.facts.quarantined
    assert left_out["file"] == "data/a/count.tif"
    assert "its values go from 900 to 900; those of the other data from 0 to 1" in left_out["reason"]


def test_what_is_asked_comes_in_the_units_of_deep_images(
    build: Any, put: Put, tmp_path: Path, ask: Inputs
) -> None:
    images(put, tmp_path, "png", [GREY16 // (i + 1) for i in range(6)])
    version = build(image(SIDE, SIDE, 1, 2))
    asked = ask(
        version,
        a__png=saved(tmp_path, "a.png", np.full((SIDE, SIDE), 255, np.uint8)),
        b__npz=npz(x=np.full((1, SIDE, SIDE), 255, np.uint8)),
        c__npz=npz(x=np.full((1, SIDE, SIDE), True)),
        d__npz=npz(x=np.full((1, SIDE, SIDE), 0.5)),
        e__npz=npz(x=np.full((1, SIDE, SIDE), 40000, np.uint16)),
    )
    assert asked.ids == ["a.png", "b.npz[0]", "c.npz[0]", "d.npz[0]"]
    assert asked.inputs[:, 0, 0, 0].tolist() == [1.0, 1.0, 1.0, 0.5]
    assert "its values go from 40000 to 40000" in asked.problems[0].message


def test_shares_asked_of_8_bit_data_are_refused_as_a_whole(build: Any, upload: Path, ask: Inputs) -> None:
    save_images(upload, "a", 4)
    save_images(upload, "b", 4)
    x = np.stack([np.full((SIDE, SIDE, 1), 0.5), np.ones((SIDE, SIDE, 1))])
    asked = ask(build(image(SIDE, SIDE, 1, 2)), q__npz=npz(x=x), r__npz=npz(x=np.ones((1, SIDE, SIDE), bool)))
    assert asked.ids == ["r.npz[0]"]
    assert asked.inputs.max() == 255
    assert "x holds numbers from 0 to 1; the data of the task goes from 0 to 255" in asked.problems[0].message


def test_yes_and_no_arrays_give_images_their_units(build: Any, put: Put, tmp_path: Path, ask: Inputs) -> None:
    random = np.random.default_rng(0)
    put("data/m.npz", npz(x=random.random((20, SIDE, SIDE)) > 0.5, y=np.arange(20) % 2))
    version = build(image(SIDE, SIDE, 1, 2))
    assert (version.facts.dtype, version.facts.white, version.facts.high) == ("float32", 1.0, 1.0)
    asked = ask(version, a__png=saved(tmp_path, "a.png", np.full((SIDE, SIDE), 255, np.uint8)))
    assert asked.inputs.max() == 1.0
