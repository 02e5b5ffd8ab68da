"""Data set directories of ease.ml: a folder per sample, as folders and packed."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from easeml_core.data import Limits, read_inputs
from tests.data.test_archives import zipped
from tests.data.trees import WIDTH, flat, functions
from tests.data.uploads import spec_of

Put = Callable[[str, "bytes | str"], Path]
Files = dict[str, bytes]
VECTORS = spec_of("[Tensor[64]], []", "[Tensor[3]], []")
TREES = spec_of(f"[Tensor[{WIDTH}]], [left, right]", "[Tensor[2]], []")


def npy(values: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.asarray(values))
    return stream.getvalue()


def digits(count: int = 30) -> Files:
    """Digits 0 to 2 as flat vectors, every fifth one in the part to validate on."""
    x, y = load_digits(n_class=3, return_X_y=True)
    found = {f"{part}/output/digit.class.txt": b"0\n1\n2\n" for part in ("train", "val")}
    for i in range(count):
        part = "val" if i % 5 == 0 else "train"
        found[f"{part}/input/s{i:02}/pixels.ten.npy"] = npy(x[i])
        found[f"{part}/output/s{i:02}/digit.cat.txt"] = str(y[i]).encode()
    return found


def trees(count: int = 20, links: str = ".links.csv") -> Files:
    found = {"out/package.class.txt": b"email.message\nstatistics\n"}
    for i, (name, tree) in enumerate(functions(count)):
        values, children = flat(tree)
        pairs = [(a, b) for a, row in enumerate(children) for b in row if b >= 0]
        found[f"in/t{i:02}/node/type.ten.npy"] = npy(values)
        found[f"in/t{i:02}/{links}"] = "".join(f"node/{a} node/{b}\n" for a, b in pairs).encode()
        found[f"out/t{i:02}/module.cat.txt"] = name.encode() + b"\n"
    return found


@pytest.fixture
def put_all(put: Put) -> Callable[[Files], None]:
    def write(files: Files) -> None:
        for name, content in files.items():
            put(f"data/{name}", content)

    return write


@pytest.mark.parametrize("packed", [False, True])
def test_flat_samples_and_their_split(build: Any, put: Put, put_all: Any, packed: bool) -> None:
    put("data/set.zip", zipped(digits())) if packed else put_all(digits())
    version = build(VECTORS)
    assert version.facts.classes == ("0", "1", "2")
    assert (version.facts.n_train, version.facts.n_val) == (24, 6)
    x, _ = load_digits(n_class=3, return_X_y=True)
    by_id = dict(zip(version.ids, version.inputs, strict=True))
    lead = "set.zip/" if packed else ""
    assert np.array_equal(by_id[f"{lead}val/s05"], x[5])


@pytest.mark.parametrize("links", [".links.csv", "links.csv"])
def test_trees_by_their_links(build: Any, put_all: Any, links: str) -> None:
    put_all(trees(links=links))
    version = build(TREES)
    assert version.facts.n == 20
    values = [flat(tree)[0] for _, tree in functions(20)]
    assert [len(part) for part in values] == np.diff(version.offsets).tolist()
    # The links of a node come without their names: an only child is the first one.
    assert np.allclose(version.values[: version.offsets[1]], values[0])
    assert (version.children.max(axis=1) >= 0).sum() == version.children.shape[0] - sum(
        1 for _, tree in functions(20) for row in flat(tree)[1] if row == [-1, -1]
    )


def test_a_chain_follows_its_links(build: Any, put_all: Any) -> None:
    found: Files = {}
    for i in range(12):
        steps = np.arange(4.0)[:, None] + i
        found[f"input/c{i}/step/v.ten.csv"] = "\n".join(str(row[0]) for row in steps[[2, 0, 3, 1]]).encode()
        found[f"input/c{i}/links.csv"] = b"step/1 step/3\nstep/3,step/0\n\nstep/0 step/2\n"
        found[f"output/c{i}/y.ten.npy"] = npy([i, -i])
    put_all(found)
    version = build(spec_of("[Tensor[1]], [next]", "[Tensor[2]], []", "mse"))
    assert (version.facts.kind, version.facts.task_kind) == ("series", "regression")
    at = version.ids.index("c3")
    assert version.values[version.offsets[at] : version.offsets[at + 1], 0].tolist() == [3, 4, 5, 6]
    assert version.targets[at].tolist() == [3, -3]


@pytest.mark.parametrize("some", [False, True])
def test_without_any_file_of_links_the_records_are_a_chain(
    build: Any, put_all: Any, refused: Any, some: bool
) -> None:
    found: Files = {}
    for i in range(12):
        found[f"input/c{i:02}/step/v.ten.npy"] = npy(np.arange(3.0)[:, None] + i)
        found[f"output/c{i:02}/y.cat.txt"] = b"ab"[i % 2 : i % 2 + 1]
    if some:
        found["input/c05/links.csv"] = b"step/0 step/1\nstep/1 step/2\n"
    put_all(found)
    spec = spec_of("[Tensor[1]], [next]", "[Tensor[2]], []")
    if some:
        assert "data/c00: it has no file of links, and other samples have one" in refused(spec)
    else:
        version = build(spec)
        assert version.facts.kind == "series"
        assert version.values[:6, 0].tolist() == [0, 1, 2, 1, 2, 3]


def test_images_to_recover(build: Any, put_all: Any) -> None:
    x = load_digits().images[:10].reshape(10, 8, 8, 1)
    put_all(
        {f"input/d{i}/x.ten.npy": npy(x[i]) for i in range(10)}
        | {f"output/d{i}/y.ten.npy": npy(x[i, ::2, ::2]) for i in range(10)}
    )
    version = build(spec_of("[Tensor[8, 8, 1]], []", "[Tensor[4, 4, 1]], []"))
    assert np.array_equal(version.targets, x[:, ::2, ::2])


def test_categories_among_the_inputs_are_tensors(build: Any, put_all: Any) -> None:
    found = {"in/colour.class.txt": b"red\ngreen\nblue\n", "out/kind.class.txt": b"a\nb\n"}
    for i in range(12):
        found[f"in/s{i:02}/step/colour.cat.txt"] = [b"blue\nred\n", b"green\n"][i % 2]
        found[f"in/s{i:02}/step/size.ten.npy"] = npy([[i], [i + 1]][: 2 - i % 2])
        found[f"in/s{i:02}/links.csv"] = [b"step/0 step/1\n", b""][i % 2]
        found[f"out/s{i:02}/kind.cat.txt"] = b"ab"[i % 2 : i % 2 + 1]
    put_all(found)
    version = build(spec_of("[size :: Tensor[1], colour :: Tensor[3]], [next]", "[Tensor[2]], []"))
    assert version.facts.shape == (4,)
    assert version.values[:3].tolist() == [[0, 0, 0, 1], [1, 1, 0, 0], [1, 0, 1, 0]]


def test_categories_alone_are_a_data_set_too(build: Any, put_all: Any) -> None:
    found = {"in/colour.class.txt": b"red\ngreen\n", "out/kind.class.txt": b"a\nb\n"}
    for i in range(12):
        found[f"in/s{i:02}/step/colour.cat.txt"] = b"red\n" * (i + 1) + b"green\n"
        found[f"out/s{i:02}/kind.cat.txt"] = b"ab"[i % 2 : i % 2 + 1]
    put_all(found)
    version = build(spec_of("[colour :: Tensor[2]], [next]", "[Tensor[2]], []"))
    assert version.values[:3].tolist() == [[1, 0], [0, 1], [1, 0]]


BROKEN: dict[str, tuple[Files, str]] = {
    "circle": ({"in/t00/.links.csv": b"node/0 node/1\nnode/1 node/0\n"}, "roots"),
    "beyond": ({"in/t00/.links.csv": b"node/0 node/99999\n"}, "it links 0 to 99999"),
    "three": (
        {"in/t00/.links.csv": b"node/0 node/1\nnode/0 node/2\nnode/0 node/3\n"},
        "record 0 has more than the 2 links",
    ),
    "other": ({"in/t00/.links.csv": b"node/0 leaf/1\n"}, "line 1 of its links must be `node/0 node/1`"),
    "width": (
        {"in/t00/node/type.ten.npy": npy(np.zeros((3, 9)))},
        "has shape (3, 9); wanted is (records, 4)",
    ),
    "text": ({"in/t00/node/type.ten.npy": npy(["a"])}, "must be an array of numbers"),
    "pickle": ({"in/t00/node/type.ten.npy": npy(np.array([{}]))}, "cannot be read"),
    "lying": ({"in/t00/node/type.ten.npy": npy(np.zeros((9, 4)))[:-8]}, "cannot be read"),
    "nan": ({"in/t00/node/type.ten.npy": npy(np.full((1, 4), np.nan)), "in/t00/.links.csv": b""}, "finite"),
    "many": ({"out/t00/module.cat.txt": b"a\nb\n"}, "its output names 2 classes"),
    "no list": ({"in/t00/node/type.ten.npy": b"", "in/t00/node/type.cat.txt": b"x"}, "tensors per record"),
    "unknown": ({"out/t00/module.cat.txt": b"y"}, "'y'"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_samples_are_left_out_and_named(build: Any, put_all: Any, case: str) -> None:
    files, words = BROKEN[case]
    put_all(trees() | files)
    (broken,) = build(TREES).facts.quarantined
    assert broken["file"] == "data/t00"
    assert words in broken["reason"]


def test_all_that_rejects_is_told_at_once(refused: Any, put_all: Any) -> None:
    files = trees()
    del files["out/t03/module.cat.txt"]
    files |= {"out/t77/module.cat.txt": b"statistics", "in/lost.ten.npy": npy([1.0])}
    put_all(files)
    said = refused(TREES)
    for words in ("samples without output: t03", "samples without input: t77", "in/lost.ten.npy: lies in no"):
        assert words in said


def test_requests_hold_samples_alone(build: Any, put_all: Any, tmp_path: Path) -> None:
    put_all(digits())
    version = build(VECTORS)
    x, _ = load_digits(n_class=3, return_X_y=True)
    for place in ("a", "input/b"):
        folder = tmp_path / "request" / place
        folder.mkdir(parents=True)
        (folder / "pixels.ten.npy").write_bytes(npy(x[7]))
    inputs = read_inputs(
        tmp_path / "request", facts=version.facts, limits=Limits(), staging=tmp_path / "staging"
    )
    assert inputs.ids == ["a", "b"]
    assert np.array_equal(inputs.inputs[0], x[7])
