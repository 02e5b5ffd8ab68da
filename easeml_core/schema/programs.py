"""Programs and schemas: what a program says is a schema; some schemas are what a program can say.

A record without links is a singleton per tensor; one with links is a node that is linked to itself, to as
many others as it has links. A category becomes a tensor with a number per class, which is how a program says
"one of these". The names of links are lost on the way to a schema, and made up on the way back.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

from easeml_core.errors import EasemlError
from easeml_core.language import DataType, Program, Tensor
from easeml_core.schema.model import SINGLE, Category, Field, Link, Node, Schema, is_name
from easeml_core.schema.model import Tensor as TensorField

NODE = "node"
MAX_LINKS = 100
_LINKS = {1: ("next",), 2: ("left", "right")}


class NoProgram(EasemlError):  # noqa: N818 - an answer, not a fault
    """Why no program says what a schema says."""


def compile_type(data_type: DataType) -> Schema:
    """The schema of one side of a program.

    Tensors without a name are called `t1`, `t2` … by their place. Raises `NoProgram` for a record that holds
    nothing, which no schema says.
    """
    fields: dict[str, Field] = {}
    for number, tensor in enumerate(data_type.tensors, 1):
        name = tensor.name or _default(number)
        fields[_unused(name if is_name(name) else f"_{name}", fields)] = TensorField(tensor.dims)
    if data_type.links:
        return Schema({NODE: Node(False, fields, {NODE: Link(0, len(data_type.links))})})
    if not fields:
        raise NoProgram("a record that holds nothing has no schema")
    return Schema({name: Node(True, {SINGLE: field}) for name, field in fields.items()})


def compile_program(program: Program) -> tuple[Schema, Schema]:
    """The schemas of what goes in and what comes out. Raises `NoProgram` as `compile_type` does."""
    return compile_type(program.input), compile_type(program.output)


def type_of(schema: Schema) -> DataType:
    """The side of a program that says what a schema says, tensors in the order of the schema.

    Raises `NoProgram` with the reason where there is none.
    """
    collections = schema.collections
    if not collections:
        fields = {name: node.fields[SINGLE] for name, node in schema.singletons.items()}
        return DataType(tuple(_tensors(schema, fields)))
    if len(schema.nodes) > 1:
        told = "several kinds of nodes" if len(collections) > 1 else "singletons beside a node with instances"
        raise NoProgram(f"the schema has {told}; a program has records of one kind")
    for held, words in (
        (schema.cyclic, "form cycles"),
        (schema.undirected and any(node.links for node in collections.values()), "have no direction"),
        (schema.fan_in, "lead to one instance from several"),
    ):
        if held:
            raise NoProgram(f"links of the schema may {words}; those of a program make chains and trees")
    ((name, node),) = collections.items()
    link = node.links.get(name)
    if link is None:
        raise NoProgram(f"instances of {name} are not linked; those of a program follow each other")
    if link.high is None or link.high > MAX_LINKS:
        many = "any number of" if link.high is None else link.high
        raise NoProgram(f"{name} has {many} links; a program has a name for each, {MAX_LINKS} at most")
    tensors = tuple(_tensors(schema, node.fields))
    names = {tensor.name for tensor in tensors}
    links = _LINKS.get(link.high, tuple(f"link{number}" for number in range(1, link.high + 1)))
    return DataType(tensors, tuple(_unused(name, names) for name in links))


def program_of(source: Schema, target: Schema) -> Program:
    """The program of two schemas. Raises `NoProgram`, which says of which side."""
    sides = []
    for side, schema in (("input", source), ("output", target)):
        try:
            sides.append(type_of(schema))
        except NoProgram as reason:
            raise NoProgram(f"the {side}: {reason}") from None
    return Program(*sides)


def _tensors(schema: Schema, fields: Mapping[str, Field]) -> Iterator[Tensor]:
    for number, (name, field) in enumerate(fields.items(), 1):
        dims = (schema.classes[field.of].dim,) if isinstance(field, Category) else field.dims
        open_ones = [dim for dim in dims if isinstance(dim, str)]
        if open_ones:
            raise NoProgram(f"{name} has the dimension {open_ones[0]}; a program has numbers only")
        sizes = tuple(dim for dim in dims if isinstance(dim, int))
        yield Tensor(sizes, None if name == _default(number) else name)


def _default(number: int) -> str:
    return f"t{number}"


def _unused(name: str, used: Container[str | None]) -> str:
    while name in used:
        name += "_"
    return name
