"""refine.csv as people really write it."""

from __future__ import annotations

from pathlib import Path

import pytest

from easeml_core.data.findings import Findings
from easeml_core.data.refine import Refinement, read_refinements


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
