"""The grammar: every program prints and reads back, and every mistake is located and explained."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easeml_core.language import DataType, Program, ProgramError, Tensor, parse
from easeml_core.language.program import MAX_DIM

names = st.text("abcxyz019_", min_size=1, max_size=8) | st.sampled_from(["input", "output", "tensor", "7"])
dims = st.lists(st.integers(1, MAX_DIM), min_size=1, max_size=5).map(tuple)


@st.composite
def data_types(draw: st.DrawFn) -> DataType:
    pool = draw(st.lists(names, unique=True, max_size=6))
    cut = draw(st.integers(0, len(pool)))
    tensors = [Tensor(draw(dims), name) for name in pool[:cut]]
    tensors += [Tensor(draw(dims)) for _ in range(draw(st.integers(0, 3)))]
    return DataType(tuple(draw(st.permutations(tensors))), tuple(pool[cut:]))


programs = st.builds(Program, data_types(), data_types())
blanks = st.text(" \t\r\n", max_size=3) | st.just("# a comment, with { [ ::\n")


@given(programs)
def test_what_is_printed_reads_back(program: Program) -> None:
    assert parse(str(program)) == program


@given(programs, st.data())
def test_white_space_and_comments_are_free(program: Program, data: st.DataObject) -> None:
    text = str(program).replace("::", " :: ").replace("[", " [ ").replace("}", " } ").replace(",", " , ")
    spaced = "".join(data.draw(blanks) + " " if symbol == " " else symbol for symbol in text)
    assert parse(spaced) == program


@given(st.text(max_size=60) | st.text("{}[]:,#inputoTensr0123456789 \n", max_size=80))
def test_any_text_is_a_program_or_a_located_error(text: str) -> None:
    error = None
    try:
        program = parse(text)
    except ProgramError as caught:
        error = caught
    if error is None:
        assert parse(str(program)) == program
    else:
        lines = text.split("\n")
        assert 1 <= error.line <= len(lines)
        assert 1 <= error.column <= len(lines[error.line - 1]) + 1
        assert error.found
        assert error.allowed


@given(programs, st.data())
def test_a_cut_program_is_never_read(program: Program, data: st.DataObject) -> None:
    text = str(program)
    with pytest.raises(ProgramError):
        parse(text[: data.draw(st.integers(0, len(text) - 1))])


def test_the_papers_examples() -> None:
    image = parse("{input: {[Tensor[256,256,3]], []}, output: {[Tensor[1000]], []}}")
    assert image == Program(DataType((Tensor((256, 256, 3)),)), DataType((Tensor((1000,)),)))
    series = parse("{input: {[Tensor[10]], [next]}, output: {[Tensor[10]], [next]}}")
    assert series.input.links == series.output.links == ("next",)
    tree = parse("{ input: {[d :: Tensor[3]], [left, right]}, output: {[Tensor[2]], []} }")
    assert tree.input == DataType((Tensor((3,), "d"),), ("left", "right"))


GOOD = "{input: {[Tensor[%s]], [%s]}, output: {[Tensor[3]], []}}"


@pytest.mark.parametrize(
    ("text", "line", "column", "found", "allowed"),
    [
        ("", 1, 1, "the end of the program", "'{'"),
        ("  \n # nothing\n", 3, 1, "the end of the program", "'{'"),
        ("{output: {", 1, 2, "'output'", "'input'"),
        ("{inputs: {", 1, 2, "'inputs'", "'input'"),
        (GOOD % ("0", ""), 1, 18, "'0'", "a dimension"),
        (GOOD % ("-1", ""), 1, 18, "'-1'", "a dimension"),
        (GOOD % ("2.5", ""), 1, 18, "'2.5'", "a dimension"),
        (GOOD % ("1e3", ""), 1, 18, "'1e3'", "a dimension"),
        (GOOD % ("010", ""), 1, 18, "'010'", "a dimension"),
        (GOOD % ("28x", ""), 1, 18, "'28x'", "a dimension"),
        (GOOD % ("A", ""), 1, 18, "'A'", "a dimension"),
        (GOOD % ("", ""), 1, 18, "']'", "a dimension"),
        (GOOD % ("9" * 5000, ""), 1, 18, "'999", "a dimension"),
        (GOOD % ("3 4", ""), 1, 20, "'4'", "','"),
        (GOOD % ("3", "Left"), 1, 24, "'Left'", "a field name"),
        (GOOD % ("3", "é"), 1, 24, "'é'", "a field name"),
        (GOOD % ("3", "a,"), 1, 26, "']'", "a field name"),
        ("{input: {[\n  a: Tensor[3]], []}}", 2, 4, "':'", "'::'"),
        ("{input: {[tensor[3]], []}}", 1, 17, "'['", "'::'"),
        ("{input: {[Tensor[3]]}}", 1, 21, "'}'", "','"),
        (GOOD % ("3", "") + "}", 1, 54, "'}'", "the end"),
    ],
)
def test_errors_say_where_what_and_what_was_allowed(
    text: str, line: int, column: int, found: str, allowed: str
) -> None:
    with pytest.raises(ProgramError) as caught:
        parse(text)
    error = caught.value
    assert (error.line, error.column) == (line, column)
    assert error.found.startswith(found)
    assert any(words.startswith(allowed) for words in error.allowed)
    assert error.found in str(error)


def test_a_small_letter_is_told() -> None:
    with pytest.raises(ProgramError, match="written with a capital T"):
        parse("{input: {[tensor [3]], []}}")


@pytest.mark.parametrize("second", ["[next, next]", "[a]"])
def test_a_name_given_twice_names_both_places(second: str) -> None:
    with pytest.raises(ProgramError, match=r"already used in line \d, column \d+") as caught:
        parse("{input: {[a :: Tensor[3]],\n" + second + "}, output: {[Tensor[3]], []}}")
    assert caught.value.line == 2


def test_the_same_name_may_stand_on_both_sides() -> None:
    assert parse("{input: {[a :: Tensor[3]], []}, output: {[a :: Tensor[3]], []}}").output.names == ("a",)


@pytest.mark.parametrize("dims", [(), (0,), (-1, 2), (MAX_DIM + 1,)])
def test_trees_refuse_what_the_grammar_refuses(dims: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="whole numbers"):
        Tensor(dims)


@pytest.mark.parametrize("name", ["", "A", "a b", "é", "a-b"])
def test_trees_refuse_bad_names(name: str) -> None:
    with pytest.raises(ValueError, match="field name"):
        Tensor((1,), name)
    with pytest.raises(ValueError, match="field name"):
        DataType((), (name,))


def test_trees_refuse_a_name_given_twice() -> None:
    with pytest.raises(ValueError, match="given twice"):
        DataType((Tensor((1,), "a"),), ("a",))
