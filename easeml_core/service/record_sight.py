"""What programs fit JSON lines, data set directories of ease.ml, and arrays to answer with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from easeml_core.errors import Problem, TenantError
from easeml_core.language import DataType, Program, Tensor
from easeml_core.naming import DATA_DIR
from easeml_core.service.sight import Sight, is_quantity

if TYPE_CHECKING:
    from easeml_core.data.findings import Findings
    from easeml_core.data.tree import SourceFile

LOOKED_AT = 300  # lines whose structure is looked at; labels are read of all
_LINKS = {2: ("left", "right")}  # of trees written flat, whose links have no names


def answers_program(given: tuple[int, ...], wanted: tuple[int, ...], are_series: bool) -> Program:
    """The program of arrays of inputs and of what they are to be answered with, by their shapes."""

    def one(shape: tuple[int, ...]) -> DataType:
        if are_series:
            return DataType((Tensor(shape[-1:] if len(shape) > 1 else (1,)),), ("next",))
        return DataType((Tensor((*shape[1:], 1) if len(shape) == 3 else shape[1:]),))

    return Program(one(given), one(wanted))


def look_at_lines(files: Sequence[SourceFile], findings: Findings) -> Sight:
    """See what JSON lines hold. Raises `TenantError` where they do not agree."""
    program, labels = _lines_program(files)
    what = "lines of " + (
        "series" if len(program.input.links) == 1 else "trees" if program.input.links else "objects"
    )
    if not labels:
        return Sight(what, (), (), program=program)
    texts, width = [str(label) for label in labels], {len(x) for x in labels if isinstance(x, list)}
    values = width.pop() if width else 1 if is_quantity(texts) else None
    if values is not None:
        program = Program(program.input, DataType((Tensor((values,)),)))
    return Sight(f"{len(labels)} {what}", (), texts, values, program=program)


def look_at_samples(files: Sequence[SourceFile], findings: Findings) -> Sight:
    """See what a data set directory holds. Raises `TenantError` where no program says it."""
    program, labels = _samples_program(files)
    what = "a data set directory of ease.ml"
    output = program.output
    flat = not labels and not output.links and len(output.tensors) == 1 and len(output.tensors[0].dims) == 1
    values = output.tensors[0].dims[0] if flat else None
    return Sight(what, (), labels, values, program=program)


def _samples_program(files: Sequence[SourceFile]) -> tuple[Program, list[str]]:
    """The program of a data set directory of ease.ml, and the classes of its samples.

    Raises `TenantError` where it has none, with the reason.
    """
    from easeml_core.data.samples import side_folders
    from easeml_core.data.sources import CATEGORY_END
    from easeml_core.data.text import open_text, plain
    from easeml_core.schema import NoProgram, infer_schema, program_of

    inputs, outputs = side_folders(files)
    if not (inputs and outputs):
        fix = "put the samples into folders `input` and `output`"
        raise TenantError([Problem(DATA_DIR, "has a data set directory of one side only", fix=fix)])
    try:
        program = program_of(infer_schema(*inputs), infer_schema(*outputs))
    except NoProgram as reason:
        raise TenantError([Problem(DATA_DIR, f"no program says what the data set has: {reason}")]) from None
    labels = []
    for file in files:
        if file.name.lower().endswith(CATEGORY_END):
            with open_text(file.path, f"{DATA_DIR}/{file.name}") as stream:
                labels += [plain(line) for line in stream if line.strip()]
    return program, labels


def _lines_program(files: Sequence[SourceFile]) -> tuple[Program, list[Any]]:
    """The program of JSON lines, and their labels: it has an output for each that differs.

    Raises `TenantError` where the lines do not agree.
    """
    from easeml_core.data.header import LABEL_NAMES
    from easeml_core.data.jsonlines import INPUT, OUTPUT, TREE, parse_line
    from easeml_core.data.records import Malformed
    from easeml_core.data.text import open_text

    given: list[Any] = []
    wanted: list[Any] = []
    labels: list[Any] = []
    where = f"{DATA_DIR}/{files[0].name}"
    for file in files:
        with open_text(file.path, f"{DATA_DIR}/{file.name}") as stream:
            for line in filter(str.strip, stream):
                try:
                    fields = parse_line(line)
                except Malformed:
                    continue  # intake will name it
                labels += [fields[name] for name in LABEL_NAMES if name in fields][:1]
                if len(given) < LOOKED_AT:
                    given += [fields[key] for key in (INPUT, TREE) if key in fields][:1]
                    wanted += [fields[OUTPUT]] if OUTPUT in fields else []
    try:
        record = type_of_values(given)
        if labels:
            outputs = DataType((Tensor((max(1, len({str(label) for label in labels})),)),))
        else:
            outputs = type_of_values(wanted, like=record) if wanted else record
    except ValueError as error:
        raise TenantError([Problem(where, f"one cannot tell its program: {error}")]) from None
    return Program(record, outputs), labels


def type_of_values(values: Sequence[Any], like: DataType | None = None) -> DataType:
    """The type that all `values` of JSON have. `like`: the type of what they answer to; lists of numbers are
    series where that is one. Raises ValueError with the reason where there is no such type."""
    if not values:
        raise ValueError("no line has an `input` or a `tree`")
    if all(isinstance(value, list) for value in values):
        flat = all(_shape(item) == () for value in values for item in value)
        lengths = {len(value) for value in values}
        if flat and len(lengths) == 1 and not (like is not None and like.links):
            return DataType((Tensor((lengths.pop(),)),))
        return DataType(_tensors(item for value in values for item in value)[0], ("next",))
    if not all(isinstance(value, dict) for value in values):
        raise ValueError("its inputs are neither all lists nor all mappings")
    if all(value.keys() == {"nodes", "children"} for value in values):
        width = {len(row) for value in values for row in value["children"] if isinstance(row, list)}
        if len(width) != 1:
            raise ValueError("rows of `children` differ in length")
        (count,) = width
        names = _LINKS.get(count, tuple(f"link{number}" for number in range(1, count + 1)))
        return DataType(_tensors(item for value in values for item in value["nodes"])[0], names)
    tensors, links = _tensors(_walk(values))
    return DataType(tensors, links)


def _walk(values: Iterable[Any]) -> Iterable[Any]:
    """All records within `values`, however deep."""
    stack = list(values)
    while stack:
        record = stack.pop()
        yield record
        if isinstance(record, dict):
            stack += [below for below in record.values() if isinstance(below, dict)]


def _tensors(records: Iterable[Any]) -> tuple[tuple[Tensor, ...], tuple[str, ...]]:
    """Tensors and links that records have."""
    shapes: dict[str, tuple[int, ...]] = {}
    links: set[str] = set()
    for record in records:
        fields = record if isinstance(record, dict) else {"value": record}
        for name, held in fields.items():
            if held is None or isinstance(held, dict):
                links.add(name)
                continue
            shape = _shape(held)
            if shape is None:
                raise ValueError(f"{name[:40]!r} holds something other than an array of numbers")
            if shapes.setdefault(name, shape) != shape:
                raise ValueError(f"{name[:40]!r} has the shapes {shapes[name]} and {shape}")
    tensors = tuple(
        Tensor(shape or (1,), None if name == "value" else name) for name, shape in shapes.items()
    )
    return tensors, tuple(sorted(links - shapes.keys()))


def _shape(held: Any) -> tuple[int, ...] | None:
    import numpy as np

    try:
        array = np.asarray(held)
    except ValueError:
        return None
    return tuple(array.shape) if array.dtype.kind in "iuf" and array.size else None
