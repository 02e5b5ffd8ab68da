"""The fields of `task.yaml`: their types and bounds as data, and one place that writes every message."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from easeml_core import catalog
from easeml_core.errors import Problem
from easeml_core.language import TEMPLATES
from easeml_core.objectives import OBJECTIVES
from easeml_core.spec.document import PROGRAM_FIX, Document, Path

MAX_SEED = 2**32 - 1
# What some row with trainable models is measured by: nothing else is offered.
TRAINABLE = tuple(
    name
    for name in OBJECTIVES
    if any(name in row.objectives and catalog.models_for(row.id) for row in TEMPLATES)
)


def _whole(value: Any) -> Any:
    """`1e3` is a whole number, though YAML reads it as a float."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _known_objective(value: str) -> str:
    if value not in OBJECTIVES:
        raise ValueError
    return value


def _moment(value: str) -> datetime:
    # YAML writes a blank before the offset, ISO 8601 does not.
    moment = datetime.fromisoformat(re.sub(r"\s+(?=[-+Z])", "", value.strip()))
    if ":" not in value:
        raise ValueError("a date alone does not say when")
    try:
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except OverflowError as error:
        raise ValueError("the year is out of range in UTC") from error


class _Fields(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class Budget(_Fields):
    """A hard cap, running work included."""

    trials: Annotated[int | None, BeforeValidator(_whole)] = Field(
        None, ge=1, le=1_000_000, description="a whole number from 1 to 1000000"
    )
    device_hours: float | None = Field(
        None, gt=0, le=1e6, description="a number of hours above 0, at most 1000000"
    )


class Candidates(_Fields):
    """Which candidates to try, as patterns of their names."""

    include: list[str] = Field(
        ["*"], min_length=1, description='a list of one or more patterns such as ["ResNet-18", "VGG*"]'
    )
    exclude: list[str] = Field([], description='a list of patterns such as ["VGG*"]')
    accept_new: bool = Field(True, description="true or false")


class Validation(_Fields):
    """How examples are held back to measure candidates."""

    fraction: float = Field(0.2, gt=0, lt=1, description="a number between 0 and 1, both excluded")
    seed: Annotated[int, BeforeValidator(_whole)] = Field(
        0, ge=0, le=MAX_SEED, description=f"a whole number from 0 to {MAX_SEED}"
    )


class TaskFile(_Fields):
    """The whole of `task.yaml`. The description of a field says what is allowed, and is shown to tenants."""

    program: str = Field(description="text: the program that says what goes in and what comes out")
    description: str = Field("", max_length=10_000, description="text of at most 10000 characters")
    objective: Annotated[str, AfterValidator(_known_objective)] | None = Field(
        None, description=f"one of {', '.join(TRAINABLE)}"
    )
    priority: float = Field(1.0, gt=0, le=1000, description="a number above 0, at most 1000")
    budget: Budget = Field(Budget(), description="a mapping with trials, device_hours or both")
    deadline: Annotated[str, AfterValidator(_moment)] | None = Field(
        None, description="a date and time such as 2026-12-24T18:00:00Z (UTC where it names no time zone)"
    )
    stop_when: dict[str, float] | None = Field(
        None, description="a mapping from the objective to a finite number, such as {accuracy: 0.98}"
    )
    candidates: Candidates = Field(Candidates(), description="a mapping with include, exclude and accept_new")
    validation: Validation = Field(Validation(), description="a mapping with fraction and seed")


def check_fields(document: Document) -> tuple[TaskFile | None, dict[str, Any], list[Problem]]:
    """The file as a model where all fields are right, else None; the fields that are right; the problems."""
    try:
        file = TaskFile.model_validate(document.values)
    except ValidationError as errors:
        told = {problem.field for problem in document.problems}
        problems = [
            _explain(document, error)
            for error in errors.errors()
            # What could not be read has no value, and that was said already.
            if not (error["input"] is None and ".".join(map(str, error["loc"])) in told)
        ]
        wrong = {error["loc"][0] for error in errors.errors() if error["loc"]}
    else:
        return file, dict(file), []
    right = {name: value for name, value in document.values.items() if name not in wrong}
    # Validated one by one, so that rules between fields can still be checked on those that are right.
    partial = TaskFile.model_construct(**dict(_validated(right)))
    return (
        None,
        {name: getattr(partial, name) for name in TaskFile.model_fields if name not in wrong},
        problems,
    )


def _validated(values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        stand_in = {} if name == "program" else {"program": ""}
        yield name, getattr(TaskFile.model_validate({**stand_in, name: value}), name)


def _explain(document: Document, error: Any) -> Problem:
    path: Path = tuple(part for part in error["loc"] if part != "[key]")
    if error["type"] == "extra_forbidden":
        allowed = list(_model_at(path[:-1]).model_fields)
        close = get_close_matches(str(path[-1]).lower(), allowed, n=1)
        fix = f"did you mean `{close[0]}`?" if close else f"allowed here: {', '.join(allowed)}"
        return document.problem(path, "there is no such field", fix=fix)
    if error["type"] == "missing":
        return document.problem(path, "is missing", fix=PROGRAM_FIX)
    info = _info_at(path)
    got = error["input"]
    return document.problem(
        path, f"must be {info.description}; got {show(got)}", fix=_remedy(path, error, got)
    )


def _remedy(path: Path, error: Any, got: Any) -> str | None:
    if path == ("program",) and not isinstance(got, str):
        return PROGRAM_FIX
    if error["type"] == "string_type" and isinstance(got, bool | int | float):
        return f'to mean text, put it in quotes: "{show(got)}"'
    if isinstance(got, str) and error["type"] in ("int_type", "float_type"):
        return "take the quotes away" if re.fullmatch(r"[-+]?[0-9.]+(e[-+]?[0-9]+)?", got.strip()) else None
    if path == ("objective",) and isinstance(got, str):
        close = get_close_matches(got.lower(), TRAINABLE, n=1)
        return f"did you mean `{close[0]}`?" if close else None
    return None


def _model_at(path: Path) -> type[BaseModel]:
    model: type[BaseModel] = TaskFile
    for part in path:
        model = model.model_fields[str(part)].annotation  # type: ignore[assignment]
    return model


def _info_at(path: Path) -> FieldInfo:
    """The innermost field on the way along `path`; an item of a list or mapping belongs to its field."""
    model: Any = TaskFile
    info = FieldInfo()
    for part in path:
        if not (isinstance(model, type) and issubclass(model, BaseModel)):
            break
        info = model.model_fields[str(part)]
        model = info.annotation
    return info


def show(value: Any) -> str:
    """A value as a tenant would recognise it."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f"the text {value[:60]!r}{'…' if len(value) > 60 else ''}"
    if isinstance(value, dict):
        return "a mapping"
    return "an empty list" if value == [] else "a list" if isinstance(value, list) else f"{value!r:.60}"
