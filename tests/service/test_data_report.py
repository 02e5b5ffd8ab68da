from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn import datasets

from easeml_core.data import Limits, build_version, open_version
from easeml_core.naming import version_dir
from easeml_core.service import Service
from easeml_core.service.data_picture import draw
from easeml_core.service.data_report import report_text
from easeml_core.service.intake import run_intake
from tests.data.uploads import NAME, spec_of

PROGRAM = "program: '{input: {[Tensor[2]], []}, output: {[Tensor[OUT]], []}}'\n"
ROWS = "id,a,b,label\n" + "".join(f"c{i},{i},{i * i},{'yn'[i % 2]}\n" for i in range(40))


def submit(service: Service, rows: str, outputs: int = 2, more: str = "", refine: str | None = None) -> None:
    service.bucket.write("lab/rows/data/rows.csv", rows)
    service.bucket.write("lab/rows/task.yaml", PROGRAM.replace("OUT", str(outputs)) + more)
    if refine is not None:
        service.bucket.write("lab/rows/refine.csv", refine)
    assert run_intake(service).accepted == ["lab/rows"]


def examples(service: Service) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(service.bucket.read("lab/rows/examples.csv").decode())))


def test_the_tenant_sees_what_was_read_and_what_was_not(service: Service) -> None:
    service.bucket.write("lab/rows/data/notes_*.doc", "nothing")
    submit(service, f"{ROWS}bad,x,1,y\n")
    report = service.bucket.read("lab/rows/data-report.md").decode()
    assert "40 vectors of 2, values from 0 to 1521" in report
    for line in ("read | 40", "to train on | 32", "to validate on | 8", "broken and left out | 1"):
        assert f"| {line} |" in report
    assert "| y | 16 | 4 |" in report
    assert "| n | 16 | 4 |" in report
    assert "rows.csv" in report.split("## Broken and left out")[1]
    assert "notes\\_\\*.doc" in report.split("## No data")[1], "a name is no markup"
    assert "The first ones: c0, c1, c2" in report
    assert "In this order: a, b" in report
    assert "`data-report.md`" in service.bucket.read("lab/rows/status.md").decode()


def test_examples_csv_is_a_refine_csv_to_start_from(service: Service) -> None:
    submit(service, ROWS)
    listed = examples(service)
    assert [row["id"] for row in listed] == [f"c{i}" for i in range(40)]
    assert {row["keep"] for row in listed} == {"1"}
    assert [row["split"] for row in listed].count("val") == 8
    assert run_intake(service).accepted == [], "our own files are no new upload"
    # Sent back as it is but for two rows, it refines those.
    text = service.bucket.read("lab/rows/examples.csv").decode()
    changed = text.replace("c3,1,n", "c3,0,n").replace("c4,1,y", "c4,1,n")
    submit(service, ROWS, refine=changed)
    after = {row["id"]: row for row in examples(service)}
    assert (after["c3"]["keep"], after["c3"]["split"]) == ("0", "")
    assert after["c4"]["label"] == "n"
    assert "switched off by refine.csv | 1" in service.bucket.read("lab/rows/data-report.md").decode()


def test_several_values_are_not_offered_as_a_label_to_correct(service: Service) -> None:
    rows = "a,b,y1,y2\n" + "".join(f"{i},{i * i},{i + 0.5},{i % 7}\n" for i in range(40))
    submit(service, rows, 2, "objective: mse\n")
    assert examples(service)[1] == {
        "id": "rows.csv#2",
        "keep": "1",
        "values": "1.5,1.0",
        "split": examples(service)[1]["split"],
    }
    text = service.bucket.read("lab/rows/examples.csv").decode()
    submit(service, rows, 2, "objective: mse\n", refine=text.replace("rows.csv#3,1", "rows.csv#3,0"))
    assert [row["id"] for row in examples(service) if row["keep"] == "0"] == ["rows.csv#3"]


@pytest.mark.parametrize(
    ("inputs", "outputs", "row", "words"),
    [
        (
            "[Tensor[1]], [next]",
            "[Tensor[2]], [next]",
            {"input": [1, 5], "output": [[2, 3]]},
            "10 series with steps of 1, values from 0 to 9, 2 long on average and 2 at most; each is to be "
            "answered with 2, values from 2 to 3, 1 long at most",
        ),
        (
            "[Tensor[1]], [left, right]",
            "[Tensor[2]], []",
            {"tree": {"value": 1, "left": 5}},
            "10 trees with nodes of 1, values from 0 to 9, 2 long on average and 2 at most.",
        ),
        (
            "[Tensor[1, 1]], [next]",
            "[Tensor[1, 1]], [next]",
            {"input": [[[1]], [[5]]]},
            "10 objects as bytes, of a width of 1, values from 0 to 224, 8 long on average",
        ),
    ],
)
def test_every_kind_of_data_is_reported(
    tmp_path: Path, inputs: str, outputs: str, row: dict[str, object], words: str
) -> None:
    (tmp_path / "data").mkdir()
    lines = [json.dumps(row | {"label": "ab"[i % 2]}).replace("5", str(i)) for i in range(10)]
    (tmp_path / "data/d.jsonl").write_text("\n".join(lines))
    facts = build_version(
        tmp_path,
        spec_of(inputs, outputs),
        parent=None,
        limits=Limits(),
        versions_dir=tmp_path / "versions",
        name=NAME,
    )
    version = open_version(version_dir(tmp_path / "versions", NAME, facts.digest))
    text = report_text(NAME, version)
    assert words in text
    pixels = np.asarray(Image.open(io.BytesIO(draw(version)))).reshape(-1, 3)
    assert (pixels == (78, 121, 167)).all(axis=1).sum() > 50, "something is drawn"
    assert "The first ones: d.jsonl\\#1, d.jsonl\\#2" in text


