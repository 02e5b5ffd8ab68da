"""What every bucket must do, local or on a real S3 server."""

from __future__ import annotations

from pathlib import Path

import pytest

from easeml_core.bucket import Bucket, Kind
from easeml_core.errors import TemporaryError, TenantError

LIMITS = {"max_files": 100, "max_file": 1 << 20, "max_total": 1 << 20}


def upload(bucket: Bucket, prefix: str = "clinic/tumours") -> None:
    bucket.write(f"{prefix}/task.yaml", b"program: x")
    bucket.write(f"{prefix}/data/cat/1.png", b"one")
    bucket.write(f"{prefix}/data/d\u00f6g/2 #%?.png", b"two!")


def test_an_empty_bucket_has_nothing(bucket: Bucket) -> None:
    assert bucket.scan().listings == {}
    assert bucket.listing("clinic/tumours") is None


def test_scan_sorts_files_into_listings(bucket: Bucket) -> None:
    upload(bucket)
    upload(bucket, "clinic/lungs")
    bucket.write("clinic/tumours/refine.csv", b"id,keep\n")
    bucket.write("clinic/tumours/control.json", b"{}")
    bucket.write("clinic/tumours/infer/r1/a.png", b"a")
    scan = bucket.scan()
    assert {prefix: listing.kind for prefix, listing in scan.listings.items()} == {
        "clinic/lungs": Kind.TASK,
        "clinic/tumours": Kind.TASK,
        "clinic/tumours/control.json": Kind.CONTROL,
        "clinic/tumours/infer/r1": Kind.INFER,
    }
    assert scan.strays == ()
    names = scan.listings["clinic/tumours"].names()
    assert names == ["data/cat/1.png", "data/d\u00f6g/2 #%?.png", "refine.csv", "task.yaml"]
    assert scan.listings["clinic/tumours/infer/r1"].names() == ["a.png"]
    for prefix, listing in scan.listings.items():
        assert bucket.listing(prefix) == listing


def test_the_fingerprint_follows_content_and_nothing_else(bucket: Bucket) -> None:
    upload(bucket)
    before = bucket.scan().listings["clinic/tumours"]
    assert bucket.scan().listings["clinic/tumours"].fingerprint == before.fingerprint
    for written_by_service in ("status.json", "status.md", "data-report.md", "predictions/r1.csv"):
        bucket.write(f"clinic/tumours/{written_by_service}", b"x")
    bucket.write("clinic/tumours/_READY", b"")
    bucket.write("clinic/tumours/infer/r1/x.png", b"x")
    bucket.write("clinic/tumours/data/.DS_Store", b"x")
    bucket.write("clinic/tumours/data/cat/1.png~", b"x")
    after = bucket.scan().listings["clinic/tumours"]
    assert after.fingerprint == before.fingerprint
    bucket.write("clinic/tumours/data/cat/1.png", b"eno")  # same name, same size
    assert bucket.scan().listings["clinic/tumours"].fingerprint != before.fingerprint


def test_a_changed_spec_leaves_the_data_fingerprint(bucket: Bucket) -> None:
    upload(bucket)
    before = bucket.scan().listings["clinic/tumours"]
    bucket.write("clinic/tumours/task.yaml", b"program: y")
    after = bucket.scan().listings["clinic/tumours"]
    assert after.fingerprint != before.fingerprint
    assert after.data_fingerprint == before.data_fingerprint


def test_a_new_marker_settles_at_once_and_an_old_one_does_not(bucket: Bucket) -> None:
    upload(bucket)
    assert bucket.scan().listings["clinic/tumours"].settle_seconds(2.0) == 2.0
    bucket.write("clinic/tumours/_READY", b"")
    assert bucket.scan().listings["clinic/tumours"].settle_seconds(2.0) == 0.0


def test_an_empty_file_waits_longer(bucket: Bucket) -> None:
    upload(bucket)
    bucket.write("clinic/tumours/data/late.zip", b"")
    listing = bucket.scan().listings["clinic/tumours"]
    assert listing.settle_seconds(2.0) == 20.0
    bucket.write("clinic/tumours/data/late.zip", b"here")
    assert bucket.scan().listings["clinic/tumours"].settle_seconds(2.0) == 2.0


