"""`easeml match`: which row of the template table something fits, and why it fits no other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from easeml_core import naming
from easeml_core.cli.author import PANEL
from easeml_core.cli.options import JsonOption
from easeml_core.cli.output import Code, emit, fail, table

if TYPE_CHECKING:
    from easeml_core.language import DataType, Fit, Program
    from easeml_core.schema import Mapped, Schema, Unmatched

app = typer.Typer()
_LARGEST = 1 << 20  # characters of a program that are read


@dataclass(slots=True)
class Subject:
    """What is matched: `schemas` are those of its input and, where it says one, of its output."""

    program: Program | None
    objective: str | None = None
    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
    schemas: tuple[Schema | None, Schema | None] = (None, None)


@app.command(rich_help_panel=PANEL, epilog="Example: easeml match ./digits")
def match(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT",
            help="A task's folder or task.yaml, a program or a file of one, a schema.json, or an ease.ml "
            "data set (a directory, tar or zip).",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            exists=True,
            dir_okay=False,
            help="The schema.json of the output, if WHAT is of an input.",
        ),
    ] = None,
    objective: Annotated[
        str | None, typer.Option("--objective", help="The objective, which tells some rows apart.")
    ] = None,
    module: Annotated[
        Path | None,
        typer.Option(
            "--module",
            exists=True,
            dir_okay=False,
            help="A module's schema.json: show how the input of WHAT fits it instead.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show every row of the template table: what its letters stand for, or why it does not fit."""
    from easeml_core.schema import NoProgram, Unmatched, load_schema, match_schemas

    subject = read(what, output)
    subject.objective = objective or subject.objective
    if module is not None:
        source, _ = subject.schemas
        if source is None:
            fail(Code.PROBLEM, "an input that holds nothing has no schema to match", as_json)
        found = match_schemas(load_schema(module.read_bytes(), module.name), source)
        emit(_mapping(found), as_json, lambda _: _mapping_text(found))
        if isinstance(found, Unmatched):
            raise typer.Exit(Code.PROBLEM)
        return
    try:
        answer = _answer(subject)
    except NoProgram as reason:
        fail(Code.PROBLEM, f"no program says what this schema says: {reason}", as_json)
    emit(answer, as_json, _text)


def read(what: str, output: Path | None = None) -> Subject:
    """What WHAT says. Raises `TenantError` and `ProgramError` where it cannot be read."""
    from easeml_core.data.archives import is_archive
    from easeml_core.data.text import open_text
    from easeml_core.language import parse
    from easeml_core.schema import infer_data_set, load_schema

    if "{" in what:
        return _of_program(parse(what))
    path = Path(what)
    if not what or not (path.is_file() or path.is_dir()):
        raise typer.BadParameter(f"{what} is no file or folder, and no program (which begins with a brace)")
    if path.is_dir() and (path / naming.SPEC_FILE).is_file():
        path = path / naming.SPEC_FILE
    if path.suffix in (".yaml", ".yml"):
        return _of_spec(path)
    if path.is_dir() or is_archive(path.name):
        data_set = infer_data_set(path)
        return _of_schemas(data_set.input, data_set.output)
    if path.suffix == ".json":
        target = None if output is None else load_schema(output.read_bytes(), output.name)
        return _of_schemas(load_schema(path.read_bytes(), path.name), target)
    with open_text(path, path.name) as stream:
        return _of_program(parse(stream.read(_LARGEST)))


def _of_program(program: Program) -> Subject:
    from easeml_core.schema import NoProgram, compile_type

    def compiled(data_type: DataType) -> Schema | None:
        try:
            return compile_type(data_type)
        except NoProgram:
            return None

    return Subject(program, schemas=(compiled(program.input), compiled(program.output)))


def _of_spec(path: Path) -> Subject:
    """Also of a spec that is refused for something else, or for want of candidates."""
    from easeml_core.errors import TenantError
    from easeml_core.language import parse
    from easeml_core.spec import load_spec
    from easeml_core.spec.document import read_document

    content = path.read_bytes()
    try:
        spec = load_spec(content, path.name)
    except TenantError:
        values = read_document(content, path.name).values
        if not isinstance(values.get("program"), str):
            raise
        subject = _of_program(parse(values["program"]))
        objective = values.get("objective")
        subject.objective = objective if isinstance(objective, str) else None
        return subject
    subject = _of_program(spec.program)
    subject.objective, subject.include, subject.exclude = spec.objective, spec.include, spec.exclude
    return subject


