"""Plug-ins: what is right is taken, what is wrong is named once and left out, and nothing else is harmed."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from easeml_core import extensions
from easeml_core.extensions import Fault, faults, load

ROOT = Path(__file__).parents[1]
Package = Callable[..., Path]


@pytest.fixture
def package(tmp_path: Path) -> Package:
    """Writes an installed package: one module, and its entry points in one group."""

    def write(name: str, module: str, group: str, **points: str) -> Path:
        (tmp_path / f"{name}.py").write_text(module)
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = "".join(f"{point} = {value}\n" for point, value in points.items())
        (info / "entry_points.txt").write_text(f"[{group}]\n{lines}")
        return tmp_path

    return write


def short(held: str, others: Sequence[str]) -> list[str]:
    return [f"{held!r} is too long"] if len(held) > 3 else [f"{held!r} is twice"] if held in others else []


def test_right_ones_are_taken_in_order_of_names(package: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(
        package("fine", "A = 'a'\nBC = ['b', 'c']", "t.right", z="fine:A", y="fine:BC")
    )
    assert load("t.right", str, short) == ("b", "c", "a")
    assert [fault for fault in faults() if fault.group == "t.right"] == []


def test_wrong_ones_are_named_once_and_left_out(
    package: Package, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    module = "A = 'a'\nLONG = ['x', 'long']\nNUMBER = 7\nAGAIN = 'a'\n"
    points = {
        "a": "mixed:A",
        "b": "mixed:LONG",
        "c": "mixed:NUMBER",
        "d": "mixed:AGAIN",
        "e": "mixed:NOTHING",
        "f": "nowhere:X",
    }
    monkeypatch.syspath_prepend(package("mixed", module, "t.wrong", **points))
    with caplog.at_level(logging.WARNING):
        assert load("t.wrong", str, short) == ("a",)
        assert load("t.wrong", str, short) == ("a",)
    told = [record.getMessage() for record in caplog.records]
    assert told == [
        "plug-in b (t.wrong) of mixed is left out: 'long' is too long",
        "plug-in c (t.wrong) of mixed is left out: mixed:NUMBER is no str, or list of them; it is 7",
        "plug-in d (t.wrong) of mixed is left out: 'a' is twice",
        "plug-in e (t.wrong) of mixed is left out: AttributeError: module 'mixed' has no attribute 'NOTHING'",
        "plug-in f (t.wrong) of mixed is left out: ModuleNotFoundError: No module named 'nowhere'",
    ]
    assert [str(fault) for fault in faults() if fault.group == "t.wrong"] == told


def test_a_module_and_a_check_may_raise_anything(package: Package, monkeypatch: pytest.MonkeyPatch) -> None:
    def check(held: str, others: Sequence[str]) -> list[str]:
        raise ZeroDivisionError("no")

    monkeypatch.syspath_prepend(package("bad", "import sys\n1 / 0", "t.raises", a="bad:A"))
    package("worse", "A = 'a'", "t.raises", b="worse:A")
    assert load("t.raises", str, check) == ()
    reasons = {fault.name: fault.reason for fault in faults() if fault.group == "t.raises"}
    assert reasons == {"a": "ZeroDivisionError: division by zero", "b": "ZeroDivisionError: no"}


def test_a_faulty_plug_in_harms_no_command(package: Package) -> None:
    module = """
from easeml_core.language import CLASSIFICATION, Template

GOOD = Template("matrix-classification", "{[Tensor[A, B]], []}", "{[Tensor[D]], []}", "matrices", (),
                CLASSIFICATION, reads_like="vector-classification")
BAD = Template("Matrix", "{[Tensor[A, B], []}", "{*, *}", "matrices", (), ("speed",), before="nothing")
"""
    folder = package("rows", module, extensions.TEMPLATES, good="rows:GOOD", bad="rows:BAD")
    done = subprocess.run(
        [
            sys.executable, "-c", "from easeml_core.cli.main import app; app()",
            "match", "{input: {[Tensor[8, 8]], []}, output: {[Tensor[10]], []}}", "--json",
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=True,
    )  # fmt: skip
    assert json.loads(done.stdout)["template"] == "matrix-classification"
    (line,) = done.stderr.splitlines()
    assert line.startswith("plug-in bad (easeml.templates) of rows is left out: the id 'Matrix' is not like")
    for words in ("not a pattern", "speed", "stands before nothing", "`reads_like`"):
        assert words in line


def test_a_fault_says_what_whose_and_why() -> None:
    fault = Fault("easeml.templates", "mine", "my-package", "it is empty")
    assert str(fault) == "plug-in mine (easeml.templates) of my-package is left out: it is empty"
