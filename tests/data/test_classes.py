"""Which folder is the class."""

from __future__ import annotations

from pathlib import Path

import pytest

from easeml_core.data.classes import place_by_folder
from easeml_core.data.findings import Findings
from easeml_core.data.tree import SourceFile, Tree


def placed(names: list[str]) -> tuple[dict[str, str | None], Findings]:
    """Class of each file; all below a folder `*.zip` is in that archive."""
    files = []
    for name in names:
        root, dot, below = name.rpartition(".zip/")
        files.append(SourceFile(name, Path(name), tuple(below.split("/")[:-1]), root + dot))
    findings = Findings()
    places = place_by_folder(Tree(tuple(files)), files, findings)
    return {name: label for name, (label, _) in places.items()}, findings


@pytest.mark.parametrize(
    "classes",
    [
        {"cat/1.png": "cat", "dog/1.png": "dog"},
        {"pets/cat/1.png": "cat", "pets/dog/1.png": "dog"},
        {"train/cat/1.png": "cat", "test/cat/1.png": "cat"},
        {"cat.zip/cat/1.png": "cat", "dog.zip/dog/1.png": "dog"},
        {"a.zip/pets/cat/1.png": "cat", "b.zip/pets/dog/1.png": "dog"},
        {"a.zip/pets/cat/1.png": "cat", "a.zip/pets/dog/1.png": "dog"},
        {"cat/1.png": "cat", "dog/1.png": "dog", "more.zip/pets/dog/1.png": "dog"},
        {"cat.zip/cat/1.png": "cat", "cat.zip/cat/day1/1.png": "cat", "dog.zip/dog/1.png": "dog"},
        {"train.zip/train/cat/1.png": "cat", "test.zip/test/cat/1.png": "cat"},
        {
            "train/cat/1.png": "cat",
            "train/dog/1.png": "dog",
            "a.zip/pets/cat/1.png": "cat",
            "b.zip/farm/dog/1.png": "dog",
        },
        {"only.zip/pets/cat/1.png": "cat"},
        {"only.zip/pets/cat/1.png": "cat", "only.zip/pets/dog/1.png": "dog"},
        {"cat/1.png": "cat", "dog/1.png": "dog", "a.zip/x/cat/1.png": "cat", "a.zip/x/hen/1.png": "hen"},
        {"a.zip/x/cat/1.png": "cat", "a.zip/x/dog/1.png": "dog", "b.zip/x/hen/1.png": "hen"},
    ],
)
def test_the_class_is_the_folder_that_differs(classes: dict[str, str]) -> None:
    found, findings = placed(list(classes))
    assert (found, findings.problems) == (classes, [])


@pytest.mark.parametrize(
    ("names", "unclear"),
    [
        (
            ["cat.zip/cat/day1/1.png", "cat.zip/cat/day1/2.png", "dog.zip/dog/day2/1.png"],
            {
                "data/cat.zip/cat/day1/1.png": "'cat' or 'day1'",
                "data/dog.zip/dog/day2/1.png": "'dog' or 'day2'",
            },
        ),
        (
            ["cat/1.png", "dog/1.png", "cat.zip/cat/day1/1.png"],
            {"data/cat.zip/cat/day1/1.png": "'cat' or 'day1'"},
        ),
        (["cat/day1/1.png", "y.zip/dog/1.png"], {"data/cat/day1/1.png": "'cat' or 'day1'"}),
        (
            ["cat.zip/cat/day1/1.png", "cat.zip/cat/day2/1.png", "dog.zip/dog/day1/1.png"],
            {
                "data/cat.zip/cat/day1/1.png": "'cat' or 'day1'",
                "data/dog.zip/dog/day1/1.png": "'dog' or 'day1'",
            },
        ),
        (
            ["cat/1.png", "dog/1.png", "cat.zip/cat/day1/1.png", "cat.zip/cat/day2/1.png"],
            {"data/cat.zip/cat/day1/1.png": "'cat' or 'day1'"},
        ),
    ],
)
def test_folders_of_which_any_may_be_the_class_are_refused(names: list[str], unclear: dict[str, str]) -> None:
    _, findings = placed(names)
    text = "one cannot tell which folder is the class, "
    assert {p.file: p.message for p in findings.problems} == {file: text + of for file, of in unclear.items()}


@pytest.mark.parametrize(
    ("lost", "message"),
    [
        (1, "lies in no class folder"),
        (3, "lies in no class folder, nor do 2 others: 0001.png, 0002.png"),
        (3000, "lies in no class folder, nor do 2999 others: 0001.png, "),
    ],
)
def test_files_in_no_class_folder_are_one_problem(lost: int, message: str) -> None:
    found, findings = placed([*(f"{i:04}.png" for i in range(lost)), "a/1.png", "b/1.png"])
    [problem] = findings.problems
    assert problem.file == "data/0000.png"
    assert problem.message.startswith(message)
    assert len(problem.message) < 400
    assert found == {"a/1.png": "a", "b/1.png": "b"}


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("pets_train.zip/cat/1.png", "train"),
        ("TEST.zip/pets/cat/1.png", "val"),
        ("test.tar.gz/cat/1.png", "val"),
        ("val/more.zip/cat/1.png", "val"),
        ("a.zip/test/cat/1.png", "val"),
        ("latest.zip/cat/1.png", None),
        ("my_test/cat/1.png", None),
    ],
)
def test_archives_and_folders_around_tell_the_split(name: str, split: str | None) -> None:
    end = ".tar.gz/" if ".tar.gz/" in name else ".zip/"
    root, dot, below = name.rpartition(end)
    folders = tuple(below.split("/")[:-1])
    assert SourceFile(name, Path(name), folders, root + dot).split_by_folders() == split