def _of_schemas(source: Schema, target: Schema | None) -> Subject:
    from easeml_core.language import CLASSIFICATION
    from easeml_core.schema import Category

    classes = target is not None and all(
        isinstance(field, Category) for node in target.nodes.values() for field in node.fields.values()
    )
    return Subject(None, CLASSIFICATION[0] if classes else None, schemas=(source, target))


def _answer(subject: Subject) -> dict[str, Any]:
    """JSON-ready. Raises `NoProgram` where there is a schema that none says."""
    from easeml_core.language import fits
    from easeml_core.schema import program_of, type_of

    source, target = subject.schemas
    program = subject.program
    if program is None and source is not None and target is not None:
        program = program_of(source, target)
    side = None
    if program is None:
        assert source is not None  # a schema of an input, and nothing else
        side = type_of(source)
        found = tuple(fits(side, None, subject.objective))
    else:
        found = tuple(fits(program.input, program.output, subject.objective))
    # Without an output, every row that takes the input may be meant.
    chosen = next((fit for fit in found if fit.bindings is not None), None) if program else None
    return {
        "program": None if program is None else str(program),
        "input type": None if side is None else str(side),
        "objective": subject.objective,
        "template": chosen and chosen.template.id,
        "bindings": chosen and chosen.bindings,
        "candidates": _candidates(subject, chosen),
        "rows": [
            {
                "template": fit.template.id,
                "form": fit.template.form,
                "fits": fit.bindings is not None,
                "bindings": fit.bindings,
                "reason": fit.reason,
            }
            for fit in found
        ],
        "input": source and source.as_dict(),
        "output": target and target.as_dict(),
    }


def _candidates(subject: Subject, chosen: Fit | None) -> list[str]:
    from easeml_core import catalog

    if chosen is None:
        return []
    names = catalog.all_candidates(chosen.template.id, ())
    wanted = [name for name in names if any(catalog.matches(name, pattern) for pattern in subject.include)]
    return [name for name in wanted if not any(catalog.matches(name, pattern) for pattern in subject.exclude)]


def _text(answer: dict[str, Any]) -> Any:
    from rich.console import Group

    rows = []
    for row in answer["rows"]:
        bound = ", ".join(f"{name} = {value}" for name, value in (row["bindings"] or {}).items())
        mark = "this row" if row["template"] == answer["template"] else "fits" if row["fits"] else ""
        rows.append((mark, row["template"], row["form"], bound if row["fits"] else row["reason"]))
    told = [f"{word}: {answer[word]}" for word in ("program", "input type") if answer[word]]
    if answer["objective"]:
        told.append(f"objective: {answer['objective']}")
    if answer["template"]:
        names = ", ".join(answer["candidates"]) or "none; it cannot be trained yet"
        told.append(f"candidates of {answer['template']}: {names}")
    else:
        told.append("Rows are compared by their input; --output says what comes out.")
    return Group(
        "\n".join(told), table(("", "row", "input → output", "what the letters are, or why not"), rows)
    )


def _mapping(found: Mapped | Unmatched) -> dict[str, Any]:
    from easeml_core.schema import Unmatched

    if isinstance(found, Unmatched):
        return {"matches": False, "reasons": list(found.reasons)}
    return {
        "matches": True,
        "nodes": dict(found.nodes),
        "fields": {node: dict(fields) for node, fields in found.fields.items()},
        "classes": dict(found.classes),
        "dims": dict(found.dims),
    }


def _mapping_text(found: Mapped | Unmatched) -> Any:
    from easeml_core.schema import Unmatched

    if isinstance(found, Unmatched):
        return "does not match: " + "\n".join(found.reasons)
    rows = [("node", ours, theirs) for ours, theirs in found.nodes.items()]
    for node, fields in found.fields.items():
        rows += [
            ("field", f"{node}.{ours}", f"{found.nodes[node]}.{theirs}") for ours, theirs in fields.items()
        ]
    rows += [("class", ours, theirs) for ours, theirs in found.classes.items()]
    rows += [("dimension", ours, str(size)) for ours, size in found.dims.items()]
    return table(("matches", "of the module", "of the data"), rows)
