"""Rules between the fields of a spec: each says what is wrong, on which line, and how to mend it."""

from __future__ import annotations

import math
from difflib import get_close_matches
from typing import Any

from easeml_core import catalog
from easeml_core.errors import Problem
from easeml_core.language import (
    REGRESSION,
    TEMPLATES,
    Match,
    Program,
    ProgramError,
    Template,
    match,
    parse,
)
from easeml_core.objectives import OBJECTIVES
from easeml_core.spec.document import Document

MAX_INPUT_VALUES = 100_000_000  # numbers in one example: 0.4 GB
MAX_OUTPUTS = 100_000
MAX_OBJECT_BYTES = 1 << 20  # of one object of a general row; models go through it byte by byte
MAX_OBJECT_VALUES = MAX_OBJECT_BYTES // 4

# Rows whose output is an image, a series or an object rather than classes or values.
_ANSWERING = ("image-recovery", "series-translation", "general-autoencoder")


def check_rules(
    document: Document, fields: dict[str, Any]
) -> tuple[Program | None, Match | None, list[Problem]]:
    """Check what depends on several fields; `fields` are those that are right by themselves."""
    problems: list[Problem] = []
    program = found = None
    if isinstance(fields.get("program"), str):
        try:
            program = parse(fields["program"])
        except ProgramError as error:
            line = document.text_line(("program",), error.line)
            text = f"column {error.column} of the program's line {error.line}: {error.message}"
            problems.append(document.problem(("program",), text, line=line))
    objective = fields.get("objective")
    if program is not None:
        found = match(program, objective)
        if not catalog.models_for(found.template.id):
            fix = "change the program to one of these rows"
            problems.append(document.problem(("program",), _untrainable(found), fix=fix))
        else:
            problems += _check_sizes(document, program, found)
            if "objective" in fields:
                problems += _check_objective(document, found.template, objective)
            # Where the objective says which row is meant, a wrong one leaves open which models there are.
            if "objective" in fields or not found.template.told_by_objective:
                problems += _check_candidates(document, found.template, fields.get("candidates"))
    if fields.get("stop_when") is not None:
        # With a wrong objective, what can be said of the goal alone is still said.
        default = found.template.objectives[0] if found and "objective" in fields else None
        problems += _check_stop(document, objective or default, fields["stop_when"])
    return program, found, problems


def _untrainable(found: Match) -> str:
    """One message: which row it is, and why each row that could be trained did not match."""
    row = found.template
    reasons = {miss.template: miss.reason for miss in found.misses}
    trainable = [other for other in TEMPLATES if catalog.models_for(other.id)]
    listed = "; ".join(
        f"{other.id}, {other.form}" + (f" ({reasons[other.id]})" if other.id in reasons else "")
        for other in trainable
    )
    text = f"asks for {row.workload} ({row.form}), for which no candidate can be trained yet"
    return f"{text}. Rows that can be trained: {listed}"


def _check_sizes(document: Document, program: Program, found: Match) -> list[Problem]:
    row = found.template.reads_like or found.template.id
    sides = {"input": program.input}
    if row in _ANSWERING:
        sides["output"] = program.output
    problems = []
    for side, record in sides.items():
        values = sum(math.prod(tensor.dims) for tensor in record.tensors)
        allowed = MAX_OBJECT_VALUES if row.startswith("general-") else MAX_INPUT_VALUES
        if not record.tensors:
            text, fix = f"has no tensor in its {side}", "give it the numbers that there are"
            problems.append(document.problem(("program",), text, fix=fix))
        elif values > allowed:
            what = str(record.tensors[0]) if len(record.tensors) == 1 else f"{values} numbers"
            text = f"an {side} of {what} is too large; at most {allowed} numbers are allowed"
            problems.append(document.problem(("program",), text))
    if row not in _ANSWERING:
        outputs = program.output.tensors[0].dims[0]
        if outputs > MAX_OUTPUTS:
            text = f"{outputs} outputs are too many; at most {MAX_OUTPUTS} are allowed"
            problems.append(document.problem(("program",), text))
        if outputs == 1 and row.endswith("-classification"):
            text = "an output of Tensor[1] is one class, and nothing to tell apart"
            fix = "for yes or no write output Tensor[2]; to predict a number, "
            if found.template.told_by_objective:
                fix += f"an objective such as {REGRESSION[0]}"
            else:
                fix += "make the input one vector, Tensor[N], or a series of such"
            problems.append(document.problem(("program",), text, fix=fix))
    return problems


def _check_objective(document: Document, row: Template, objective: str | None) -> list[Problem]:
    if objective is None or objective in row.objectives:
        return []
    text = f"{objective} does not suit {row.workload}; allowed: {', '.join(row.objectives)}"
    suited = [other.id for other in TEMPLATES if objective in other.objectives]
    return [document.problem(("objective",), text, fix=f"{objective} is for {', '.join(suited)}")]


def _check_candidates(document: Document, row: Template, candidates: Any) -> list[Problem]:
    if candidates is None:
        return []
    names = catalog.all_candidates(row.id)
    models = [model.name for model in catalog.models_for(row.id)]
    problems = []
    for key, patterns in (("include", candidates.include), ("exclude", candidates.exclude)):
        for number, pattern in enumerate(patterns):
            if not any(catalog.matches(name, pattern) for name in names):
                close = get_close_matches(pattern.lower(), [name.lower() for name in models], n=1)
                meant = next((name for name in models if close and name.lower() == close[0]), None)
                fix = f"did you mean `{meant}`?" if meant else f"there are: {', '.join(models)}"
                text = f"{pattern!r} means no candidate of {row.id}"
                problems.append(document.problem(("candidates", key, number), text, fix=fix))
    left = [
        name
        for name in models
        if any(catalog.matches(name, pattern) for pattern in candidates.include if "+" not in pattern)
        and not any(catalog.matches(name, pattern) for pattern in candidates.exclude)
    ]
    if not problems and not left:
        # Normalised candidates alone would leave nothing to try where the data does not call for them.
        text = "leaves no candidate without a normaliser to try"
        problems.append(document.problem(("candidates",), text, fix=f"there are: {', '.join(models)}"))
    return problems


def _check_stop(document: Document, objective: str | None, stop_when: dict[str, float]) -> list[Problem]:
    if len(stop_when) != 1:
        text = f"must name one score; got {len(stop_when)}"
        return [document.problem(("stop_when",), text, fix=f"write {{{objective or 'accuracy'}: …}}")]
    ((metric, goal),) = stop_when.items()
    if objective is not None and metric != objective:
        text = f"must be the score of the objective, {objective}; got {metric}"
        return [
            document.problem(("stop_when", metric), text, fix=f"name {objective} here, or change objective")
        ]
    known = OBJECTIVES.get(metric)
    if known is not None and not known.lowest <= goal <= known.highest:
        bounds = f"from {known.lowest:g} to {known.highest:g}"
        return [document.problem(("stop_when", metric), f"must be {bounds}; got {goal:g}")]
    return []
