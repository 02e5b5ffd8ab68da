"""Data versions are immutable, stable and told by their content."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from easeml_core.data import Limits, build_version, open_version
from easeml_core.data.build import clear_staging
from easeml_core.data.intact import is_intact
from easeml_core.errors import OperatorError
from easeml_core.spec import load_spec
from tests.data.test_archives import zipped
from tests.data.uploads import NAME, image, save_images, vector

Put = Callable[[str, "bytes | str"], Path]
SPEC = image(8, 8, 1, 3)


@pytest.fixture
def three_classes(upload: Path) -> Path:
    for label in ("cat", "dog", "ant"):
        save_images(upload, label, 20)
    return upload


def test_a_version_holds_what_was_uploaded(build: Any, three_classes: Path) -> None:
    version = build(SPEC)
    facts = version.facts
    assert (facts.kind, facts.task_kind, facts.shape, facts.dtype) == (
        "image",
        "classification",
        (8, 8, 1),
        "uint8",
    )
    assert facts.classes == ("ant", "cat", "dog")
    assert facts.class_counts == (20, 20, 20)
    assert (facts.n, facts.n_train, facts.n_val) == (60, 48, 12)
    assert version.inputs.shape == (60, 8, 8, 1)
    assert isinstance(version.inputs, np.memmap)
    assert version.targets.dtype == np.int64
    assert sorted([*version.train, *version.val]) == list(range(60))
    assert np.bincount(version.targets[version.val]).tolist() == [4, 4, 4]
    from PIL import Image

    for i in (0, 33, 59):
        with Image.open(three_classes / "data" / version.ids[i]) as opened:
            assert np.array_equal(np.asarray(opened), version.inputs[i, :, :, 0])
        assert facts.classes[version.targets[i]] == version.ids[i].split("/")[0]
    assert version.manifest["kept"] == [True] * 60


def test_a_class_too_many_is_answered_by_what_can_be_done(
    build: Any, refused: Any, upload: Path, three_classes: Path
) -> None:
    """A program cannot be changed once data was accepted under it."""
    assert "write Tensor[3] as the output" in refused(image(8, 8, 1, 2))
    first = build(SPEC)
    save_images(upload, "bee", 20)
    assert "submit it under another name with Tensor[4] as the output" in refused(SPEC, parent=first)


def test_the_same_bytes_are_nothing_new(build: Any, three_classes: Path) -> None:
    first = build(SPEC)
    written = (first.folder / "version.json").stat()
    again = build(SPEC, parent=first)
    assert again.facts.digest == first.facts.digest
    assert (first.folder / "version.json").stat().st_mtime_ns == written.st_mtime_ns


def test_one_changed_pixel_is_a_new_version(build: Any, three_classes: Path) -> None:
    from PIL import Image

    first = build(SPEC)
    path = three_classes / "data/cat/0-0.png"
    with Image.open(path) as opened:
        pixels = np.array(opened)
    pixels[0, 0] ^= 1
    Image.fromarray(pixels).save(path)
    assert build(SPEC, parent=first).facts.digest != first.facts.digest


def test_splits_stay_when_data_grows(build: Any, three_classes: Path) -> None:
    first = build(SPEC)
    for label in ("cat", "dog", "ant"):
        save_images(three_classes, label, 30, seed=1)
    second = build(SPEC, parent=first)
    assert second.facts.parent == first.facts.digest
    before = dict(zip(first.manifest["id"], first.manifest["split"], strict=True))
    after = dict(zip(second.manifest["id"], second.manifest["split"], strict=True))
    assert {ident: after[ident] for ident in before} == before
    assert np.bincount(second.targets[second.val]).tolist() == [10, 10, 10]


def test_a_moved_and_renamed_example_keeps_its_split(build: Any, three_classes: Path) -> None:
    first = build(SPEC)
    for path in (three_classes / "data/cat").iterdir():
        path.rename(path.with_name(f"renamed {path.name}"))
    second = build(SPEC, parent=first)
    splits = [dict(zip(v.manifest["content"], v.manifest["split"], strict=True)) for v in (first, second)]
    assert splits[0] == splits[1]


def test_new_classes_come_after_the_old_ones(build: Any, three_classes: Path) -> None:
    first = build(image(8, 8, 1, 4))
    save_images(three_classes, "aardvark", 5)
    second = build(image(8, 8, 1, 4), parent=first)
    assert second.facts.classes == ("ant", "cat", "dog", "aardvark")
    assert any("has 3 of the 4 classes" in warning for warning in first.facts.warnings)


def test_a_class_that_a_feed_takes_away_is_a_warning(build: Any, three_classes: Path) -> None:
    first = build(SPEC)
    gone = first.facts.classes[0]
    shutil.rmtree(three_classes / "data" / gone)
    facts = build(SPEC, parent=first).facts
    assert facts.classes == first.facts.classes[1:]
    assert f"classes of the data version before that have no example now: {gone}" in facts.warnings


def test_identical_content_lands_in_one_split(build: Any, put: Put) -> None:
    rows = [f"{i % 20},{i % 2}" for i in range(200)]
    put("data/t.csv", "a,label\n" + "\n".join(rows) + "\n")
    version = build(vector(1, 2))
    contents: dict[float, set[str]] = {}
    for value, split in zip(version.inputs[:, 0], version.manifest["split"], strict=True):
        contents.setdefault(float(value), set()).add(split)
    assert all(len(splits) == 1 for splits in contents.values())
    assert any("180 examples repeat" in warning for warning in version.facts.warnings)


def test_another_seed_or_share_splits_anew(build: Any, three_classes: Path) -> None:
    first = build(SPEC)
    other = build(SPEC + "validation: {seed: 8}\n", parent=first)
    half = build(SPEC + "validation: {fraction: 0.5}\n", parent=first)
    assert other.val.tolist() != first.val.tolist()
    assert half.facts.n_val == 30
    assert len({first.facts.digest, other.facts.digest, half.facts.digest}) == 3


def test_reading_tells_how_far_it_is(upload: Path, tmp_path: Path) -> None:
    np.savez(upload / "data/d.npz", x=np.arange(5000)[:, None], y=np.arange(5000) % 2)
    told: list[int] = []
    build_version(
        upload,
        load_spec(vector(1, 2)),
        parent=None,
        limits=Limits(),
        versions_dir=tmp_path / "versions",
        name=NAME,
        progress=told.append,
    )
    assert told == [1000, 2000, 3000, 4000, 5000]


def test_two_builders_of_one_version_agree(build: Any, three_classes: Path, monkeypatch: Any) -> None:
    first = build(SPEC)
    aside = first.folder.with_name("aside")
    real = os.rename

    def race(source: Any, target: Any) -> None:
        if Path(target) == first.folder:
            real(aside, target)  # the other builder was faster
        real(source, target)

    real(first.folder, aside)
    monkeypatch.setattr(os, "rename", race)
    assert build(SPEC).facts == first.facts


@pytest.mark.parametrize(
    "harm",
    [
        lambda folder: (folder / "version.json").write_text("{"),
        lambda folder: (folder / "version.json").unlink(),
        lambda folder: (folder / "inputs.npy").unlink(),
        lambda folder: os.truncate(folder / "inputs.npy", 200),
        lambda folder: os.truncate(folder / "manifest.parquet", 20),
        lambda folder: (folder / "train.npy").write_bytes((folder / "val.npy").read_bytes()),
        lambda folder: [path.unlink() for path in folder.iterdir()],
    ],
)
def test_a_version_that_was_damaged_is_replaced(build: Any, three_classes: Path, harm: Any) -> None:
    version = build(SPEC)
    assert is_intact(version)
    wanted = version.inputs[:].copy()
    harm(version.folder)
    with contextlib.suppress(OperatorError):
        assert not is_intact(open_version(version.folder))
    again = build(SPEC)
    assert is_intact(again)
    assert again.facts.digest == version.facts.digest
    assert np.array_equal(again.inputs, wanted)


def test_a_changed_pixel_on_disk_is_put_right(build: Any, three_classes: Path) -> None:
    version = build(SPEC)
    wanted = version.inputs[:].copy()
    with (version.folder / "inputs.npy").open("r+b") as stream:
        stream.seek(-1, os.SEEK_END)
        stream.write(b"\x7f")
    assert np.array_equal(build(SPEC).inputs, wanted)


def test_staging_of_a_killed_build_is_cleared(tmp_path: Path) -> None:
    dead, own = (tmp_path / ".staging" / f"{pid}-abc" for pid in (2**22 + 1, os.getpid()))
    dead.mkdir(parents=True)
    own.mkdir()
    clear_staging(tmp_path)
    assert not dead.exists()
    assert own.exists()


def test_an_incomplete_folder_is_no_version(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="no data version"):
        open_version(tmp_path)


@pytest.mark.parametrize(
    ("folders", "classes"),
    [
        (("pets/cat", "pets/dog"), ("cat", "dog")),
        (("a/b/cat", "a/b/dog"), ("cat", "dog")),
        (("cat/deep/er", "dog"), ("cat", "dog")),
        (("train/cat", "train/dog", "val/cat", "val/dog"), ("cat", "dog")),
        (("x_train", "x_test"), ("x_test", "x_train")),
    ],
)
def test_classes_are_found_in_folders(
    build: Any, upload: Path, folders: tuple[str, ...], classes: tuple[str, ...]
) -> None:
    for folder in folders:
        save_images(upload, folder, 6)
    version = build(image(8, 8, 1, 2))
    assert version.facts.classes == classes


def test_splits_given_by_folders_are_taken(build: Any, upload: Path) -> None:
    for folder, count in {"train/cat": 3, "train/dog": 4, "test/cat": 5, "test/dog": 6}.items():
        save_images(upload, folder, count)
    version = build(image(8, 8, 1, 2))
    assert (version.facts.n_train, version.facts.n_val) == (7, 11)
    assert all(version.ids[i].startswith("test/") for i in version.val)


def test_splits_given_by_archives_are_taken(build: Any, upload: Path, put: Put) -> None:
    for part, count in {"train": 3, "test": 5}.items():
        for label in ("cat", "dog"):
            save_images(upload, f"{part}/{label}", count)
        inside = {
            p.relative_to(upload / "data" / part).as_posix(): p
            for p in (upload / "data" / part).rglob("*.png")
        }
        put(f"data/pets_{part}.zip", zipped({name: path.read_bytes() for name, path in inside.items()}))
        shutil.rmtree(upload / "data" / part)
    version = build(image(8, 8, 1, 2))
    assert (version.facts.n_train, version.facts.n_val) == (6, 10)
    assert all(version.ids[i].startswith("pets_test.zip/") for i in version.val)


@pytest.mark.parametrize("place", ["{}/rows.csv", "rows_{}.csv", "{}.zip"])
def test_splits_of_tables_are_taken_from_wherever_they_are_named(build: Any, put: Put, place: str) -> None:
    for part, first in (("train", 0), ("test", 100)):
        rows = "a,b,label\n" + "".join(f"{first + i},{i * i},{'yn'[i % 2]}\n" for i in range(10))
        name = place.format(part)
        put(f"data/{name}", zipped({"rows.csv": rows.encode()}) if name.endswith(".zip") else rows)
    version = build(vector(2, 2))
    assert version.inputs[version.val, 0].min() == 100
    assert (version.facts.n_train, version.facts.n_val) == (10, 10)


def test_a_split_of_which_all_is_for_validation_is_none(build: Any, upload: Path) -> None:
    for label in ("cat", "dog"):
        save_images(upload, f"test/{label}", 10)
    assert build(image(8, 8, 1, 2)).facts.n_val == 4


def test_a_class_only_in_validation_is_refused(refused: Any, upload: Path) -> None:
    for folder in ("train/a", "train/b", "train/c", "val/b", "val/c", "val/d"):
        save_images(upload, folder, 3)
    assert "'d' is only in the validation split" in refused(image(8, 8, 1, 4))


def test_a_class_missing_in_validation_keeps_the_class_map(build: Any, upload: Path) -> None:
    for folder in ("train/a", "train/b", "train/c", "val/b", "val/c"):
        save_images(upload, folder, 3)
    version = build(image(8, 8, 1, 3))
    assert version.facts.classes == ("a", "b", "c")
    assert sorted(set(version.targets[version.val])) == [1, 2]
    assert any("'a' has no example in the validation" in warning for warning in version.facts.warnings)


def test_reference_errors_of_the_constant_predictor(build: Any, put: Put) -> None:
    put("data/t.csv", "a,target\n" + "".join(f"{i},{i * i}\n" for i in range(50)))
    version = build(vector(1, 1))
    train, val = version.targets[version.train], version.targets[version.val]
    assert version.targets.shape == (50, 1)
    assert version.facts.reference["mse"] == pytest.approx(np.mean((val - train.mean()) ** 2), rel=1e-6)
    assert version.facts.reference["mae"] == pytest.approx(np.mean(abs(val - np.median(train))), rel=1e-6)


class TestRefine:
    def test_switched_off_examples_are_kept_apart(self, build: Any, three_classes: Path, put: Put) -> None:
        first = build(SPEC)
        put("refine.csv", "id,keep\ncat/0-0.png,0\ndog/0-1.png,1\n")
        second = build(SPEC, parent=first)
        assert (second.facts.n, second.facts.n_switched_off) == (60, 1)
        assert second.facts.n_train + second.facts.n_val == 59
        off = second.ids.index("cat/0-0.png")
        assert off not in {*second.train, *second.val}
        assert second.manifest["split"] == first.manifest["split"]
        (three_classes / "refine.csv").unlink()
        assert build(SPEC, parent=second).facts.digest == first.facts.digest

    def test_a_label_is_corrected(self, build: Any, three_classes: Path, put: Put) -> None:
        put("refine.csv", "id;keep;label\ncat/0-0.png;1;dog\nant/0-0.png;1;\n")
        version = build(SPEC)
        label = dict(zip(version.ids, version.manifest["label"], strict=True))
        assert (label["cat/0-0.png"], label["ant/0-0.png"]) == ("dog", "ant")
        assert version.facts.classes is not None
        assert version.facts.classes[version.targets[version.ids.index("cat/0-0.png")]] == "dog"

    def test_a_small_class_keeps_both_splits(self, build: Any, upload: Path, put: Put) -> None:
        save_images(upload, "a", 3)
        save_images(upload, "b", 30)
        first = build(image(8, 8, 1, 2))
        (held,) = [first.ids[i] for i in first.val if first.ids[i].startswith("a/")]
        put("refine.csv", f"id,keep\n{held},0\n")
        second = build(image(8, 8, 1, 2), parent=first)
        assert np.bincount(second.targets[second.val])[0] == 1
        assert np.bincount(second.targets[second.train])[0] == 1

    @pytest.mark.parametrize(
        ("content", "words"),
        [
            ("", "columns none"),
            ("name,keep\na,1\n", "columns name, keep"),
            ("id,keep\ncat/0-0.png,yes\n", "row 1: keep must be 0 or 1; it is 'yes'"),
            ("id,keep\ncat/0-0.png,1\ncat/0-0.png,0\n", "row 2: the id 'cat/0-0.png' is there twice"),
            ("id,keep\nnowhere.png,0\n", "'nowhere.png' (row 1)"),
            ("id,keep\ncat/0-0.png\n", "row 1: there must be 2 cells"),
            (b"id,keep\ncaf\xe9,1\n", "is not UTF-8 text"),
        ],
    )
    def test_mistakes_are_named(
        self, refused: Any, three_classes: Path, put: Put, content: bytes | str, words: str
    ) -> None:
        put("refine.csv", content)
        assert words in refused(SPEC)


@pytest.mark.parametrize(
    ("table", "refine", "words"),
    [
        ("7,8,4", "t.csv#1,1,nan", "refine.csv: row 1: the label is nan; a finite number is needed"),
        ("7,8,4", "t.csv#1,1,inf", "refine.csv: row 1: the label is inf; a finite number is needed"),
        ("7,8,4", "t.csv#1,1,1e39", "refine.csv: row 1: the label is 1e39; a finite number is needed"),
        (
            "7,8,-1e39",
            None,
            "data/t.csv: row 4: the value to predict is too large for 32 bits; a finite number",
        ),
    ],
)
def test_values_to_predict_must_be_finite_as_stored(
    refused: Any, put: Put, table: str, refine: str | None, words: str
) -> None:
    put("data/t.csv", f"a,b,label\n1,2,1\n3,4,2\n5,6,3\n{table}\n")
    if refine is not None:
        put("refine.csv", f"id,keep,label\n{refine}\n")
    assert words in refused(vector(2, 1))


def test_a_folder_in_place_of_refinements_is_refused(refused: Any, put: Put) -> None:
    put("data/t.csv", "a,b,label\n1,2,1\n3,4,2\n5,6,3\n7,8,4\n")
    put("refine.csv/x", "")
    assert "refine.csv: is a folder" in refused(vector(2, 1))


def test_facts_that_cannot_be_read_back_never_get_a_name(
    build: Any, put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    put("data/t.csv", "a,b,label\n1,2,1\n3,4,2\n5,6,3\n7,8,4\n")
    with monkeypatch.context() as patch:
        patch.setattr("easeml_core.data.build._reference", lambda *_: {"mse": float("nan")})
        with pytest.raises(OperatorError, match=r"version\.json cannot be read"):
            build(vector(2, 1))
    assert build(vector(2, 1)).facts.n == 4  # the next try finds nothing broken in its way


def test_the_widest_range_is_still_a_number(build: Any, put: Put) -> None:
    put("data/t.csv", "a,b,label\n1e-40,3e38,1\n1e-40,2e38,2\n1e-40,1e38,3\n1e-40,0,4\n")
    assert np.isfinite(build(vector(2, 1)).facts.dynamic_range)
