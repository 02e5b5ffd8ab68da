"""Schemas of data set directories: the public examples, archives, and everything that can be wrong."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from easeml_core.errors import TenantError
from easeml_core.schema import (
    Category,
    Class,
    Link,
    Mapped,
    Node,
    Schema,
    Tensor,
    infer_data_set,
    infer_schema,
    load_schema,
    match_schemas,
)
from easeml_core.schema.links import LinkFacts, parse_link
from easeml_core.schema.model import SINGLE
from tests.schema.conftest import example_files, skip_if_absent


@pytest.mark.parametrize("path", example_files("dataset/infer/positive/*.json"), ids=lambda p: p.stem)
def test_right_examples_match_their_schema(path: Path) -> None:
    skip_if_absent(path)
    found = match_schemas(load_schema(path.read_bytes()), infer_schema(path.with_suffix("")))
    assert isinstance(found, Mapped), found


@pytest.mark.parametrize("path", example_files("dataset/infer/negative/*/"), ids=lambda p: p.stem)
def test_wrong_examples_are_refused(path: Path) -> None:
    skip_if_absent(path)
    with pytest.raises(TenantError):
        infer_schema(path)


Build = Callable[[dict[str, object]], Path]


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """Writes files into a folder: arrays as .npy, everything else as text."""

    def write(files: dict[str, object], folder: str = "set") -> Path:
        for name, content in files.items():
            path = tmp_path / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, np.ndarray):
                np.save(path, content)
            elif isinstance(content, bytes):
                path.write_bytes(content)
            else:
                path.write_text(str(content))
        return tmp_path / folder

    return write


def two(files: dict[str, object]) -> dict[str, object]:
    """The same files in two samples."""
    return {f"{sample}/{name}": content for sample in ("s1", "s2") for name, content in files.items()}


def test_every_kind_of_file(build: Build) -> None:
    folder = build(
        {
            "animal.class.txt": "cat\ndog\n",
            "size.class.txt": "big\nsmall\nhuge\n\n",
            **two(
                {
                    "picture.ten.npy": np.zeros((4, 5)),
                    "row.ten.csv": "1,2,3",
                    "column.ten.csv": "1\n2\n",
                    "label.cat.txt": "dog\n\n",
                    "part/at.ten.csv": "1,2\n3,4\n5,6\n",
                    "part/kind.cat.txt": "big\nsmall\nhuge\n",
                    ".links.csv": "part/0 part/1\npart/1 part/2\n",
                    ".DS_Store": "x",
                }
            ),
        }
    )
    assert infer_schema(folder) == Schema(
        {
            "picture": Node(True, {SINGLE: Tensor((4, 5))}),
            "row": Node(True, {SINGLE: Tensor((3,))}),
            "column": Node(True, {SINGLE: Tensor((2,))}),
            "label": Node(True, {SINGLE: Category("animal")}),
            "part": Node(False, {"at": Tensor((2,)), "kind": Category("size")}, {"part": Link(1, 1)}),
        },
        {"animal": Class(2), "size": Class(3)},
    )


def test_classes_are_shared_out_so_that_each_is_used(build: Build) -> None:
    values = {"a.cat.txt": "x", "b.cat.txt": "x", "c.cat.txt": "y"}
    folder = build({"k1.class.txt": "x\ny", "k2.class.txt": "x\nz", **two(values)})
    classes = {name: node.fields[SINGLE].of for name, node in infer_schema(folder).nodes.items()}  # type: ignore[union-attr]
    assert classes["c"] == "k1"
    assert set(classes.values()) == {"k1", "k2"}


def test_without_a_file_of_links_instances_are_a_chain(build: Build) -> None:
    folder = build(two({"step/x.ten.npy": np.zeros((7, 2))}))
    assert infer_schema(folder) == Schema({"step": Node(False, {"x": Tensor((2,))}, {"step": Link(1, 1)})})


def test_an_empty_file_of_links_means_no_links(build: Build) -> None:
    schema = infer_schema(build(two({"n/x.ten.npy": np.zeros((7, 2)), "links.csv": ""})))
    assert schema == Schema({"n": Node(False, {"x": Tensor((2,))})}, undirected=True)


def facts(*samples: str) -> tuple[bool, bool, bool]:
    found = LinkFacts()
    for sample in samples:
        links = [parse_link(f"n/{pair[0]} n/{pair[1]}") for pair in sample.split()]
        found.add({link for link in links if link is not None})
    return found.cyclic, found.undirected, found.fan_in


@pytest.mark.parametrize(
    ("samples", "cyclic", "undirected", "fan_in"),
    [
        (["01 12 23"], False, False, False),
        (["01 12 20"], True, False, False),
        (["00"], True, True, False),
        (["02 12"], False, False, True),
        (["01 10 12 21"], False, True, False),
        (["01 10 12 21 20 02"], True, True, False),
        (["01 10 02 20 03 30"], False, True, True),
        (["01 10", "01"], True, False, False),  # there and back is a cycle once links have a direction
        (["01", "01 10 12 21"], True, False, True),
    ],
)
def test_what_links_promise(samples: list[str], cyclic: bool, undirected: bool, fan_in: bool) -> None:
    assert facts(*samples) == (cyclic, undirected, fan_in)


def test_bounds_do_not_count_ends(build: Build) -> None:
    links = "a/0 a/1\na/0 a/2\na/1 b/0\na/1 b/1\na/1 b/2\na/2 b/3"
    files = {"a/x.ten.npy": np.zeros((3, 1)), "b/x.ten.npy": np.zeros((4, 1)), ".links.csv": links}
    nodes = infer_schema(build(two(files))).nodes
    assert nodes["a"].links == {"a": Link(2, 2), "b": Link(1, 3)}
    assert nodes["b"].links == {}


X = np.zeros((3, 2))


@pytest.mark.parametrize(
    ("files", "where", "words"),
    [
        ({}, "set", "no folder of a sample"),
        ({"s1/a.ten.npy": X, "notes.txt": ""}, "set/notes.txt", "no place beside the samples"),
        ({"s1/a.ten.npy": X, "s1/notes.txt": ""}, "set/s1/notes.txt", "must end with"),
        ({"s1/A.ten.npy": X}, "set/s1/A.ten.npy", "is no name"),
        ({"s1/7/a.ten.npy": X}, "set/s1/7", "no name of a node"),
        ({"s1/n/m/a.ten.npy": X}, "set/s1/n/m", "no place in the folder of a node"),
        ({"s1/n/.DS_Store": ""}, "set/s1/n", "no field"),
        ({"s1/a.ten.npy": X.astype("float32")}, "set/s1/a.ten.npy", "float32"),
        ({"s1/a.ten.npy": np.array([None])}, "set/s1/a.ten.npy", "object"),
        ({"s1/a.ten.npy": b"\x93NUMPY\x01\x00"}, "set/s1/a.ten.npy", "no .npy file"),
        ({"s1/a.ten.npy": b"no"}, "set/s1/a.ten.npy", "no .npy file"),
        ({"s1/a.ten.npy": np.zeros(())}, "set/s1/a.ten.npy", "at least one dimension"),
        ({"s1/a.ten.npy": np.zeros((2, 0))}, "set/s1/a.ten.npy", "none of them 0"),
        ({"s1/n/a.ten.npy": np.zeros(4)}, "set/s1/n/a.ten.npy", "instance count"),
        ({"s1/a.ten.csv": "1,2\n3"}, "set/s1/a.ten.csv", "different lengths"),
        ({"s1/a.ten.csv": "1,x"}, "set/s1/a.ten.csv", "no number"),
        ({"s1/a.ten.csv": ""}, "set/s1/a.ten.csv", "empty"),
        ({"s1/a.ten.csv": "1", "s1/a.ten.npy": X}, "set/s1/a.ten.npy", "second file of a"),
        ({"s1/a.ten.npy": X, "s1/a/b.ten.npy": X}, "set/s1", "both a file and a folder of a"),
        ({"s1/c.cat.txt": "x\ny", "k.class.txt": "x\ny"}, "set/s1/c.cat.txt", "2 values"),
        ({"s1/c.cat.txt": b"\xff", "k.class.txt": "x"}, "set/s1/c.cat.txt", "not UTF-8"),
        ({"s1/c.cat.txt": "z", "k.class.txt": "x"}, "set", "no class has all values of c, such as 'z'"),
        ({"s1/a.ten.npy": X, "k.class.txt": "\n"}, "set/k.class.txt", "no value"),
        ({"s1/a.ten.npy": X, "K.class.txt": "x"}, "set/K.class.txt", "is no name"),
        ({"s1/a.ten.npy": X, "k.class.txt": "x"}, "set", "no category is of this class"),
        ({"s1/a.ten.npy": X, "s1/.links.csv": ""}, "set/s1", "no node with instances"),
        ({"s1/n/a.ten.npy": X, "s1/.links.csv": "n/0 n/3"}, "set/s1", "n/3, of 3 instances"),
        ({"s1/n/a.ten.npy": X, "s1/.links.csv": "n/0 n/1 n/2"}, "set/s1/.links.csv", "line 1 must be"),
        ({"s1/n/a.ten.npy": X, "s1/.links.csv": "", "s1/links.csv": ""}, "set/s1/links.csv", "second file"),
    ],
)
def test_what_is_wrong_is_named(build: Build, files: dict[str, object], where: str, words: str) -> None:
    folder = build({".keep": "", **files})
    with pytest.raises(TenantError) as caught:
        infer_schema(folder)
    assert where in [problem.file for problem in caught.value.problems if words in problem.message]


def test_a_tensor_that_is_cut_off_and_a_link_are_refused(build: Build, tmp_path: Path) -> None:
    folder = build({"s1/a.ten.npy": X})
    whole = (folder / "s1/a.ten.npy").read_bytes()
    (folder / "s1/a.ten.npy").write_bytes(whole[:-1])
    (folder / "s1/b.ten.npy").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(TenantError) as caught:
        infer_schema(folder)
    assert [problem.message for problem in caught.value.problems] == [
        "is a link or a device; only files are allowed",
        "is cut off",
    ]


def test_many_problems_are_counted(build: Build) -> None:
    with pytest.raises(TenantError) as caught:
        infer_schema(build({f"s{n}/a.txt": "" for n in range(50)}))
    assert len(caught.value.problems) == 21
    assert caught.value.problems[-1].message == "30 more problems are not listed"


SIDES = {
    f"{part}/{side}/{name}/{file}": content
    for part in ("train", "val")
    for side, file, content in (("input", "x.ten.npy", X), ("out", "y.cat.txt", "cat"))
    for name in ("s1", "s2")
} | {f"{part}/out/k.class.txt": "cat\ndog" for part in ("train", "val")}


def test_a_data_set_for_training_has_two_sides(build: Build) -> None:
    found = infer_data_set(build(dict(SIDES)))
    assert found.input == Schema({"x": Node(True, {SINGLE: Tensor((3, 2))})})
    assert found.output == Schema({"y": Node(True, {SINGLE: Category("k")})}, {"k": Class(2)})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"train/input/s3/x.ten.npy": X}, "1 samples are on one side only, such as s3"),
        ({"val/out/k.class.txt": "cat\nfish"}, "other classes than train"),
        ({"val/out/s2/y.cat.txt": "cow"}, "out: no class has all values of y, such as 'cow'"),
        ({"val/input/s2/x.ten.npy": X[:2]}, "dimensions [2, 2] here, and [3, 2] in the first sample"),
    ],
)
def test_sides_and_parts_must_agree(build: Build, changes: dict[str, object], words: str) -> None:
    with pytest.raises(TenantError) as caught:
        infer_data_set(build(SIDES | changes))
    assert words in str(caught.value)


def test_a_part_needs_both_sides(build: Build) -> None:
    with pytest.raises(TenantError, match="one `out` or `output`"):
        infer_data_set(
            build({name: content for name, content in SIDES.items() if not name.startswith("val/out")})
        )


@pytest.mark.parametrize("name", ["d.zip", "d.tar", "d.tar.gz"])
@pytest.mark.parametrize("wrapped", [True, False])
def test_archives_are_looked_into(build: Build, tmp_path: Path, name: str, wrapped: bool) -> None:
    folder = build({"k.class.txt": "x", **two({"c.cat.txt": "x", "n/a.ten.npy": X, ".links.csv": "n/0 n/1"})})
    archive = tmp_path / name
    files = [(path, path.relative_to(tmp_path if wrapped else folder)) for path in folder.rglob("*")]
    if name.endswith("zip"):
        with zipfile.ZipFile(archive, "w") as zipped:
            for path, inner in files:
                zipped.write(path, inner)
    else:
        with tarfile.open(archive, "w:gz" if name.endswith("gz") else "w") as tarred:
            for path, inner in files:
                tarred.add(path, inner, recursive=False)
    assert infer_data_set(archive).input == infer_schema(folder)


def test_a_hostile_archive_is_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "d.tar", "w") as tarred:
        tarred.addfile(tarfile.TarInfo("../../out.ten.npy"))
    with zipfile.ZipFile(tmp_path / "d.zip", "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr("s1/a.ten.csv", b"0" * 80_000_000)
    for name, words in (("d.tar", "it has '..' in it"), ("d.zip", "times its size")):
        with pytest.raises(TenantError, match=words):
            infer_data_set(tmp_path / name)
    assert not (tmp_path.parent / "out.ten.npy").exists()
    (tmp_path / "d.txt").touch()
    with pytest.raises(TenantError, match="neither a directory"):
        infer_data_set(tmp_path / "d.txt")