def test_sizes_pictures_near_copies_and_leftovers_are_told(service: Service) -> None:
    digits = datasets.load_digits()
    random = np.random.default_rng(0)
    for i, (pixels, label) in enumerate(zip(digits.images[:300], digits.target[:300], strict=True)):
        grey = (pixels * 15).astype(np.uint8)
        again = grey + random.integers(0, 2, (8, 8), np.uint8)
        for copy, array in enumerate((grey, again) if i < 40 else (grey,)):
            save(service, f"lab/rows/data/{label}/{i}-{copy}.png", Image.fromarray(array))
    save(service, "lab/rows/data/3/large.png", Image.fromarray(np.full((16, 12), 9, np.uint8)))
    service.bucket.write("lab/rows/data/.DS_Store", b"x")
    program = "program: '{input: {[Tensor[8, 8, 1]], []}, output: {[Tensor[10]], []}}'\n"
    service.bucket.write("lab/rows/task.yaml", program)
    assert run_intake(service).accepted == ["lab/rows"]
    report = service.bucket.read("lab/rows/data-report.md").decode()
    assert "| 8 × 8 | 340 |" in report.split("## Sizes")[1]
    assert "| 16 × 12 | 1 |" in report
    assert "data/.DS\\_Store" in report.split("## No data")[1]
    assert "![a look at the data](data-report.png)" in report
    pairs = report.split("## Near duplicates")[1].split("##")[0]
    assert pairs.count("-0.png") > 5
    assert "validation examples are nearly the same" in service.bucket.read("lab/rows/status.md").decode()
    picture = Image.open(io.BytesIO(service.bucket.read("lab/rows/data-report.png")))
    grey = np.asarray(picture.convert("L"))
    tiles = grey[4:68, 150:214]  # the first image of class 0
    assert len(np.unique(tiles)) > 5
    assert run_intake(service).accepted == [], "our own files are no new upload"


def test_images_of_high_dynamic_range_are_told_and_can_be_seen(tmp_path: Path) -> None:
    dim = np.random.default_rng(0).uniform(1e-5, 2e-5, (20, 8, 8, 1)).astype(np.float32)
    dim[:, 0, 0], dim[:, 4:] = 1.0, 0.0
    (tmp_path / "data").mkdir()
    np.savez(tmp_path / "data/d.npz", x=dim, y=np.arange(20) % 2)
    facts = build_version(
        tmp_path,
        spec_of("[Tensor[8, 8, 1]], []", "[Tensor[2]], []"),
        parent=None,
        limits=Limits(),
        versions_dir=tmp_path / "versions",
        name=NAME,
    )
    version = open_version(version_dir(tmp_path / "versions", NAME, facts.digest))
    assert "The largest magnitude is 9.9" in report_text(NAME, version)
    tile = np.asarray(Image.open(io.BytesIO(draw(version))).convert("L"))[4:68, 150:214]
    assert tile[20, 40] > tile[60, 40] + 10, "what is dim is not black"


@pytest.mark.parametrize("kind", ["vector", "numbers", "series"])
def test_other_data_is_plotted(service: Service, kind: str) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(60, 12)).cumsum(axis=1)
    x[::2] += 20
    columns = ",".join(f"x{i}" for i in range(12))
    labels = x[:, 0] * 2 if kind == "numbers" else ["yes", "no"] * 30
    rows = "\n".join(",".join([*map(str, row), str(label)]) for row, label in zip(x, labels, strict=True))
    service.bucket.write("lab/rows/data/rows.csv", f"{columns},label\n{rows}\n")
    inputs = "[Tensor[1]], [next]" if kind == "series" else "[Tensor[12]], []"
    outputs = 1 if kind == "numbers" else 2
    program = f"program: '{{input: {{{inputs}}}, output: {{[Tensor[{outputs}]], []}}}}'\n"
    service.bucket.write("lab/rows/task.yaml", program)
    assert run_intake(service).accepted == ["lab/rows"]
    content = service.bucket.read("lab/rows/data-report.png")
    pixels = np.asarray(Image.open(io.BytesIO(content))).reshape(-1, 3)
    first, second = ((pixels == colour).all(axis=1).sum() for colour in ((78, 121, 167), (242, 142, 43)))
    assert first > 300
    assert bool(second > 300) is (kind != "numbers")


def save(service: Service, key: str, image: Image.Image) -> None:
    stream = io.BytesIO()
    image.save(stream, "PNG")
    service.bucket.write(key, stream.getvalue())
