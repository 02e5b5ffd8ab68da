"""`easeml init`: what it proposes can be loaded, and intake can read the data by it."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from easeml_core.data import Limits, build_version
from easeml_core.errors import TenantError
from easeml_core.naming import TaskName
from easeml_core.service.inspect_data import propose_spec
from easeml_core.spec import load_spec

RANDOM = np.random.default_rng(5)


def picture(height: int = 12, width: int = 10, mode: str = "L") -> Image.Image:
    size = (height, width) if mode == "L" else (height, width, len(mode))
    return Image.fromarray(RANDOM.integers(0, 256, size, dtype=np.uint8), mode)


def class_folders(
    data: Path, counts: dict[str, int], mode: str = "L", size: tuple[int, int] = (12, 10)
) -> None:
    for name, count in counts.items():
        (data / name).mkdir(parents=True)
        for number in range(count):
            picture(*size, mode=mode).save(data / name / f"{number}.png")


def grey_folders(data: Path) -> None:
    class_folders(data, {"cat": 8, 'do"g: #1': 8, "NO": 8})


def colour_zip(data: Path) -> None:
    class_folders(data.parent / "packed", {"a": 8, "b": 8}, mode="RGB", size=(300, 600))
    (data.parent / "packed" / "__MACOSX").mkdir()
    with zipfile.ZipFile(data / "pictures.zip", "w") as archive:
        for file in sorted((data.parent / "packed").rglob("*.png")):
            archive.write(file, file.relative_to(data.parent / "packed"))


def uneven_folders(data: Path) -> None:
    class_folders(data, {"common": 30, "rare": 4})


def labelled_by_table(data: Path) -> None:
    for number in range(16):
        picture().save(data / f"{number}.png")
    rows = [f"{number}.png,{'xy'[number % 2]}" for number in range(16)]
    (data / "labels.csv").write_text("\n".join(["file,label", *rows]))


def npz_images(data: Path) -> None:
    x = RANDOM.integers(0, 256, (40, 9, 7), dtype=np.uint8)
    np.savez_compressed(data / "d.npz", x=x, y=np.arange(40) % 4)


def npy_images(data: Path) -> None:
    np.save(data / "x.npy", RANDOM.integers(0, 255, (40, 9, 7), dtype=np.uint8))
    np.save(data / "y.npy", np.arange(40) % 4)


def any_files(data: Path) -> None:
    for name in ("sound", "noise"):
        (data / name).mkdir()
        for size in range(30, 40):
            (data / name / f"{size}.wav").write_bytes(RANDOM.bytes(size))


def large_files(data: Path) -> None:
    any_files(data)
    (data / "noise" / "long.wav").write_bytes(RANDOM.bytes(1 << 20))


def npz_channels_first(data: Path) -> None:
    x = RANDOM.integers(0, 256, (40, 3, 9, 7), dtype=np.uint8)
    np.savez_compressed(data / "d.npz", images=x, labels=np.eye(4)[np.arange(40) % 4])


def npz_vectors(data: Path) -> None:
    np.savez_compressed(data / "d.npz", x=RANDOM.normal(size=(40, 5)), y=RANDOM.normal(size=40))


def npz_two_values(data: Path) -> None:
    np.savez_compressed(data / "d.npz", x=RANDOM.normal(size=(40, 5)), y=RANDOM.normal(size=(40, 2)))


def npz_series(data: Path) -> None:
    np.savez_compressed(data / "d.npz", x=RANDOM.normal(size=(40, 20, 3)), y=np.array(["u", "v"] * 20))


def csv_classes(data: Path) -> None:
    rows = [f"{n},{RANDOM.normal()},{RANDOM.normal()},{'no' if n % 3 else 'yes'}" for n in range(40)]
    (data / "d.csv").write_text("\n".join(["id,a,b,class", *rows]))


def csv_amounts(data: Path) -> None:
    rows = [f"{RANDOM.normal()};{RANDOM.normal()};{n * n}" for n in range(40)]
    (data / "d.csv").write_text("\n".join(["a;b;target", *rows]))


def csv_many_classes(data: Path) -> None:
    rows = [f"{RANDOM.normal()},{RANDOM.normal()},{n % 25}" for n in range(500)]
    (data / "d.csv").write_text("\n".join(["a,b,label", *rows]))


def ts_series(data: Path) -> None:
    rows = [f"{n},2,3,4:5,6,7,{n}:{'ab'[n % 2]}" for n in range(30)]
    header = ["@problemName x", "@timeStamps false", "@dimensions 2", "@classLabel true a b", "@data"]
    (data / "d_TRAIN.ts").write_text("\n".join(["# c", *header, *rows]))


@pytest.mark.parametrize(
    ("lay_out", "program", "objective"),
    [
        (grey_folders, "{input: {[Tensor[12, 10, 1]], []}, output: {[Tensor[3]], []}}", "accuracy"),
        (colour_zip, "{input: {[Tensor[112, 224, 3]], []}, output: {[Tensor[2]], []}}", "accuracy"),
        (
            uneven_folders,
            "{input: {[Tensor[12, 10, 1]], []}, output: {[Tensor[2]], []}}",
            "balanced_accuracy",
        ),
        (labelled_by_table, "{input: {[Tensor[12, 10, 1]], []}, output: {[Tensor[2]], []}}", "accuracy"),
        (npz_images, "{input: {[Tensor[9, 7, 1]], []}, output: {[Tensor[4]], []}}", "accuracy"),
        (npz_channels_first, "{input: {[Tensor[9, 7, 3]], []}, output: {[Tensor[4]], []}}", "accuracy"),
        (npz_vectors, "{input: {[Tensor[5]], []}, output: {[Tensor[1]], []}}", "mse"),
        (npz_two_values, "{input: {[Tensor[5]], []}, output: {[Tensor[2]], []}}", "mse"),
        (npy_images, "{input: {[Tensor[9, 7, 1]], []}, output: {[Tensor[4]], []}}", "accuracy"),
        (any_files, "{input: {[Tensor[39, 8]], []}, output: {[Tensor[2]], []}}", "accuracy"),
        (large_files, "{input: {[Tensor[32768, 8]], []}, output: {[Tensor[2]], []}}", "accuracy"),
        (npz_series, "{input: {[Tensor[3]], [next]}, output: {[Tensor[2]], []}}", "accuracy"),
        (csv_classes, "{input: {[Tensor[2]], []}, output: {[Tensor[2]], []}}", "accuracy"),
        (csv_amounts, "{input: {[Tensor[2]], []}, output: {[Tensor[1]], []}}", "mse"),
        (csv_many_classes, "{input: {[Tensor[2]], []}, output: {[Tensor[25]], []}}", "accuracy"),
        (ts_series, "{input: {[Tensor[2]], [next]}, output: {[Tensor[2]], []}}", "accuracy"),
    ],
)
def test_a_proposal_fits_the_data(
    lay_out: Callable[[Path], None], program: str, objective: str, tmp_path: Path
) -> None:
    data = tmp_path / "task" / "data"
    data.mkdir(parents=True)
    lay_out(data)
    text = propose_spec(tmp_path / "task")
    assert propose_spec(data) == text
    spec = load_spec(text)
    assert (str(spec.program), spec.objective) == (program, objective)
    assert spec.description
    assert spec.budget_trials
    facts = build_version(
        tmp_path / "task",
        spec,
        parent=None,
        limits=Limits(),
        versions_dir=tmp_path / "versions",
        name=TaskName("tenant", "task"),
    )
    assert facts.outputs == spec.outputs
    assert not facts.warnings


def empty(data: Path) -> None:
    del data


def files_without_class(data: Path) -> None:
    any_files(data)
    (data / "notes.doc").write_bytes(b"x")


def two_kinds(data: Path) -> None:
    npz_vectors(data)
    csv_classes(data)


def one_class(data: Path) -> None:
    class_folders(data, {"cat": 3})


def no_folders(data: Path) -> None:
    picture().save(data / "1.png")


def unreadable_images(data: Path) -> None:
    for name in "ab":
        (data / name).mkdir()
        (data / name / "1.png").write_bytes(b"<html>")


def npz_without_labels(data: Path) -> None:
    np.savez(data / "d.npz", x=np.zeros((3, 2)))


def npz_of_objects(data: Path) -> None:
    np.savez(data / "d.npz", x=np.zeros((3, 2)), y=np.array([object()] * 3))


def broken_npz(data: Path) -> None:
    (data / "d.npz").write_bytes(b"PK\x03\x04 nothing")


def npy_called_npz(data: Path) -> None:
    np.save(data / "d.npy", np.zeros((3, 2)))
    (data / "d.npy").rename(data / "d.npz")


def empty_npz(data: Path) -> None:
    (data / "d.npz").write_bytes(b"")


def corrupt_npz(data: Path) -> None:
    np.savez_compressed(data / "d.npz", x=RANDOM.normal(size=(40, 5)), y=np.arange(40))
    content = bytearray((data / "d.npz").read_bytes())
    with zipfile.ZipFile(data / "d.npz") as archive:
        start = archive.getinfo("y.npy").header_offset + 60
    content[start : start + 20] = b"\xff" * 20
    (data / "d.npz").write_bytes(content)


def npz_of_no_arrays(data: Path) -> None:
    with zipfile.ZipFile(data / "d.npz", "w") as archive:
        archive.writestr("x.npy", b"")
        archive.writestr("y.npy", b"")


def npz_of_a_wrong_header(data: Path) -> None:
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (3,"
    with zipfile.ZipFile(data / "d.npz", "w") as archive:
        for name in ("x.npy", "y.npy"):
            archive.writestr(name, b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)


def npz_of_deep_arrays(data: Path) -> None:
    np.savez(data / "d.npz", x=np.zeros((3, 2, 2, 2, 2)), y=np.arange(3))


def unknown(data: Path) -> None:
    (data / "model.h5").write_bytes(b"x")


def ts_without_data(data: Path) -> None:
    (data / "d.ts").write_text("@problemName x\n")


def escaping_zip(data: Path) -> None:
    with zipfile.ZipFile(data / "d.zip", "w") as archive:
        archive.writestr("../../x.png", b"x")


def headless_csv(data: Path) -> None:
    (data / "d.csv").write_text("")


def by_spaces(data: Path) -> None:
    (data / "d.csv").write_text("a b label\n1 2 x\n3 4 y\n")


def decimal_commas(data: Path) -> None:
    (data / "d.csv").write_text("a;b;label\n" + "1,5;2,5;x\n3,5;4,5;y\n" * 20)


def labels_alone(data: Path) -> None:
    (data / "d.csv").write_text("label\nx\ny\n")


@pytest.mark.parametrize(
    ("lay_out", "words"),
    [
        (empty, "found no file at all"),
        (two_kinds, "found d.npz, d.csv"),
        (files_without_class, "cannot tell what the data is; found noise/30.wav"),
        (one_class, "all examples are of one class, 'cat'"),
        (no_folders, "lies in no class folder"),
        (unreadable_images, "none of the images looked at can be opened"),
        (npz_without_labels, "needs an array named one of y, targets"),
        (npz_of_objects, "cannot be read"),
        (broken_npz, "cannot be read"),
        (npy_called_npz, "cannot be read: File is not a zip file"),
        (empty_npz, "cannot be read: File is not a zip file"),
        (corrupt_npz, "cannot be read"),
        (npz_of_no_arrays, "cannot be read"),
        (npz_of_a_wrong_header, "cannot be read"),
        (npz_of_deep_arrays, "neither images, nor series, nor vectors"),
        (unknown, "found model.h5"),
        (ts_without_data, "has no @data line"),
        (escaping_zip, ".."),
        (headless_csv, "has no rows in it"),
        (by_spaces, "it seems to be delimited by spaces → delimit it by comma, semicolon, tab or |"),
        (decimal_commas, "#1: column 'a' holds '1,5', which is no number (a decimal comma?); so #2, #3"),
        (labels_alone, "has only one column, 'label'; a label and at least one other are needed"),
    ],
)
def test_it_says_when_it_cannot_tell(lay_out: Callable[[Path], None], words: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    lay_out(data)
    with pytest.raises(TenantError) as caught:
        propose_spec(data)
    assert words in str(caught.value)


def test_amounts_of_which_some_are_missing_are_no_classes(tmp_path: Path) -> None:
    rows = [f"{i},{'NA' if i % 20 == 3 else i * 37}\n" for i in range(40)]
    (tmp_path / "d.csv").write_text("a,price\n" + "".join(rows))
    spec = load_spec(propose_spec(tmp_path))
    assert (spec.template, spec.objective) == ("vector-regression", "mse")


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TenantError, match="is no folder"):
        propose_spec(tmp_path / "nowhere")


def odd_csv_labels(data: Path) -> None:
    # One class in two Unicode forms, quotes, spaces, a broken row of another class, numbers as text.
    rows = ["caf\u00e9", "cafe\u0301", '"so, ""so"""', " a", "a ", "01", "1", "nan"]
    lines = [f"{i},{i * i},{label}" for i, label in enumerate(rows * 4)]
    (data / "t.csv").write_text("\n".join(["x,y1,label", *lines, "no number,1,only-here"]) + "\n")


