"""refine.csv as people really write it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from easeml_core.data.findings import Findings
from easeml_core.data.refine import Refinement, read_refinements
from tests.data.uploads import vector

Put = Callable[[str, bytes | str], Path]


def test_rows_by_id(tmp_path: Path) -> None:
    path = tmp_path / "refine.csv"
    path.write_text('id;keep;label\nc1;0;\n"c2";1;"so; so"\n')
    findings = Findings()
    assert read_refinements(path, findings) == {
        "c1": Refinement(1, False, None),
        "c2": Refinement(2, True, "so; so"),
    }
    assert not findings.problems


def test_blank_lines_above_the_header_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "refine.csv"
    path.write_text("\n \nid,keep\nc1,0\n")
    assert read_refinements(path, Findings()) == {"c1": Refinement(1, False, None)}


@pytest.mark.parametrize(
    "content", ["", "\n\n", "id,label\nc1,x\n", "id,keep,keep\nc1,0,1\n", "id,ID,keep\n"]
)
def test_columns_that_are_missing_or_double_are_said(tmp_path: Path, content: str) -> None:
    path = tmp_path / "refine.csv"
    path.write_text(content)
    findings = Findings()
    assert read_refinements(path, findings) == {}
    [problem] = findings.problems
    assert problem.fix == "columns are id, keep and, if wanted, label, once each"


@pytest.mark.parametrize(
    ("content", "line"),
    [
        ('id,keep,"label\nc1,0,\nc2,0,\n', 1),
        ('id,keep,label\n"c1,0,\nc2,0,\nc3,0,\n', 2),
        ('id,keep,label\nc1,0,\nc2,0,"\n', 3),
        ('id,keep,label\nc1,0,\n\nc2,0,"x\nc3,0,"y"\n', 4),
    ],
)
def test_an_open_quote_is_refused_where_it_opens(tmp_path: Path, content: str, line: int) -> None:
    path = tmp_path / "refine.csv"
    path.write_text(content)
    findings = Findings()
    read_refinements(path, findings)
    [problem] = findings.problems
    assert (problem.file, problem.line) == ("refine.csv", line)
    assert "a quote opens a cell" in problem.message


def test_every_wrong_row_is_named_beside_ids_that_are_not_there(put: Put, refused: Any) -> None:
    rows = "".join(f"c{i},{i},{i * i},{'yn'[i % 2]}\n" for i in range(20))
    put("data/rows.csv", f"id,a,b,label\n{rows}".encode())
    put("refine.csv", b"id,keep\nc1,2\nc99,0\n,0\nc5\n")
    said = refused(vector(2, 2))
    for words in (
        "c99",
        "row 1: keep must be 0 or 1",
        "row 3: the id is empty",
        "row 4: there must be 2 cells",
    ):
        assert words in said
