"""Candidates of plug-ins: what may be wrong with them, and where they stand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from easeml_core import extensions
from easeml_core.catalog import MODELS, Candidate
from easeml_core.catalog.plugged import Models, like, wrong_with
from easeml_core.errors import OperatorError

FACTS = replace(MODELS["RandomForest"], name="ExtraTrees")
MINE = Candidate(FACTS, "math:sqrt")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, None),
        ({"name": "KNN"}, "there is a candidate KNN already"),
        ({"name": "Mine+f0.2"}, "a name is letters"),
        ({"name": "a/b"}, "a name is letters"),
        ({"expected": {"nothing-classification": 0.5}}, "is for nothing-classification"),
        ({"expected": {}}, "must expect a quality"),
        ({"expected": {"vector-classification": 1.0}}, "must expect a quality"),
        ({"family": "forests"}, "must be of one of the families convolutional"),
        ({"epochs": 0}, "must have epochs"),
        ({"fit": None}, "must say what a fit costs"),
        ({"framework": "torch"}, "must say what a fit costs"),
        ({"forward": lambda size: math.inf}, "forward of ExtraTrees must be a number above 0; got inf"),
        ({"weights": lambda size: 0}, "weights of ExtraTrees must be a number above 0; got 0"),
    ],
)
def test_what_is_wrong_with_a_candidate(changes: dict[str, Any], words: str | None) -> None:
    wrong = wrong_with(replace(MINE, facts=replace(FACTS, **changes)), ["KNN"])
    if words is None:
        assert wrong == []
    else:
        assert words in wrong[0]


def test_what_builds_it_must_be_there() -> None:
    assert MINE.builder() is math.sqrt
    assert "must be built by `module:function`" in wrong_with(replace(MINE, build="math"))[0]
    for build in ("nowhere:at_all", "math:cube_root", ":x"):
        with pytest.raises(OperatorError, match="ExtraTrees is built by"):
            replace(MINE, build=build).builder()


def test_the_catalogue_goes_on_with_plug_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[Any, ...]] = []

    def load(*arguments: Any) -> tuple[Candidate, ...]:
        given.append(arguments)
        return (MINE,)

    monkeypatch.setattr(extensions, "load", load)
    models = Models((MODELS["KNN"],))
    assert not given, "plug-ins are loaded when they are first looked at"
    assert list(models) == ["KNN", "ExtraTrees"]
    assert models["ExtraTrees"] is FACTS
    assert models.plugged == {"ExtraTrees": MINE}
    ((group, kind, check),) = given
    assert (group, kind) == ("easeml.candidates", Candidate)
    assert check(MINE, []) == []
    assert "already" in check(MINE, [MINE])[0]


def test_a_row_of_ease_ml_is_like_itself() -> None:
    assert like("image-recovery") == "image-recovery"
