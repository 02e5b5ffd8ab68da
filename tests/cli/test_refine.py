"""Refining through the command: switch off, switch on, correct, and look for wrong labels first."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from sklearn import datasets
from typer.testing import Result

from easeml_core.bucket import Bucket
from easeml_core.service import Service
from tests.cli.conftest import data_of
from tests.cli.test_tenant import intake, served

Easeml = Callable[..., Result]
__all__ = ["served"]


def table(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture
def submitted(easeml: Easeml, served: Service, folder: Path) -> Service:
    with intake(served):
        assert easeml("submit", "lab/rows", folder, "--wait", "--timeout", 30).exit_code == 0
    return served


def examples(service: Service) -> dict[str, dict[str, str]]:
    return {row["id"]: row for row in table(service.bucket.read("lab/rows/examples.csv").decode())}


def test_examples_are_switched_off_and_on_and_corrected(
    easeml: Easeml, submitted: Service, tmp_path: Path
) -> None:
    wait = ("--wait", "--timeout", 30)
    with intake(submitted):
        first = easeml(
            "refine",
            "lab/rows",
            "--off",
            "rows.csv#3",
            "--off",
            "rows.csv#4",
            "--label",
            "rows.csv#5=yes",
            *wait,
        )
        after_first = examples(submitted)
        (tmp_path / "more.csv").write_text("id;keep;label;why\nrows.csv#9;0;;blurred\n")
        second = easeml("refine", "lab/rows", "--file", tmp_path / "more.csv", "--on", "rows.csv#3", *wait)
        after_second = examples(submitted)
    assert (first.exit_code, second.exit_code) == (0, 0)
    assert [ident for ident, row in after_first.items() if row["keep"] == "0"] == ["rows.csv#3", "rows.csv#4"]
    assert after_first["rows.csv#5"]["label"] == "yes"
    assert [ident for ident, row in after_second.items() if row["keep"] == "0"] == [
        "rows.csv#4",
        "rows.csv#9",
    ]
    assert after_second["rows.csv#5"]["label"] == "yes", "what was refined before stays"


def test_mistakes_are_told_before_anything_is_sent(
    easeml: Easeml, submitted: Service, tmp_path: Path
) -> None:
    unknown = easeml("refine", "lab/rows", "--off", "nowhere", "--off", "rows.csv#3")
    assert unknown.exit_code == 1
    assert "'nowhere': is no example of the task" in unknown.stderr
    (tmp_path / "bad.csv").write_text("id,keep\nrows.csv#1,maybe\n")
    bad = easeml("refine", "lab/rows", "--file", tmp_path / "bad.csv")
    assert (bad.exit_code, "keep must be 0 or 1" in bad.stderr) == (1, True)
    assert easeml("refine", "lab/rows").exit_code == 2
    assert easeml("refine", "lab/rows", "--label", "rows.csv#1").exit_code == 2
    assert submitted.bucket.read_if_there("lab/rows/refine.csv") is None


def test_suspects_of_a_folder_and_of_the_bucket_are_a_ready_refine_csv(
    easeml: Easeml, bucket: Bucket, tmp_path: Path
) -> None:
    wine = datasets.load_wine()
    random = np.random.default_rng(0)
    wrong = random.choice(178, 18, replace=False)
    labels = wine.target.copy()
    labels[wrong] = (labels[wrong] + 1) % 3
    folder = tmp_path / "wine"
    (folder / "data").mkdir(parents=True)
    rows = [[f"w{i}", *map(float, x), y] for i, (x, y) in enumerate(zip(wine.data, labels, strict=True))]
    with (folder / "data" / "wine.csv").open("w") as stream:
        csv.writer(stream).writerows([["id", *(f"x{i}" for i in range(13)), "label"], *rows])
    (folder / "task.yaml").write_text('program: "{input: {[Tensor[13]], []}, output: {[Tensor[3]], []}}"\n')
    printed = easeml("suspects", folder, "--most", 18)
    found = table(printed.stdout)
    assert len(found) == 18
    assert {row["keep"] for row in found} == {"0"}
    assert sum(row["id"] in {f"w{i}" for i in wrong} for row in found) / 18 >= 0.7
    assert "18 suspects among 178 examples" in printed.stderr
    assert easeml("submit", "lab/wine", folder).exit_code == 0
    output = tmp_path / "odd.csv"
    answer = data_of(easeml("suspects", "lab/wine", "--relabel", "-o", output, "--json"))
    assert (answer["judged"], answer["not_judged"], answer["file"]) == (178, {}, str(output))
    relabelled = table(output.read_text())
    assert [row["id"] for row in relabelled] == [row["id"] for row in answer["suspects"]]
    assert all(row["keep"] == "1" and row["label"] == row["likely"] != row["given"] for row in relabelled)
    (folder / "refine.csv").write_bytes(output.read_bytes())
    assert easeml("validate", folder).exit_code == 0


def test_suspects_say_what_they_cannot_judge(easeml: Easeml, bucket: Bucket, tmp_path: Path) -> None:
    folder = tmp_path / "few"
    (folder / "data").mkdir(parents=True)
    lines = [f"{i},{i % 7},{'ab'[i % 2]}" for i in range(40)] + ["1,50,rare", "2,51,rare"]
    (folder / "data/rows.csv").write_text("x,y1,label\n" + "\n".join(lines) + "\n")
    (folder / "task.yaml").write_text('program: "{input: {[Tensor[2]], []}, output: {[Tensor[3]], []}}"\n')
    assert "not judged: 2 of class rare" in easeml("suspects", folder).stderr
    (folder / "task.yaml").write_text('program: "{input: {[Tensor[2]], []}, output: {[Tensor[1]], []}}"\n')
    (folder / "data/rows.csv").write_text(
        "x,y1,label\n" + "\n".join(f"{i},{i},{i}" for i in range(40)) + "\n"
    )
    refused = easeml("suspects", folder)
    assert (refused.exit_code, "only labels of a classification" in refused.stderr) == (1, True)
    assert "has nothing in the bucket" in easeml("suspects", "lab/nothing").stderr
