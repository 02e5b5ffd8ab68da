"""What reaches the bucket, in which order, and what is refused before anything does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from easeml_core.bucket import Bucket
from easeml_core.cli import upload
from easeml_core.errors import Problem, TenantError
from easeml_core.naming import TaskName
from tests.cli.conftest import NASTY, ROWS, SPEC, make_task

NAME = TaskName("lab", "rows")


class Recorder:
    """A bucket that notes, in order, what is done to it."""

    def __init__(self, bucket: Bucket, fail_at: int | None = None) -> None:
        self._bucket = bucket
        self.calls: list[tuple[str, str]] = []
        self.fail_at = fail_at

    def __getattr__(self, name: str) -> object:
        return getattr(self._bucket, name)

    def write(self, key: str, content: bytes) -> None:
        if self.fail_at is not None and len(self.calls) >= self.fail_at:
            raise ConnectionError("the network is down")
        self.calls.append(("write", key))
        self._bucket.write(key, content)

    def put(self, key: str, path: Path) -> None:
        self.write(key, path.read_bytes())

    def delete(self, key: str) -> None:
        self.calls.append(("delete", key))
        self._bucket.delete(key)


def keys(bucket: Bucket) -> set[str]:
    return {entry.key for listing in bucket.scan().listings.values() for entry in listing.entries}


@pytest.mark.parametrize("name", NASTY)
def test_submit_takes_a_folder_of_any_name(bucket: Bucket, tmp_path: Path, name: str) -> None:
    folder = make_task(tmp_path / name)
    (folder / "data" / "with space").mkdir()
    (folder / "data" / "with space" / 'it\'s "one".csv').write_text(ROWS)
    pushed = upload.submit(bucket, NAME, folder)
    assert len(pushed.sent) == 3
    listing = bucket.listing(NAME.prefix)
    assert listing is not None
    assert listing.marked
    assert not listing.problems
    assert bucket.read('lab/rows/data/with space/it\'s "one".csv').decode() == ROWS


def test_spec_is_last_and_marker_after_it(bucket: Bucket, folder: Path) -> None:
    recorder = Recorder(bucket)
    upload.submit(recorder, NAME, folder)  # type: ignore[arg-type]
    assert recorder.calls == [
        ("delete", "lab/rows/_READY"),
        ("write", "lab/rows/data/rows.csv"),
        ("write", "lab/rows/task.yaml"),
        ("write", "lab/rows/_READY"),
    ]


def test_broken_upload_has_no_marker_and_is_finished_by_the_next(bucket: Bucket, folder: Path) -> None:
    upload.submit(bucket, NAME, folder)
    for number in range(5):
        (folder / "data" / f"more-{number}.csv").write_text(ROWS)
    with pytest.raises(ConnectionError):
        upload.submit(Recorder(bucket, fail_at=3), NAME, folder)  # type: ignore[arg-type]
    listing = bucket.listing(NAME.prefix)
    assert listing is not None
    assert not listing.marked
    there = len(listing.entries) - 2
    assert 0 < there < 5
    again = upload.submit(bucket, NAME, folder)
    assert len(again.sent) == 5 - there
    assert len(again.same) == there + 2
    assert bucket.listing(NAME.prefix).marked  # type: ignore[union-attr]


def test_same_bytes_are_not_sent_again_but_one_changed_byte_is(bucket: Bucket, folder: Path) -> None:
    upload.submit(bucket, NAME, folder)
    before = {e.key: e.tag for e in bucket.listing(NAME.prefix).entries}  # type: ignore[union-attr]
    assert not upload.submit(bucket, NAME, folder).changed
    after = {e.key: e.tag for e in bucket.listing(NAME.prefix).entries}  # type: ignore[union-attr]
    assert before == after
    (folder / "data" / "rows.csv").write_text(ROWS.replace("0,0,no", "0,0,yo"))
    assert upload.submit(bucket, NAME, folder).sent == ("data/rows.csv",)


def test_replace_removes_what_the_folder_has_not(bucket: Bucket, folder: Path) -> None:
    (folder / "data" / "wrong.csv").write_text(ROWS)
    upload.submit(bucket, NAME, folder)
    (folder / "data" / "wrong.csv").unlink()
    assert upload.submit(bucket, NAME, folder).extra == ("data/wrong.csv",)
    assert "lab/rows/data/wrong.csv" in keys(bucket)
    assert upload.submit(bucket, NAME, folder, replace=True).removed == ("data/wrong.csv",)
    assert keys(bucket) == {"lab/rows/data/rows.csv", "lab/rows/task.yaml"}


def test_leftovers_stay_at_home(bucket: Bucket, folder: Path) -> None:
    for leftover in (".DS_Store", "data/.ipynb_checkpoints/x.csv", "data/__MACOSX/y.csv", "data/Thumbs.db"):
        path = folder / leftover
        path.parent.mkdir(exist_ok=True)
        path.write_text("junk")
    upload.submit(bucket, NAME, folder)
    assert keys(bucket) == {"lab/rows/data/rows.csv", "lab/rows/task.yaml"}


def _no_spec(folder: Path) -> None:
    (folder / "task.yaml").unlink()


def _no_data(folder: Path) -> None:
    (folder / "data" / "rows.csv").unlink()


def _empty_class(folder: Path) -> None:
    (folder / "data" / "c").mkdir()


def _newline(folder: Path) -> None:
    (folder / "data" / "a\nb.csv").write_text(ROWS)


def _unfinished(folder: Path) -> None:
    (folder / "data" / "big.zip.part").write_text("half")


def _folder_link(folder: Path) -> None:
    (folder / "data" / "more").symlink_to(folder.parent)


def _broken_link(folder: Path) -> None:
    (folder / "data" / "gone.csv").symlink_to(folder / "nowhere")


def _pipe(folder: Path) -> None:
    os.mkfifo(folder / "data" / "pipe.csv")


@pytest.mark.parametrize(
    ("damage", "file", "words"),
    [
        (_no_spec, "task.yaml", "there is no spec"),
        (_no_data, "data", "there is no data"),
        (_empty_class, "data/c", "holds no file"),
        (_newline, "'data/a\\nb.csv'", "control character"),
        (_unfinished, "data/big.zip.part", "still being written"),
        (_folder_link, "data/more", "link to a folder"),
        (_broken_link, "data/gone.csv", "does not exist"),
        (_pipe, "data/pipe.csv", "not a file"),
    ],
)
def test_what_intake_would_refuse_is_said_before_it_is_sent(
    bucket: Bucket, folder: Path, damage: object, file: str, words: str
) -> None:
    damage(folder)  # type: ignore[operator]
    with pytest.raises(TenantError) as raised:
        upload.submit(bucket, NAME, folder)
    (problem,) = raised.value.problems
    assert problem.file == file
    assert words in problem.message
    assert bucket.listing(NAME.prefix) is None


def test_all_problems_come_at_once_and_nothing_is_sent(bucket: Bucket, folder: Path) -> None:
    for damage in (_no_spec, _empty_class, _newline, _pipe):
        damage(folder)
    with pytest.raises(TenantError) as raised:
        upload.submit(bucket, NAME, folder)
    assert len(raised.value.problems) == 4
    assert bucket.listing(NAME.prefix) is None


def test_bad_spec_is_not_sent(bucket: Bucket, folder: Path) -> None:
    (folder / "task.yaml").write_text(SPEC + "budget: {trials: 9}\n")
    with pytest.raises(TenantError):
        upload.submit(bucket, NAME, folder)
    assert bucket.listing(NAME.prefix) is None


def test_gather_refuses_two_files_of_one_name(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "rows.csv").write_text(ROWS)
    with pytest.raises(TenantError, match="would get this name"):
        upload.gather([tmp_path / "one" / "rows.csv", tmp_path / "two" / "rows.csv"], "data")


def test_content_id_is_of_names_and_bytes_only(tmp_path: Path) -> None:
    def id_of(place: str, name: str, text: str) -> str:
        path = tmp_path / place / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return upload.content_id(upload.gather([path], "x"))

    first = id_of("one", "rows.csv", "1")
    assert first == id_of("two", "rows.csv", "1")
    assert len({first, id_of("three", "rows.csv", "2"), id_of("three", "other.csv", "1")}) == 3


def test_gather_takes_many_files_in_one_pass_over_their_names(tmp_path: Path) -> None:
    class Name(str):
        """Counts how often two names are compared."""

    for number in range(500):
        (tmp_path / f"{number}.csv").write_text("1")
    compared = 0
    real = upload.files_below

    def counting(folder: Path, lead: str, problems: list[Problem]) -> list[upload.LocalFile]:
        found = real(folder, lead, problems)
        return [upload.LocalFile(file.path, Name(file.name), file.size) for file in found]

    def compare(self: str, other: object) -> bool:
        nonlocal compared
        compared += 1
        return str.__eq__(self, other)

    Name.__eq__ = compare  # type: ignore[assignment,method-assign]
    Name.__hash__ = str.__hash__  # type: ignore[method-assign]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(upload, "files_below", counting)
        assert len(upload.gather([tmp_path])) == 500
    assert compared < 5000


@pytest.mark.parametrize("name", ["\u6f22" * 83 + ".csv", "e" * 251 + ".csv", "\U0001f408" * 62 + ".csv"])
def test_long_names_arrive(bucket: Bucket, folder: Path, name: str) -> None:
    (folder / "data" / "rows.csv").rename(folder / "data" / name)
    assert f"data/{name}" in upload.submit(bucket, NAME, folder).sent
    assert bucket.read(f"lab/rows/data/{name}").decode() == ROWS


def test_a_name_of_too_many_bytes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TenantError, match="it is too long"):
        upload.gather([tmp_path / ("\u6f22" * 84 + ".csv")], "data")
