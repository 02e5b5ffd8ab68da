"""Archives are hostile until proven otherwise."""

from __future__ import annotations

import errno
import gzip
import io
import os
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.data.uploads import image, save_images, vector

Put = Callable[[str, "bytes | str"], Path]
SPEC = image(8, 8, 1, 2)


@pytest.fixture
def pictures(tmp_path: Path) -> dict[str, bytes]:
    for label in ("cat", "dog"):
        save_images(tmp_path / "made", label, 5)
    root = tmp_path / "made/data"
    return {f"pets/{p.relative_to(root)}": p.read_bytes() for p in sorted(root.rglob("*.png"))}


def zipped(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def tarred(files: dict[str, bytes], mode: str = "w:gz", *extra: tarfile.TarInfo) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for info in extra:
            archive.addfile(info)
    return stream.getvalue()


def member(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = target
    return info


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("pets.zip", zipped),
        ("pets.tar", lambda files: tarred(files, "w:")),
        ("pets.tar.gz", tarred),
        ("pets.tgz", tarred),
        ("pets.tar.bz2", lambda files: tarred(files, "w:bz2")),
        ("pets.tar.xz", lambda files: tarred(files, "w:xz")),
    ],
)
def test_archives_are_read(build: Any, put: Put, pictures: dict[str, bytes], name: str, pack: Any) -> None:
    put(f"data/{name}", pack(pictures))
    version = build(SPEC)
    assert version.facts.classes == ("cat", "dog")
    assert version.ids[0] == f"{name}/pets/cat/0-0.png"


def test_an_archive_and_a_later_folder_are_one_data_set(
    build: Any, upload: Path, put: Put, pictures: dict[str, bytes]
) -> None:
    put("data/pets.zip", zipped(pictures))
    save_images(upload, "cat", 3, seed=9)
    assert build(SPEC).facts.class_counts == (8, 5)


def test_a_mac_zip_has_the_classes_one_sees(build: Any, put: Put, pictures: dict[str, bytes]) -> None:
    junk = {f"__MACOSX/{name.replace('0-', '._0-')}": b"\0" * 82 for name in pictures}
    put("data/pets.zip", zipped({**pictures, **junk, "pets/.DS_Store": b"x", "pets/cat/Thumbs.db": b"x"}))
    version = build(SPEC)
    assert version.facts.classes == ("cat", "dog")
    assert version.facts.n == 10
    assert "pets.zip/pets/.DS_Store" in version.facts.dropped


ZIPS: dict[str, tuple[dict[str, bytes], str]] = {
    "up": ({"../../escaped": b"x"}, "'../../escaped' is refused: it has '..' in it"),
    "hidden up": ({"a/../../escaped": b"x"}, "it has '..' in it"),
    "absolute": ({"/tmp/escaped": b"x"}, "is refused: it is an absolute path"),
    "drive": ({"C:/escaped": b"x"}, "is refused: it is an absolute path"),
    "backslash": ({"..\\escaped": b"x"}, "is refused"),
    "newline": ({"a\nb.png": b"x"}, "control character"),
    "long": ({"x" * 300: b"x"}, "it is too long"),
    "deep": ({"d/" * 50 + "x.png": b"x"}, "nested more than 40"),
    "one large": ({"big.png": bytes(3000)}, "larger than 2,000 bytes"),
    "many": ({f"{i}.png": b"x" for i in range(201)}, "more than the 200 files allowed"),
}


@pytest.mark.parametrize("case", ZIPS)
@pytest.mark.parametrize("pack", [zipped, tarred], ids=["zip", "tar"])
def test_entries_that_are_refused(refused: Any, put: Put, tmp_path: Path, case: str, pack: Any) -> None:
    files, words = ZIPS[case]
    before = sorted(tmp_path.parent.iterdir())
    put("data/x.zip" if pack is zipped else "data/x.tgz", pack(files))
    text = refused(SPEC, max_file_bytes=2000, max_files=200)
    assert words in text
    assert text.startswith("data/x.")
    assert sorted(tmp_path.parent.iterdir()) == before
    assert not list(tmp_path.rglob("*escaped*"))


@pytest.mark.parametrize(
    "info",
    [
        member("evil", tarfile.SYMTYPE, "/etc/passwd"),
        member("evil", tarfile.LNKTYPE, "/etc/passwd"),
        member("evil", tarfile.CHRTYPE),
        member("evil", tarfile.FIFOTYPE),
    ],
    ids=["symbolic link", "hard link", "device", "pipe"],
)
def test_links_and_devices_in_tar(
    refused: Any, put: Put, pictures: dict[str, bytes], info: tarfile.TarInfo
) -> None:
    put("data/x.tar.gz", tarred(pictures, "w:gz", info))
    assert "'evil' is a link or a device" in refused(SPEC)


def test_links_in_zip(refused: Any, put: Put) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        info = zipfile.ZipInfo("evil")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, "/etc/passwd")
    put("data/x.zip", stream.getvalue())
    assert "'evil' is a link or a device" in refused(SPEC)


def test_a_bomb_is_refused_by_its_header(refused: Any, put: Put) -> None:
    put("data/bomb.zip", zipped({"a.png": bytes(100 << 20)}))
    assert "unpacks to more than 200 times its size" in refused(SPEC)


