"""How a program finds its row of the template table: from top to bottom, and the first that fits wins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from easeml_core.language.pattern import Bindings, Mismatch, parse_pattern
from easeml_core.language.program import DataType, Program
from easeml_core.language.table import TEMPLATES
from easeml_core.language.templates import REGRESSION, Template


@dataclass(frozen=True, slots=True)
class Miss:
    """A row that did not match, and why."""

    template: str
    reason: str


@dataclass(frozen=True, slots=True)
class Match:
    """The first row that fits, what its variables stand for, and why each row above it did not fit."""

    template: Template
    bindings: Bindings
    misses: tuple[Miss, ...]


@dataclass(frozen=True, slots=True)
class Fit:
    """A row of the table beside a program: what its variables stand for, or why it does not fit."""

    template: Template
    bindings: Bindings | None
    reason: str | None = None


def template(template_id: str) -> Template:
    """The row of this id. Raises KeyError."""
    for row in TEMPLATES:
        if row.id == template_id:
            return row
    raise KeyError(template_id)


def fits(source: DataType, target: DataType | None, objective: str | None = None) -> Iterator[Fit]:
    """Every row of the table beside an input and an output; without an output, rows are compared by input.

    `objective` tells rows apart that share their patterns: a flat vector or a series to `Tensor[K]` is a
    regression when the objective is one of `REGRESSION`, or when none is given and K is 1; else a
    classification.
    """
    for row in TEMPLATES:
        try:
            yield Fit(row, _fit(row, source, target, objective))
        except Mismatch as reason:
            yield Fit(row, None, str(reason))


def match(program: Program, objective: str | None = None) -> Match:
    """The first row that `fits`; the last row takes anything, so there always is one."""
    misses: list[Miss] = []
    for fit in fits(program.input, program.output, objective):
        if fit.bindings is not None:
            return Match(fit.template, fit.bindings, tuple(misses))
        misses.append(Miss(fit.template.id, fit.reason or ""))
    raise AssertionError("the last row takes anything")


def _fit(row: Template, source: DataType, target: DataType | None, objective: str | None) -> Bindings:
    bindings: Bindings = {}
    for side, pattern, data_type in (("input", row.input, source), ("output", row.output, target)):
        if data_type is None:
            continue
        try:
            bindings = parse_pattern(pattern).bind(data_type, bindings)
        except Mismatch as reason:
            raise Mismatch(f"the {side} {reason}") from None
    if row.told_by_objective and target is not None:
        regression = objective in REGRESSION or (objective is None and bindings["D"] == 1)
        if regression != (row.objectives == REGRESSION):
            why = f"the objective {objective}" if objective else f"an output of size {bindings['D']}"
            raise Mismatch(f"{why} asks for {'regression' if regression else 'classification'}")
    return bindings
