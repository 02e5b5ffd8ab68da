"""Programs compile to schemas, and schemas that a program can say print as one."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings

from easeml_core.language import DataType, Program, Tensor, parse
from easeml_core.schema import (
    Category,
    Class,
    Link,
    Mapped,
    Node,
    NoProgram,
    Schema,
    compile_program,
    compile_type,
    load_schema,
    match_schemas,
    program_of,
    type_of,
)
from easeml_core.schema import Tensor as TensorField
from easeml_core.schema.model import SINGLE
from tests.language.test_parser import data_types, programs
from tests.schema.strategies import schemas, singletons


def holds_something(data_type: DataType) -> bool:
    return bool(data_type.tensors or data_type.links)


@given(programs)
def test_a_program_comes_back_from_its_schemas(program: Program) -> None:
    assume(holds_something(program.input) and holds_something(program.output))
    schemas_of = compile_program(program)
    assert all(load_schema(schema.as_dict()) == schema for schema in schemas_of)
    back = program_of(*schemas_of)
    assert back.shape == program.shape
    assert compile_program(back) == schemas_of
    assert program_of(*compile_program(back)) == back


@given(data_types())
def test_names_of_tensors_come_back(data_type: DataType) -> None:
    assume(holds_something(data_type))
    names = [f"t{number}" for number in range(1, 20)]
    assume(not any((tensor.name or "a")[0].isdigit() or tensor.name in names for tensor in data_type.tensors))
    assert type_of(compile_type(data_type)).tensors == data_type.tensors


@settings(deadline=None)
@given(schemas(named=False, most_nodes=2))
def test_the_program_of_a_schema_says_the_same(schema: Schema) -> None:
    try:
        data_type = type_of(schema)
    except NoProgram as reason:
        assert str(reason)  # noqa: PT017 - every refusal has words
        return
    if not any(isinstance(f, Category) for node in schema.nodes.values() for f in node.fields.values()):
        assert isinstance(match_schemas(compile_type(data_type), schema), Mapped)


def chained(links: int, **tensors: tuple[int, ...]) -> Schema:
    fields = {name: TensorField(dims) for name, dims in tensors.items()}
    return Schema({"node": Node(False, fields, {"node": Link(0, links)})})


@pytest.mark.parametrize(
    ("text", "source", "target"),
    [
        (
            "{input: {[Tensor[28, 28, 1]], []}, output: {[Tensor[10]], []}}",
            singletons((28, 28, 1)),
            singletons((10,)),
        ),
        (
            "{input: {[Tensor[6], mass :: Tensor[1]], [next]}, output: {[Tensor[2]], [left, right]}}",
            Schema(
                {
                    "node": Node(
                        False, {"t1": TensorField((6,)), "mass": TensorField((1,))}, {"node": Link(0, 1)}
                    )
                }
            ),
            chained(2, t1=(2,)),
        ),
    ],
)
def test_what_programs_compile_to(text: str, source: Schema, target: Schema) -> None:
    renamed = [
        Schema({name.replace("t0", "t1"): node for name, node in schema.nodes.items()})
        for schema in (source, target)
    ]
    assert list(compile_program(parse(text))) == renamed
    assert str(program_of(*renamed)) == text


def test_a_category_is_a_number_per_class() -> None:
    schema = Schema({"label": Node(True, {SINGLE: Category("k")})}, {"k": Class(7)})
    assert type_of(schema) == DataType((Tensor((7,), "label"),))


def node(*, link: Link | None = None, **flags: bool) -> Schema:
    return Schema(
        {"n": Node(False, {"x": TensorField((3,))}, {} if link is None else {"n": link})}, {}, **flags
    )


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (singletons(("a",)), "the dimension a; a program has numbers only"),
        (node(), "not linked"),
        (node(link=Link(0, None)), "any number of links"),
        (node(link=Link(0, 10**9)), "1000000000 links"),
        (node(link=Link(0, 1), cyclic=True), "form cycles"),
        (node(link=Link(0, 1), undirected=True), "have no direction"),
        (node(link=Link(0, 1), fan_in=True), "from several"),
        (Schema({**node(link=Link(0, 1)).nodes, **singletons((2,)).nodes}), "singletons beside"),
        (Schema({"m": Node(False, {"x": TensorField((2,))}), **node().nodes}), "several kinds"),
    ],
)
def test_what_no_program_says(schema: Schema, words: str) -> None:
    with pytest.raises(NoProgram, match=words):
        type_of(schema)


def test_the_side_is_named() -> None:
    with pytest.raises(NoProgram, match=r"^the output: instances"):
        program_of(singletons((3,)), node())
    with pytest.raises(NoProgram, match="holds nothing"):
        compile_type(DataType())


@pytest.mark.parametrize(("count", "names"), [(1, ("next_",)), (3, ("link1", "link2", "link3"))])
def test_links_get_names_that_are_free(count: int, names: tuple[str, ...]) -> None:
    schema = Schema({"n": Node(False, {"next": TensorField((3,))}, {"n": Link(1, count)})})
    assert type_of(schema).links == names
