"""Rows of plug-ins: where they stand, and what may be wrong with them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from easeml_core import extensions
from easeml_core.language import CLASSIFICATION, Template
from easeml_core.language.table import Table, wrong_with
from easeml_core.language.templates import BUILT_IN

ROW = Template(
    "matrix-classification",
    "{[Tensor[A, B]], []}",
    "{[Tensor[D]], []}",
    "matrices",
    (),
    CLASSIFICATION,
    reads_like="vector-classification",
)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, None),
        ({"told_by_objective": True}, None),
        ({"id": "image-recovery"}, "there is a row image-recovery already"),
        ({"id": "mine"}, "there is a row mine already"),
        ({"id": "Matrix"}, "is not like"),
        ({"input": "{[Tensor[a]], []}"}, "the input of matrix-classification is not a pattern"),
        ({"output": "{[*, Tensor[D]], []}"}, "`*` stands only at the end"),
        ({"objectives": ()}, "must be some of accuracy"),
        ({"objectives": ("speed",)}, "got ('speed',)"),
        ({"told_by_objective": True, "objectives": ("accuracy",)}, "is told by the objective"),
        ({"told_by_objective": True, "output": "{[Tensor[D, E]], []}"}, "is told by the objective"),
        ({"before": "nothing"}, "stands before nothing"),
        ({"before": "mine"}, None),
        ({"reads_like": None}, "must say which row"),
        ({"reads_like": "mine"}, "must say which row"),
    ],
)
def test_what_is_wrong_with_a_row(changes: dict[str, object], words: str | None) -> None:
    wrong = wrong_with(replace(ROW, **changes), [replace(ROW, id="mine")])  # type: ignore[arg-type]
    assert len(wrong) == (words is not None)
    assert words is None or words in wrong[0]


def test_rows_stand_where_they_want(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = (ROW, replace(ROW, id="first", before="image-classification"), replace(ROW, id="last"))
    monkeypatch.setattr(extensions, "load", lambda *_: rows)
    ids = [row.id for row in Table()]
    assert ids[0] == "first"
    assert ids[-4:] == ["matrix-classification", "last", "general-classification", "general-autoencoder"]
    assert len(ids) == len(BUILT_IN) + 3
    assert Table()[1:2] == BUILT_IN[:1]