def many_broken_lines(data: Path) -> None:
    (data / "t.csv").write_text("x,label\n" + "".join(f"{i},{'ab'[i % 2]}\n" for i in range(40)) + "1,2,c\n")


def odd_npz_labels(data: Path) -> None:
    x = RANDOM.normal(size=(40, 5))
    np.savez(data / "1.npz", x=x, y=(np.arange(40) % 2).astype(float))
    np.savez(data / "2.npz", x=x + 1, y=np.arange(40) % 2 + 1)


def npz_class_names(data: Path) -> None:
    np.savez(data / "1.npz", x=RANDOM.normal(size=(40, 5)), y=np.arange(40) % 3, classes=["u", "v", "u"])


def odd_folders(data: Path) -> None:
    class_folders(data, {"x" * 200: 4, "bell\u202e%": 4, "NO: #1 [a] \u2028": 4})


def odd_ts_labels(data: Path) -> None:
    rows = ["1,2,3: a", "4,5,6:a", "7,8,9:b ", "3,2,1:b", "x,1,2:c"]
    (data / "d.ts").write_text("@classLabel true\n@data\n" + "\n".join(rows * 3) + "\n")


@pytest.mark.parametrize(
    ("lay_out", "classes"),
    [
        (odd_csv_labels, 6),
        (many_broken_lines, 2),
        (odd_npz_labels, 3),
        (npz_class_names, 2),
        (odd_folders, 3),
        (odd_ts_labels, 2),
    ],
)
def test_odd_labels_are_counted_as_intake_counts_them(
    lay_out: Callable[[Path], None], classes: int, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    lay_out(data)
    spec = load_spec(propose_spec(data))
    facts = build_version(
        tmp_path,
        spec,
        parent=None,
        limits=Limits(max_broken_share=0.3),
        versions_dir=tmp_path / "versions",
        name=TaskName("lab", "task"),
    )
    assert facts.outputs == classes
    assert facts.classes is not None
    assert len(facts.classes) == classes