def test_an_unfinished_upload_waits(bucket: Bucket) -> None:
    upload(bucket)
    bucket.write("clinic/tumours/data/more.zip.part", b"half")
    listing = bucket.scan().listings["clinic/tumours"]
    assert listing.settle_seconds(2.0) == 20.0
    assert listing.waits_for == ("data/more.zip.part",)
    assert "data/more.zip.part" not in listing.names()


@pytest.mark.parametrize(
    ("key", "folder", "words"),
    [
        ("readme.txt", "", "top of the bucket"),
        ("clinic/notes.txt", "clinic", "in no task's folder"),
        ("Clinic/tumours/task.yaml", "Clinic", "is not a tenant id"),
        ("clinic/My Task/task.yaml", "clinic/My Task", "is not a task id"),
    ],
)
def test_files_outside_any_task_are_reported(bucket: Bucket, key: str, folder: str, words: str) -> None:
    upload(bucket)
    bucket.write(key, b"x")
    scan = bucket.scan()
    (stray,) = scan.strays
    assert stray.folder == folder
    assert stray.problem.file == key
    assert words in stray.problem.message
    assert list(scan.listings) == ["clinic/tumours"]
    bucket.write(f"{folder}/status.json".lstrip("/"), b"{}")  # where it is reported is no stray itself
    assert len(bucket.scan().strays) == 1


def test_foreign_files_in_a_task_are_named(bucket: Bucket) -> None:
    upload(bucket)
    bucket.write("clinic/tumours/README.md", b"x")
    bucket.write("clinic/tumours/infer/lost.png", b"x")
    assert bucket.scan().listings["clinic/tumours"].ignored == ("README.md", "infer/lost.png")


def test_leftovers_are_named_and_are_no_news_but_under_infer(bucket: Bucket) -> None:
    upload(bucket)
    before = bucket.scan().listings["clinic/tumours"]
    bucket.write("clinic/tumours/data/.DS_Store", b"x")
    bucket.write("clinic/tumours/data/__MACOSX/cat/._1.png", b"x")
    bucket.write("clinic/tumours/data/cat/1.png~", b"x")
    bucket.write("nobody/here/.git/x", b"x")
    scan = bucket.scan()
    after = scan.listings["clinic/tumours"]
    assert after.ignored == ("data/.DS_Store", "data/__MACOSX", "data/cat/1.png~")
    assert (after.fingerprint, list(scan.listings)) == (before.fingerprint, ["clinic/tumours"])
    bucket.write("clinic/tumours/infer/old.bak/x.png", b"x")
    bucket.write("clinic/tumours/infer/bad name/x.png", b"x")
    last = bucket.scan().listings["clinic/tumours"]
    assert last.unanswered == ("infer/bad name", "infer/old.bak")
    assert {"infer/bad name/x.png", "infer/old.bak"} < set(last.ignored)
    assert last.fingerprint != before.fingerprint, "the tenant is told at once"
    assert last.data_fingerprint == before.data_fingerprint
    assert bucket.listing("clinic/tumours") == last


def test_fetch_copies_what_was_listed(bucket: Bucket, tmp_path: Path) -> None:
    upload(bucket)
    listing = bucket.scan().listings["clinic/tumours"]
    bucket.fetch(listing, tmp_path / "to", **LIMITS)
    got = {str(p.relative_to(tmp_path / "to")): p.read_bytes() for p in (tmp_path / "to").rglob("*.*")}
    assert got == {"task.yaml": b"program: x", "data/cat/1.png": b"one", "data/d\u00f6g/2 #%?.png": b"two!"}


