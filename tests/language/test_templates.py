"""The template table: first hit wins, variables bind, every miss has its reason."""

from __future__ import annotations

import pytest
from hypothesis import given

from easeml_core.language import TEMPLATES, DataType, Program, Tensor, match, parse, template
from easeml_core.language.pattern import parse_pattern
from tests.language.test_parser import programs


def program(source: str, target: str) -> Program:
    return parse(f"{{input: {source}, output: {target}}}")


@pytest.mark.parametrize(
    ("source", "target", "objective", "expected", "bindings"),
    [
        ("{[Tensor[8, 9, 3]], []}", "{[Tensor[10]], []}", None, "image-classification", "A=8 B=9 C=3 D=10"),
        ("{[Tensor[8, 8, 3]], []}", "{[Tensor[16, 16, 3]], []}", None, "image-recovery", "D=16 E=16 F=3"),
        ("{[Tensor[6]], [next]}", "{[Tensor[4]], []}", None, "series-classification", "A=6 a=next D=4"),
        ("{[Tensor[6], Tensor[2, 2]], [t]}", "{[Tensor[4]], []}", None, "series-classification", "A=6 a=t"),
        ("{[Tensor[6]], [next]}", "{[Tensor[4]], []}", "r2", "series-regression", "A=6 a=next D=4"),
        ("{[Tensor[6]], [next]}", "{[Tensor[1]], []}", None, "series-regression", "D=1"),
        ("{[Tensor[6]], [next]}", "{[Tensor[1]], []}", "roc_auc", "series-classification", "D=1"),
        ("{[Tensor[6]], [next]}", "{[Tensor[4]], [after]}", None, "series-translation", "a=next b=after"),
        ("{[Tensor[6]], [l, r]}", "{[Tensor[4]], []}", None, "tree-classification", "a=l b=r"),
        ("{[Tensor[13]], []}", "{[Tensor[3]], []}", None, "vector-classification", "A=13 D=3"),
        ("{[Tensor[13]], []}", "{[Tensor[1]], []}", None, "vector-regression", "A=13 D=1"),
        ("{[Tensor[13]], []}", "{[Tensor[3]], []}", "mse", "vector-regression", "A=13 D=3"),
        ("{[Tensor[13]], []}", "{[Tensor[1]], []}", "roc_auc", "vector-classification", "D=1"),
        ("{[Tensor[28, 28]], []}", "{[Tensor[3]], []}", None, "general-classification", "D=3"),
        ("{[Tensor[8, 8, 3]], [next]}", "{[Tensor[3]], []}", None, "general-classification", "D=3"),
        ("{[], []}", "{[], []}", None, "general-autoencoder", ""),
    ],
)
def test_rows(source: str, target: str, objective: str | None, expected: str, bindings: str) -> None:
    found = match(program(source, target), objective)
    assert found.template.id == expected
    for pair in bindings.split():
        name, value = pair.split("=")
        assert str(found.bindings[name]) == value


@given(programs)
def test_every_program_finds_its_first_row(any_program: Program) -> None:
    found = match(any_program)
    above = [row.id for row in TEMPLATES[: TEMPLATES.index(found.template)]]
    assert [miss.template for miss in found.misses] == above
    assert all(miss.reason.split()[0] in ("the", "an") for miss in found.misses)


def test_reasons_say_what_came_and_what_the_row_wants() -> None:
    reasons = {
        miss.template: miss.reason
        for miss in match(program("{[Tensor[28, 28]], [a, b, c]}", "{[Tensor[3], Tensor[2]], []}")).misses
    }
    assert reasons["image-classification"] == (
        "the input has 2 dimensions in tensor 1 (Tensor[28, 28]), this row wants 3 (Tensor[A, B, C])"
    )
    assert reasons["general-classification"] == "the output has 2 tensors, this row wants 1 tensor"
    links = match(program("{[Tensor[3]], [a, b, c]}", "{[Tensor[3]], []}")).misses
    assert links[2].reason == "the input has 3 links, this row wants 1 link"
    told = match(program("{[Tensor[13]], []}", "{[Tensor[1]], []}")).misses[-1]
    assert (told.template, told.reason) == (
        "vector-classification",
        "an output of size 1 asks for regression",
    )


def test_the_order_of_rows_is_the_papers_with_the_vector_rows_before_the_general_ones() -> None:
    assert [row.id for row in TEMPLATES] == [
        "image-classification",
        "image-recovery",
        "series-classification",
        "series-regression",
        "series-translation",
        "tree-classification",
        "vector-classification",
        "vector-regression",
        "general-classification",
        "general-autoencoder",
    ]
    assert template("image-recovery") is TEMPLATES[1]
    with pytest.raises(KeyError):
        template("nothing")


def test_a_variable_binds_once() -> None:
    square = parse_pattern("{[Tensor[A, A], *], *}")
    assert square.bind(DataType((Tensor((4, 4)), Tensor((1,))), ("x",)), {}) == {"A": 4}
    with pytest.raises(Exception, match="has 5, where A already stands for 4"):
        square.bind(DataType((Tensor((4, 5)),)), {})


@pytest.mark.parametrize(
    "text", ["", "{[Tensor[A]]}", "{[*, Tensor[A]], []}", "{[a], []}", "{[Tensor[a]], []}"]
)
def test_a_wrong_pattern_is_a_bug(text: str) -> None:
    with pytest.raises(ValueError, match=r"pattern|list"):
        parse_pattern(text)
