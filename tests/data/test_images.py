"""Images of every kind, and files that only say they are images."""

from __future__ import annotations

import io
import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from easeml_core.data.deep import Broken
from easeml_core.data.findings import Findings
from easeml_core.data.images import read_image
from easeml_core.data.units import Units
from tests.data.uploads import image, save_images

Put = Callable[[str, "bytes | str"], Path]
LIMIT = 1_000_000


def read(
    path: Path, shape: tuple[int, ...], dtype: str = "uint8"
) -> tuple[np.ndarray[Any, Any], dict[str, Any]]:
    findings = Findings()
    units = Units(dtype, 255.0 if dtype == "uint8" else 1.0)
    value = read_image(path, shape, units, LIMIT, findings)
    assert value.shape == shape
    assert value.dtype == dtype
    return value, findings.converted


def png_of(width: int, height: int) -> bytes:
    """A small file that claims to be a huge grey image."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    body = zlib.compress(bytes((width + 1) * min(height, 100)))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def test_sixteen_bits_keep_their_levels(tmp_path: Path) -> None:
    ramp = (np.arange(256, dtype=np.uint16) * 257).reshape(16, 16)
    path = tmp_path / "ramp.png"
    Image.fromarray(ramp).save(path)
    value, _ = read(path, (16, 16, 1), "float32")
    assert len(np.unique(value)) == 256
    assert value[:, :, 0] == pytest.approx(ramp / 65535)
    as_bytes, converted = read(path, (16, 16, 1))
    assert len(np.unique(as_bytes)) == 256
    assert converted == {"16 bits to 8": 1}


@pytest.mark.parametrize(("magic", "channels"), [("P5", 1), ("P6", 3)])
@pytest.mark.parametrize("top", [1023, 4095, 65535])
def test_ppm_of_more_than_eight_bits_keeps_its_levels(
    tmp_path: Path, magic: str, channels: int, top: int
) -> None:
    numbers = np.linspace(0, top, 16 * 16 * channels).astype(">u2")
    content = f"{magic} # of a scanner\n16 16\n{top}\n".encode() + numbers.tobytes()
    (tmp_path / "x.ppm").write_bytes(content)
    value, converted = read(tmp_path / "x.ppm", (16, 16, channels), "float32")
    assert value.ravel() == pytest.approx(numbers / top)
    assert converted == {"16 bits to 0..1": 1}
    (tmp_path / "x.ppm").write_bytes(content[:-2])
    with pytest.raises(Broken, match="truncated"):
        read(tmp_path / "x.ppm", (16, 16, channels), "float32")


def test_orientation_is_applied(tmp_path: Path) -> None:
    pixels = np.zeros((4, 8, 3), np.uint8)
    pixels[:, :4] = 255  # left half white
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90 degrees to the right
    Image.fromarray(pixels).save(tmp_path / "x.png", exif=exif)
    value, converted = read(tmp_path / "x.png", (8, 4, 3))
    assert (value[:4] == 255).all()
    assert (value[4:] == 0).all()
    assert converted == {"orientation applied": 1}


@pytest.mark.parametrize(
    ("mode", "name", "channels", "expected", "note"),
    [
        ("L", "x.png", 1, 100, {}),
        ("L", "x.png", 3, 100, {"L to RGB": 1}),
        ("RGB", "x.bmp", 3, 100, {}),
        ("RGB", "x.png", 1, 100, {"RGB to L": 1}),
        ("RGBA", "x.png", 4, 100, {}),
        ("RGBA", "x.png", 3, 100, {"RGBA to RGB": 1}),
        ("P", "x.gif", 3, 100, {"P to RGB": 1}),
        ("CMYK", "x.tif", 3, 155, {"CMYK to RGB": 1}),
        ("1", "x.png", 1, 255, {"1 to L": 1}),
        ("LA", "x.png", 1, 100, {"LA to L": 1}),
    ],
)
def test_modes(
    tmp_path: Path, mode: str, name: str, channels: int, expected: int, note: dict[str, int]
) -> None:
    grey = Image.new("L", (5, 5), 100)
    if mode == "CMYK":
        made = Image.new("CMYK", (5, 5), (100, 100, 100, 0))
    elif mode == "1":
        made = Image.new("1", (5, 5), 1)
    else:
        made = grey.convert("RGB").convert(mode) if mode == "P" else grey.convert(mode)
    made.save(tmp_path / name)
    value, converted = read(tmp_path / name, (5, 5, channels))
    assert abs(int(value[2, 2, 0]) - expected) <= 3  # a palette rounds
    assert converted == note


def test_transparency_lies_over_white(tmp_path: Path) -> None:
    Image.new("RGBA", (4, 4), (0, 0, 0, 0)).save(tmp_path / "x.png")
    assert (read(tmp_path / "x.png", (4, 4, 3))[0] == 255).all()


@pytest.mark.parametrize(("mode", "channels", "key"), [("L", 1, 7), ("RGB", 3, (7, 7, 7)), ("L", 3, 7)])
def test_one_transparent_colour_is_white(tmp_path: Path, mode: str, channels: int, key: Any) -> None:
    pixels = Image.new("L", (4, 4), 7).convert(mode)
    pixels.putpixel((0, 0), 9 if mode == "L" else (9, 9, 9))
    pixels.save(tmp_path / "x.png", transparency=key)
    value, _ = read(tmp_path / "x.png", (4, 4, channels))
    assert (value[0, 0] == 9).all()
    assert (value[1:] == 255).all()


def test_sizes_are_made_those_of_the_program(build: Any, upload: Path) -> None:
    save_images(upload, "a", 5, size=8)
    save_images(upload, "b", 5, size=11)
    version = build(image(8, 8, 3, 2))
    assert version.inputs.shape == (10, 8, 8, 3)
    assert version.facts.converted == {"L to RGB": 10, "resized to 8x8": 5}


def test_one_deep_image_makes_all_float(build: Any, upload: Path) -> None:
    save_images(upload, "a", 5)
    save_images(upload, "b", 5)
    Image.fromarray(np.full((8, 8), 40000, np.uint16)).save(upload / "data/b/deep.png")
    version = build(image(8, 8, 1, 2))
    assert version.facts.dtype == "float32"
    assert 0 <= version.facts.low <= version.facts.high <= 1
    assert version.inputs[version.ids.index("b/deep.png")].max() == pytest.approx(40000 / 65535)


def jpeg() -> bytes:
    stream = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)).save(stream, "JPEG")
    return stream.getvalue()


BROKEN = {
    "truncated.jpg": (jpeg()[:-500], "cannot be decoded"),
    "page.jpg": (b"<!doctype html><html>404</html>", "no image that can be read"),
    "empty.png": (b"", "the file is empty"),
    "bomb.png": (png_of(30000, 30000), "pixels"),
    "large.png": (png_of(2000, 1000), "2000 × 1000 pixels are more than 1,000,000"),
    "cut.png": (png_of(90, 90)[:-30], "cannot be decoded"),
    "text.ppm": (b"P3 1 1 65535 1 2 3", "written as text"),
    "script.png": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "no image that can be read"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_say_why(tmp_path: Path, name: str) -> None:
    content, words = BROKEN[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(Broken, match=words):
        read(tmp_path / name, (8, 8, 3))


def test_few_broken_files_are_quarantined_and_named(build: Any, upload: Path, put: Put) -> None:
    for label in ("a", "b"):
        save_images(upload, label, 20)
    for name, (content, _) in BROKEN.items():
        put(f"data/a/{name}", content)
    version = build(image(8, 8, 1, 2), max_broken_share=0.2, max_pixels=LIMIT)
    facts = version.facts
    assert facts.n == 40
    assert facts.n_quarantined == len(BROKEN)
    reasons = {item["file"]: item["reason"] for item in facts.quarantined}
    assert {f"data/a/{name}" for name in BROKEN} == set(reasons)
    for name, (_, words) in BROKEN.items():
        assert words in reasons[f"data/a/{name}"]


def test_many_broken_files_reject_the_upload(refused: Any, upload: Path, put: Put) -> None:
    for label in ("a", "b"):
        save_images(upload, label, 5)
    for name, (content, _) in BROKEN.items():
        put(f"data/a/{name}", content)
    text = refused(image(8, 8, 1, 2), max_pixels=LIMIT)
    assert f"{len(BROKEN)} of {len(BROKEN) + 10} examples are broken; at most 10% may be" in text
    for name in BROKEN:
        assert name in text


def test_leftovers_are_no_classes(build: Any, upload: Path, put: Put) -> None:
    for label in ("cat", "dog"):
        save_images(upload, label, 5)
    put("data/.ipynb_checkpoints/x.png", b"x")
    put("data/__MACOSX/cat/._1.png", b"x")
    put("data/Thumbs.db", b"x")
    version = build(image(8, 8, 1, 2))
    assert version.facts.classes == ("cat", "dog")
    assert set(version.facts.dropped) == {".ipynb_checkpoints", "__MACOSX", "Thumbs.db"}


def test_an_empty_class_folder_is_named(refused: Any, upload: Path) -> None:
    for label in ("a", "b"):
        save_images(upload, label, 5)
    (upload / "data/c").mkdir()
    assert "data/c: the class folder 'c' has no file in it" in refused(image(8, 8, 1, 3))


def test_images_beside_arrays_of_another_unit_are_one_problem(refused: Any, upload: Path) -> None:
    for label in ("a", "b"):
        save_images(upload, label, 5)
    x = np.random.default_rng(0).random((10, 8, 8, 1))
    np.savez(upload / "data/more.npz", x=x, y=np.array(["0", "1"] * 5))
    said = refused(image(8, 8, 1, 2))
    assert "images and arrays of float64 have no common unit" in said
    assert "\n" not in said, "no word on classes: each half of the data may well have the right ones"


@pytest.mark.parametrize(
    ("counts", "outputs", "words"),
    [
        ({"a": 50, "b": 50, "c": 1}, 3, "the class 'c' has only one example in use"),
        ({"a": 10}, 2, "all examples have the one class 'a'"),
        ({"a": 3, "b": 3, "c": 3}, 2, "has 3 classes, the program's output has 2"),
    ],
)
def test_classes_that_cannot_be_learnt(
    refused: Any, upload: Path, counts: dict[str, int], outputs: int, words: str
) -> None:
    for label, count in counts.items():
        save_images(upload, label, count)
    assert words in refused(image(8, 8, 1, outputs))


def test_files_without_class_folder_are_named(refused: Any, upload: Path, put: Put) -> None:
    save_images(upload, "a", 5)
    save_images(upload, "b", 5)
    put("data/lost.png", b"x")
    assert "data/lost.png: lies in no class folder" in refused(image(8, 8, 1, 2))


def test_labels_from_a_table(build: Any, refused: Any, upload: Path, put: Put) -> None:
    save_images(upload, "images", 10)
    rows = [f"0-{i}.png,{'even' if i % 2 == 0 else 'odd'}" for i in range(10)]
    put("data/images/labels.csv", "filename,label\n" + "\n".join(rows) + "\n")
    version = build(image(8, 8, 1, 2))
    assert version.facts.classes == ("even", "odd")
    first = version.facts.digest
    put("data/images/labels.csv", "filename,label\n" + "\n".join(["0-0.png,odd", *rows[1:]]) + "\n")
    assert build(image(8, 8, 1, 2)).facts.digest != first
    put(
        "data/images/labels.csv",
        "filename,label\n" + "\n".join([*rows[1:], "gone.png,odd", "0-2.png,"]) + "\n",
    )
    text = refused(image(8, 8, 1, 2))
    assert "names files that are not there: gone.png" in text
    assert "gives no label to images/0-0.png" in text
    assert "row 11: the label is empty" in text


@pytest.mark.parametrize(
    "form",
    ["data/images/{}.png", "images\\{}.png", ".\\images\\{}.png", "images/{}", "{}", "../images/{}.png"],
)
@pytest.mark.parametrize("packed", [False, True])
def test_files_may_be_named_in_any_usual_way(
    build: Any, refused: Any, upload: Path, put: Put, form: str, packed: bool
) -> None:
    save_images(upload, "images", 6)
    if packed:
        folder = upload / "data/images"
        shutil.make_archive(str(upload / "data/scans"), "zip", upload / "data", "images")
        shutil.rmtree(folder)
    rows = [f"{form.format(f'0-{i}')},{'ab'[i % 2]}" for i in range(6)]
    put("data/labels.csv", "file,label\n" + "\n".join(rows) + "\n")
    if form.startswith(".."):
        assert "data/labels.csv: names files that are not there: ../images/0-0.png" in refused(
            image(8, 8, 1, 2)
        )
    else:
        assert build(image(8, 8, 1, 2)).facts.class_counts == (3, 3)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"file,label\n0-0.png,caf\xe9\n", "data/labels.csv:2: is not UTF-8 text"),
        (b'file,label\n0-0.png,"a\n', "data/labels.csv:2: a quote opens a cell"),
        (b"0-0.png,a\n0-1.png,b\n", "write `file,label` above its rows where it names images"),
        (b"a,b\n1,2\n", "write `file,label` above its rows where it names images"),
    ],
)
def test_a_table_that_cannot_be_read_is_all_that_is_said(
    refused: Any, upload: Path, put: Put, content: bytes, words: str
) -> None:
    for label in ("a", "b"):
        save_images(upload, label, 4)
    put("data/labels.csv", content)
    said = refused(image(8, 8, 1, 2))
    assert said.startswith("data/labels.csv")
    assert words in said
    assert "\n" not in said


def test_a_table_of_images_that_were_not_uploaded_says_so(refused: Any, put: Put) -> None:
    put("data/labels.csv", b"File,label\na.png,x\nb.png,y\n")
    said = refused(image(8, 8, 1, 2))
    assert said == "data/labels.csv: names images, of which there are none under data/ → upload them, too"


def test_tables_that_disagree_are_one_problem(refused: Any, upload: Path, put: Put) -> None:
    save_images(upload, "images", 10)
    rows = [f"0-{i}.png,{'even' if i % 2 == 0 else 'odd'}" for i in range(10)]
    put("data/images/1.csv", "file,label\n" + "\n".join(rows) + "\n")
    put("data/images/2.csv", "file,label\n0-0.png,odd\n0-1.png,odd\n0-2.png,odd\n")
    said = refused(image(8, 8, 1, 2))
    assert "data/images/2.csv: gives another label than images/1.csv to 2 files: images/0-0.png" in said
    assert "('even' and 'odd')" in said
    assert "\n" not in said


def test_tables_and_folders_may_say_the_split(build: Any, upload: Path, put: Put) -> None:
    save_images(upload, "pictures", 12)
    for part, numbers in (("train", range(8)), ("test", range(8, 12))):
        rows = "".join(f"pictures/0-{i}.png,{'ab'[i % 2]}\n" for i in numbers)
        put(f"data/{part}.csv", f"file,label\n{rows}")
    version = build(image(8, 8, 1, 2))
    assert sorted(version.ids[i] for i in version.val) == [f"pictures/0-{i}.png" for i in (10, 11, 8, 9)]


def test_a_short_name_that_several_files_have_is_refused(refused: Any, upload: Path, put: Put) -> None:
    save_images(upload, "day1", 4)
    save_images(upload, "day2", 4)
    put("data/labels.csv", "file,label\n" + "".join(f"0-{i}.png,{'ab'[i % 2]}\n" for i in range(4)))
    said = refused(image(8, 8, 1, 2))
    assert "data/labels.csv: names files of which there are several: 0-0.png, 0-1.png" in said


def test_unicode_forms_are_one_class(build: Any, upload: Path) -> None:
    save_images(upload, "caf\u00e9", 4)
    save_images(upload, "cafe\u0301", 4, seed=1)
    save_images(upload, "tea", 4)
    version = build(image(8, 8, 1, 2))
    assert version.facts.classes == ("caf\u00e9", "tea")
    assert version.facts.class_counts == (8, 4)