@pytest.mark.parametrize("change", ["grown", "same size", "gone", "added"])
def test_fetch_refuses_an_upload_that_changed(bucket: Bucket, tmp_path: Path, change: str) -> None:
    upload(bucket)
    listing = bucket.scan().listings["clinic/tumours"]
    if change == "gone":
        bucket.delete("clinic/tumours/data/cat/1.png")
    elif change == "added":
        bucket.write("clinic/tumours/data/cat/9.png", b"nine")
    else:
        bucket.write("clinic/tumours/data/cat/1.png", b"eno" if change == "same size" else b"longer")
    with pytest.raises(TemporaryError):
        bucket.fetch(listing, tmp_path / "to", **LIMITS)


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ({"max_files": 2}, "3 files are more than the 2 allowed"),
        ({"max_file": 5}, "more than the 5 allowed for one file"),
        ({"max_total": 16}, "17 bytes in all"),
    ],
)
def test_fetch_keeps_limits(bucket: Bucket, tmp_path: Path, limit: dict[str, int], words: str) -> None:
    upload(bucket)
    listing = bucket.scan().listings["clinic/tumours"]
    with pytest.raises(TenantError, match=words):
        bucket.fetch(listing, tmp_path / "to", **(LIMITS | limit))
    assert not (tmp_path / "to").exists()


def test_reading_writing_deleting(bucket: Bucket) -> None:
    with pytest.raises(FileNotFoundError):
        bucket.read("clinic/tumours/status.json")
    assert bucket.read_if_there("clinic/tumours/status.json") is None
    assert bucket.write_if_changed("clinic/tumours/status.json", "one")
    assert not bucket.write_if_changed("clinic/tumours/status.json", "one")
    assert bucket.write_if_changed("clinic/tumours/status.json", "one and more")
    assert bucket.write_if_changed("clinic/tumours/status.json", "o")
    assert bucket.read("clinic/tumours/status.json") == b"o"
    bucket.write("big", b"1234")
    with pytest.raises(TenantError, match="larger than 3 bytes"):
        bucket.read("big", limit=3)
    bucket.delete("clinic/tumours/status.json")
    bucket.delete("clinic/tumours/status.json")
    assert bucket.read_if_there("clinic/tumours/status.json") is None


@pytest.mark.parametrize("size", [0, 5, 1 << 20, (33 << 20) + 1])
def test_files_of_any_size_are_put_and_read_piece_by_piece(bucket: Bucket, tmp_path: Path, size: int) -> None:
    """33 MiB go to S3 in several parts."""
    source = tmp_path / "source"
    source.write_bytes((b"0123456789abcde" * (size // 15 + 1))[:size])
    bucket.put("clinic/tumours/data/big.npz", source)
    (entry,) = bucket.scan().listings["clinic/tumours"].entries
    assert entry.size == size
    pieces = list(bucket.chunks("clinic/tumours/data/big.npz"))
    assert b"".join(pieces) == source.read_bytes()
    assert max(map(len, pieces), default=0) <= 16 << 20
    source.write_bytes(b"new")
    bucket.put("clinic/tumours/data/big.npz", source)
    assert bucket.read("clinic/tumours/data/big.npz") == b"new"


def test_a_file_that_is_not_there_leaves_the_object_as_it_was(bucket: Bucket, tmp_path: Path) -> None:
    bucket.write("clinic/tumours/data/a.csv", b"old")
    with pytest.raises(FileNotFoundError):
        bucket.put("clinic/tumours/data/a.csv", tmp_path / "gone")
    assert bucket.read("clinic/tumours/data/a.csv") == b"old"
    with pytest.raises(FileNotFoundError):
        list(bucket.chunks("clinic/tumours/data/none.csv"))
    with pytest.raises(FileNotFoundError):
        bucket.put("clinic/tumours/data/none.csv", tmp_path / "gone")
    assert [entry.key for entry in bucket.scan().listings["clinic/tumours"].entries] == [
        "clinic/tumours/data/a.csv"
    ]


def test_a_large_object_is_written_whole(bucket: Bucket, tmp_path: Path) -> None:
    content = bytes(range(256)) * 4 * 1024 * 8  # 8 MiB: above the size from which clients split puts
    bucket.write("clinic/tumours/data/big.npz", content)
    listing = bucket.scan().listings["clinic/tumours"]
    bucket.fetch(listing, tmp_path / "to", max_files=1, max_file=1 << 30, max_total=1 << 30)
    assert (tmp_path / "to/data/big.npz").read_bytes() == content