@pytest.mark.parametrize("name", ["bomb.zip", "bomb.tar.gz"])
def test_a_bomb_with_a_lying_header_is_stopped_by_counting(refused: Any, put: Put, name: str) -> None:
    content = bytes(100 << 20)
    if name.endswith("zip"):
        packed = bytearray(zipped({"a.png": content}))
        for signature, offset in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
            at = packed.index(signature) + offset
            packed[at : at + 4] = (1000).to_bytes(4, "little")
        put(f"data/{name}", bytes(packed))
        # Python stops at the announced size and finds that the checksum is another.
        assert "bomb.zip: cannot be unpacked" in refused(SPEC)
    else:
        put(f"data/{name}", tarred({"a.png": content}))
        assert "unpacks to more than 200 times its size" in refused(SPEC)


def test_a_huge_tar_header_is_not_read(refused: Any, put: Put) -> None:
    info = tarfile.TarInfo("x")
    info.type = tarfile.XHDTYPE
    info.size = 1 << 31
    put("data/x.tar.gz", gzip.compress(info.tobuf() + bytes(1 << 20)))
    assert "has a header that is too large" in refused(SPEC)


def test_the_limit_on_bytes_holds_over_all_archives(refused: Any, put: Put) -> None:
    for i in range(3):
        put(f"data/{i}.zip", zipped({"a.png": bytes(1000)}))
    assert "2.zip: unpacks to more than the 2,500 bytes allowed" in refused(SPEC, max_upload_bytes=2500)


@pytest.mark.parametrize(("name", "pack"), [("pets.tar.gz", zipped), ("pets.zip", tarred)])
def test_content_says_what_an_archive_is(
    build: Any, put: Put, pictures: dict[str, bytes], name: str, pack: Any
) -> None:
    put(f"data/{name}", pack(pictures))
    assert build(SPEC).facts.class_counts == (5, 5)


@pytest.mark.parametrize("odd", [0, 256], ids=["between entries", "within a header"])
def test_of_an_archive_that_breaks_off_only_that_is_said(
    refused: Any, put: Put, pictures: dict[str, bytes], odd: int
) -> None:
    packed = tarred({**pictures, "labels.csv": b"file,label\n0-0.png,cat\n"}, "w:")
    third = packed.index(b"pets/cat/0-2.png")
    put("data/pets.tar", packed[: third + odd])
    said = refused(SPEC)
    assert said.startswith("data/pets.tar: breaks off")
    assert "\n" not in said


@pytest.mark.parametrize("files", [{"a": b"1", "a/b": b"2"}, {"a": b"1", "a/b/c": b"2"}])
def test_a_file_where_a_folder_is_needed(refused: Any, put: Put, tmp_path: Path, files: Any) -> None:
    put("data/x.zip", zipped(files))
    said = refused(SPEC)
    assert f"the entry {list(files)[1]!r} needs a folder where another entry is a file" in said
    assert str(tmp_path) not in said


def test_a_full_disk_is_no_fault_of_the_archive(
    build: Any, put: Put, pictures: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, *_: object) -> None:
        os.close(descriptor)
        raise OSError(errno.ENOSPC, "No space left on device")

    put("data/pets.zip", zipped(pictures))
    monkeypatch.setattr("easeml_core.data.archives.os.fdopen", full)
    with pytest.raises(OSError, match="No space left"):
        build(SPEC)


@pytest.mark.parametrize("name", ["x.zip", "x.tar", "x.tar.gz"])
@pytest.mark.parametrize(
    "content", [b"", b"not an archive", b"PK\x03\x04" + bytes(100)], ids=["empty", "text", "cut"]
)
def test_broken_archives_are_named(refused: Any, put: Put, name: str, content: bytes) -> None:
    put(f"data/{name}", content)
    assert name in refused(SPEC)


def test_encrypted_and_nested_archives(
    refused: Any, build: Any, put: Put, pictures: dict[str, bytes]
) -> None:
    packed = bytearray(zipped({"a.png": b"x"}))
    for signature, offset in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        packed[packed.index(signature) + offset] |= 1
    path = put("data/x.zip", bytes(packed))
    assert "'a.png' is encrypted" in refused(SPEC)
    path.unlink()
    put("data/pets.zip", zipped({**pictures, "inner.zip": zipped({"a.png": b"x"})}))
    version = build(SPEC)
    assert version.facts.dropped == ["pets.zip/inner.zip"]


def test_the_same_entry_twice(refused: Any, put: Put) -> None:
    put("data/x.zip", zipped({"a.png": b"1", "b.png": b"2"}).replace(b"b.png", b"a.png"))
    assert "is in there twice" in refused(SPEC)


def test_all_that_is_wrong_comes_at_once(refused: Any, put: Put) -> None:
    put("data/a.zip", b"PK\3\4 no archive")
    put("data/b.csv", 'a,b,label\n1,2,x\n3,4,"y\n')
    put("data/c.csv", "a,b,label\n1,2,x\n1,2,\n")
    put("refine.csv", "id,keep\nb.csv#2,0\n")
    said = refused(vector(2, 2)).splitlines()
    assert [line.partition(": ")[0] for line in said] == ["data/a.zip", "data/b.csv:3", "data/c.csv"]
    assert "cannot be unpacked" in said[0]
    assert "a quote opens a cell" in said[1]
    assert "row 2: the label is empty" in said[2]


def test_an_archive_that_is_broken_is_all_that_is_said(refused: Any, put: Put) -> None:
    put("data/a.zip", b"PK\3\4 no archive")
    assert "\n" not in refused(vector(2, 2))


def test_a_flood_of_problems_is_counted(refused: Any, put: Put) -> None:
    put("data/t.csv", "id,a,b,label\n" + "".join(f"p{i % 2},{i},2,{'xy'[i % 2]}\n" for i in range(500)))
    said = refused(vector(2, 2)).splitlines()
    assert len(said) == 21
    assert said[0] == "data/t.csv#3: the id 'p0' is given twice → make the ids differ"
    assert "and 478 more like this one" in said[-1]
