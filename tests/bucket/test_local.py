"""A local bucket is a folder that hostile tenants can write to."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

import pytest

from easeml_core.bucket import Bucket
from easeml_core.errors import TemporaryError, TenantError

LIMITS = {"max_files": 100, "max_file": 1 << 20, "max_total": 1 << 20}


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text("secret")
    return folder


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    bucket = Bucket(str(tmp_path / "bucket"))
    bucket.write("clinic/tumours/task.yaml", b"program: x")
    bucket.write("clinic/tumours/data/cat/1.png", b"one")
    return bucket


def root(bucket: Bucket) -> Path:
    return Path(bucket.url)


@pytest.mark.parametrize("place", ["data/link.png", "data/folder", "task2.yaml", "data/cat/deep"])
def test_links_are_reported_and_never_followed(
    bucket: Bucket, outside: Path, tmp_path: Path, place: str
) -> None:
    target = outside if "." not in place else outside / "secret.txt"
    (root(bucket) / "clinic/tumours" / place).symlink_to(target)
    listing = bucket.scan().listings["clinic/tumours"]
    assert [problem.file for problem in listing.problems] == [place]
    with pytest.raises(TenantError, match="is a link"):
        bucket.fetch(listing, tmp_path / "to", **LIMITS)
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize("swapped", ["clinic/tumours/data/cat/1.png", "clinic/tumours/data", "clinic"])
def test_a_link_swapped_in_after_the_scan_gives_nothing(
    bucket: Bucket, outside: Path, tmp_path: Path, swapped: str
) -> None:
    listing = bucket.scan().listings["clinic/tumours"]
    place = root(bucket) / swapped
    place.rename(tmp_path / "away")
    inside = Path("clinic/tumours/data/cat/1.png").relative_to(swapped)
    (outside / inside).parent.mkdir(parents=True, exist_ok=True) if inside.parts else None
    if inside.parts:
        (outside / inside).write_text("sec")
    place.symlink_to(outside if inside.parts else outside / "secret.txt")
    with pytest.raises(TemporaryError):
        bucket.fetch(listing, tmp_path / "to", **LIMITS)
    assert "sec" not in "".join(p.read_text() for p in (tmp_path / "to").rglob("*") if p.is_file())


def test_a_link_is_not_written_through(bucket: Bucket, outside: Path) -> None:
    (root(bucket) / "clinic/tumours/predictions").symlink_to(outside)
    (root(bucket) / "clinic/tumours/status.json").symlink_to(outside / "secret.txt")
    with pytest.raises(FileNotFoundError):
        bucket.write("clinic/tumours/predictions/r1.csv", b"x")
    bucket.write("clinic/tumours/status.json", b"{}")
    assert sorted(os.listdir(outside)) == ["secret.txt"]
    assert (outside / "secret.txt").read_text() == "secret"
    assert bucket.read("clinic/tumours/status.json") == b"{}"


@pytest.mark.parametrize("key", ["../x", "clinic/../../x", "/etc/x", "clinic//x", "clinic/./x", "clinic/.."])
def test_keys_cannot_leave_the_bucket(bucket: Bucket, tmp_path: Path, key: str) -> None:
    with pytest.raises(FileNotFoundError):
        bucket.write(key, b"x")
    with pytest.raises(FileNotFoundError):
        bucket.read(key)
    assert not (tmp_path / "x").exists()


def test_a_pipe_in_the_bucket_does_not_block(bucket: Bucket, tmp_path: Path) -> None:
    listing = bucket.scan().listings["clinic/tumours"]
    place = root(bucket) / "clinic/tumours/data/cat/1.png"
    place.unlink()
    os.mkfifo(place)
    with pytest.raises(TemporaryError):
        bucket.fetch(listing, tmp_path / "to", **LIMITS)
    assert "data/cat/1.png" not in bucket.scan().listings["clinic/tumours"].names()


def test_a_time_set_back_does_not_hide_a_change(bucket: Bucket) -> None:
    path = root(bucket) / "clinic/tumours/data/cat/1.png"
    before = bucket.scan().listings["clinic/tumours"]
    status = path.stat()
    path.write_bytes(b"eno")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert bucket.scan().listings["clinic/tumours"].fingerprint != before.fingerprint


def test_empty_class_folders_are_seen(bucket: Bucket, tmp_path: Path) -> None:
    (root(bucket) / "clinic/tumours/data/dog").mkdir()
    listing = bucket.scan().listings["clinic/tumours"]
    assert listing.folders == ("data/dog",)
    bucket.fetch(listing, tmp_path / "to", **LIMITS)
    assert (tmp_path / "to/data/dog").is_dir()


def test_a_marker_older_than_the_files_is_stale(bucket: Bucket) -> None:
    bucket.write("clinic/tumours/_READY", b"")
    marker = root(bucket) / "clinic/tumours/_READY"
    os.utime(marker, (1.0, 1.0))
    assert not bucket.scan().listings["clinic/tumours"].marked


@pytest.mark.parametrize("name", ["a\nb.png", "back\\slash.png", "bell\x07.png"])
def test_unsafe_names_are_problems(bucket: Bucket, name: str) -> None:
    (root(bucket) / "clinic/tumours/data" / name).write_bytes(b"x")
    listing = bucket.scan().listings["clinic/tumours"]
    assert len(listing.problems) == 1
    assert "the name cannot be used" in listing.problems[0].message
    assert "\n" not in str(listing.problems[0])


def test_names_that_are_not_utf8_are_problems(bucket: Bucket) -> None:
    folder = os.fsencode(root(bucket) / "clinic/tumours/data")
    with open(folder + b"/caf\xe9.png", "wb") as stream:
        stream.write(b"x")
    listing = bucket.scan().listings["clinic/tumours"]
    assert "not valid UTF-8" in listing.problems[0].message
    listing.problems[0].message.encode()
    listing.problems[0].file.encode()


def test_no_half_written_object_is_seen(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("disk full")

    bucket.write("clinic/tumours/status.json", b"old")
    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        bucket.write("clinic/tumours/status.json", b"new")
    assert bucket.read("clinic/tumours/status.json") == b"old"
    assert not list((root(bucket) / "clinic/tumours").glob(".status*"))


def test_files_may_vanish_during_a_scan(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.scandir

    class Vanishing:
        def __init__(self, path: object) -> None:
            self.items = real(path)  # type: ignore[call-overload]

        def __enter__(self) -> object:
            for item in self.items:
                if item.name == "1.png":
                    os.unlink(item.path)
                yield_items.append(item)
            return iter(yield_items)

        def __exit__(self, *_: object) -> None:
            yield_items.clear()
            self.items.close()

    yield_items: list[os.DirEntry[str]] = []
    monkeypatch.setattr(os, "scandir", Vanishing)
    assert bucket.scan().listings["clinic/tumours"].names() == ["task.yaml"]


def test_the_folder_is_made(tmp_path: Path) -> None:
    assert Bucket(str(tmp_path / "new/bucket")).scan().listings == {}


@pytest.mark.parametrize("place", ["clinic/tumours/data", "clinic/tumours/data/new.csv"])
def test_put_follows_no_link(bucket: Bucket, outside: Path, tmp_path: Path, place: str) -> None:
    source = tmp_path / "source.csv"
    source.write_text("1")
    target = root(bucket) / place
    if target.is_dir():
        target.rename(tmp_path / "away")
        target.symlink_to(outside)
        with pytest.raises(FileNotFoundError):
            bucket.put("clinic/tumours/data/new.csv", source)
    else:
        target.symlink_to(outside / "secret.txt")
        bucket.put("clinic/tumours/data/new.csv", source)
        assert not target.is_symlink()
    assert [path.name for path in outside.iterdir()] == ["secret.txt"]
    assert (outside / "secret.txt").read_text() == "secret"


def test_a_put_that_breaks_off_leaves_nothing(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shutil

    def full(source: object, target: BinaryIO, size: int) -> None:
        target.write(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", full)
    (tmp_path / "source").write_bytes(b"whole")
    with pytest.raises(OSError, match="No space"):
        bucket.put("clinic/tumours/data/cat/1.png", tmp_path / "source")
    assert bucket.read("clinic/tumours/data/cat/1.png") == b"one"
    assert [path.name for path in (root(bucket) / "clinic/tumours/data/cat").iterdir()] == ["1.png"]


@pytest.mark.parametrize("name", ["\u6f22" * 85, "e" * 255, "\U0001f408" * 63])
def test_a_name_may_fill_what_the_file_system_allows(bucket: Bucket, name: str) -> None:
    bucket.write(f"clinic/tumours/data/{name}", b"x")
    assert bucket.read(f"clinic/tumours/data/{name}") == b"x"
    assert set(os.listdir(root(bucket) / "clinic/tumours/data")) == {"cat", name}
