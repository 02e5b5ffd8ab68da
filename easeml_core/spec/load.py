"""From the bytes of `task.yaml` to a `Spec`, or to every problem with them at once."""

from __future__ import annotations

from easeml_core.errors import TenantError
from easeml_core.naming import SPEC_FILE
from easeml_core.spec.document import read_document
from easeml_core.spec.fields import check_fields
from easeml_core.spec.rules import check_rules
from easeml_core.spec.spec import SECONDS_PER_HOUR, Spec


def load_spec(content: bytes | str, file: str = SPEC_FILE) -> Spec:
    """Read a spec. Raises `TenantError` with all problems, in the order of their lines.

    Pure: it asks no clock (a deadline may lie in the past) and no file system.
    """
    document = read_document(content, file)
    task, fields, wrong_fields = check_fields(document)
    program, found, broken_rules = check_rules(document, fields)
    problems = [*document.problems, *wrong_fields, *broken_rules]
    if problems or task is None or program is None or found is None:
        raise TenantError(sorted(problems, key=lambda problem: problem.line or 0))
    hours = task.budget.device_hours
    return Spec(
        program=program,
        match=found,
        description=task.description.strip(),
        objective=task.objective or found.template.objectives[0],
        priority=float(task.priority),
        budget_trials=task.budget.trials,
        budget_seconds=None if hours is None else hours * SECONDS_PER_HOUR,
        deadline=task.deadline,  # type: ignore[arg-type]  # its validator makes it a datetime
        stop_when=None if task.stop_when is None else float(next(iter(task.stop_when.values()))),
        include=tuple(task.candidates.include),
        exclude=tuple(task.candidates.exclude),
        accept_new=task.candidates.accept_new,
        validation_fraction=float(task.validation.fraction),
        validation_seed=task.validation.seed,
    )
