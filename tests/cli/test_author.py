"""`init` writes a spec that `validate` accepts; `validate` names every problem of spec and data at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import Result

from tests.cli.conftest import ROWS, SPEC, data_of, make_task

Easeml = Callable[..., Result]


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """A folder per class of ten 6 × 6 images."""
    for number in range(20):
        path = tmp_path / "it's mine" / "data" / ("cat" if number % 2 else "dog") / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (6, 6), number).save(path)
    return tmp_path / "it's mine"


def test_init_writes_what_validate_accepts(easeml: Easeml, images: Path) -> None:
    result = easeml("init", images, "--json")
    assert result.exit_code == 0
    assert (images / "task.yaml").read_text() == data_of(result)["spec"]
    checked = data_of(easeml("validate", images, "--json"))
    assert checked["valid"]
    assert checked["data"]["classes"] == ["cat", "dog"]
    assert checked["data"]["shape"] == [6, 6, 1]


def test_init_does_not_overwrite_unless_told(easeml: Easeml, folder: Path) -> None:
    assert easeml("init", folder).exit_code == 1
    assert (folder / "task.yaml").read_text() == SPEC
    assert easeml("init", folder, "--force").exit_code == 0
    assert (folder / "task.yaml").read_text() != SPEC
    assert easeml("validate", folder).exit_code == 0


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_init_overwrites_nothing_but_a_file(
    easeml: Easeml, folder: Path, make: Callable[[Path], None]
) -> None:
    (folder / "task.yaml").unlink()
    make(folder / "task.yaml")
    result = easeml("init", folder, "--force", "--json")
    assert result.exit_code == 1
    assert "is not a regular file" in data_of(result)["error"]


def test_init_without_data_ends_with_1(easeml: Easeml, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    assert easeml("init", tmp_path, "--json").exit_code == 1
    assert not (tmp_path / "task.yaml").exists()


def test_validate_says_what_the_data_is(easeml: Easeml, folder: Path) -> None:
    text = easeml("validate", folder).stdout
    assert "valid: 40 examples of 2 (vector, classification)" in text
    assert "classes: no, yes" in text


def test_validate_names_all_problems_of_the_spec_with_lines(easeml: Easeml, tmp_path: Path) -> None:
    spec = (
        'program: "{input: {[Tensor[2]], []}, output: {[Tensor[2]], []}}"\nbudget: {trials: 0}\ncolour: red\n'
    )
    result = easeml("validate", make_task(tmp_path / "t", spec=spec))
    assert result.exit_code == 1
    assert "task.yaml:2: budget.trials" in result.stdout
    assert "task.yaml:3" in result.stdout


def test_validate_names_problems_of_files_and_data_at_once(easeml: Easeml, folder: Path) -> None:
    (folder / "data" / "pending.csv.part").write_text("half")
    (folder / "data" / "rows.csv").write_text(ROWS.replace("3,3,yes", "3,3,"))
    result = easeml("validate", folder, "--json")
    assert result.exit_code == 1
    problems = data_of(result)["problems"]
    assert {problem["file"] for problem in problems} == {"data/pending.csv.part", "data/rows.csv"}


def test_validate_reads_broken_images_in_full(easeml: Easeml, images: Path) -> None:
    easeml("init", images)
    whole = (images / "data" / "cat" / "1.png").read_bytes()
    (images / "data" / "cat" / "1.png").write_bytes(whole[: len(whole) // 2])
    answer = data_of(easeml("validate", images, "--json"))
    assert answer["data"]["quarantined"][0]["file"] == "data/cat/1.png"
    assert "data/cat/1.png" in easeml("validate", images).stdout


def test_validate_leaves_nothing_behind(
    easeml: Easeml, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    before = sorted(folder.rglob("*"))
    easeml("validate", folder)
    assert sorted(folder.rglob("*")) == before
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize("command", ["init", "validate"])
def test_a_folder_that_is_not_there_is_a_wrong_call(easeml: Easeml, tmp_path: Path, command: str) -> None:
    assert easeml(command, tmp_path / "nowhere").exit_code == 2
