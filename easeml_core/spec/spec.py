"""A spec that has passed every check: what a task asks for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from easeml_core.language import Match, Program, match, parse

SECONDS_PER_HOUR = 3600.0

# What may not change once a task has data, and why. All else may change at any time.
FIXED: Mapping[str, str] = {
    "program": "its data and models have the shape of the old program",
    "objective": "earlier results were measured by the old objective and could not be compared",
    "validation_fraction": "the validation split must stay the same for results to be comparable",
    "validation_seed": "the validation split must stay the same for results to be comparable",
}


@dataclass(frozen=True, slots=True)
class Change:
    """A field that differs between two specs of a task. `refused` says why it may not; None if it may."""

    field: str
    before: Any
    after: Any
    refused: str | None = None

    def __str__(self) -> str:
        text = f"{self.field}: {self.before} → {self.after}"
        return f"{text}: {self.refused}" if self.refused else text


@dataclass(frozen=True)
class Spec:
    """A task's spec, defaults filled in.

    `budget_trials` and `budget_seconds` (device time) are None without a limit; `deadline` is in UTC;
    `stop_when` is a score of `objective` in its own unit; `include` and `exclude` are patterns of candidate
    names; `validation_fraction` is the share of examples held back.
    """

    program: Program
    match: Match
    description: str
    objective: str
    priority: float
    budget_trials: int | None
    budget_seconds: float | None
    deadline: datetime | None
    stop_when: float | None
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    accept_new: bool
    validation_fraction: float
    validation_seed: int

    @property
    def template(self) -> str:
        """Id of the template row that the program matches."""
        return self.match.template.id

    @property
    def input_shape(self) -> tuple[int, ...]:
        """(H, W, C) of an image, (D,) of a vector or of one step of a series."""
        return self.program.input.tensors[0].dims

    @property
    def outputs(self) -> int:
        """Classes at most, or values to predict."""
        return self.program.output.tensors[0].dims[0]

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready and canonical: equal specs give equal dictionaries; `from_dict` reads it back."""
        return {
            "program": str(self.program),
            "template": self.template,
            "description": self.description,
            "objective": self.objective,
            "priority": self.priority,
            "budget_trials": self.budget_trials,
            "budget_seconds": self.budget_seconds,
            "deadline": None if self.deadline is None else self.deadline.isoformat(),
            "stop_when": self.stop_when,
            "include": list(self.include),
            "exclude": list(self.exclude),
            "accept_new": self.accept_new,
            "validation_fraction": self.validation_fraction,
            "validation_seed": self.validation_seed,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Spec:
        """The spec whose `as_dict` this is (what the ledger keeps); it is not checked again."""
        program = parse(values["program"])
        rest = {name: value for name, value in values.items() if name not in ("program", "template")}
        deadline = values["deadline"]
        rest["deadline"] = None if deadline is None else datetime.fromisoformat(deadline)
        rest["include"], rest["exclude"] = tuple(values["include"]), tuple(values["exclude"])
        return cls(program=program, match=match(program, values["objective"]), **rest)

    @cached_property
    def digest(self) -> str:
        """Hexadecimal SHA-256 of the canonical form: layout, comments and key order do not matter."""
        text = json.dumps(self.as_dict(), sort_keys=True, allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()

    def changes(self, old: Spec) -> tuple[Change, ...]:
        """What differs from `old`, an earlier spec of the same task that already has data.

        `Change.refused` is set on what may not change then (`FIXED`); a program may still get other names
        for its fields, as long as its shape stays. A smaller budget may be below what is spent: the task
        then stops.
        """
        before, after = old.as_dict(), self.as_dict()
        fixed = dict(FIXED)
        if self.program.shape == old.program.shape:
            del fixed["program"]
        return tuple(
            Change(name, before[name], after[name], fixed.get(name))
            for name in after
            if before[name] != after[name] and name != "template"
        )
