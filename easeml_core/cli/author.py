"""What a tenant does before uploading: have a spec written (`init`) and everything checked (`validate`)."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from easeml_core import naming
from easeml_core.cli.options import FolderArgument, JsonOption, settings_for
from easeml_core.cli.output import Code, console, emit, fail, problems_text
from easeml_core.errors import Problem, TenantError

if TYPE_CHECKING:
    from easeml_core.data import VersionFacts

app = typer.Typer()
PANEL = "Tenant: before uploading"
SHOWN = 20  # near duplicates that are named one by one


@app.command(rich_help_panel=PANEL, epilog="Example: easeml validate ./digits")
def validate(folder: FolderArgument, as_json: JsonOption = False) -> None:
    """Check a task's folder, spec and data, as the service would; print every problem at once."""
    problems, facts = check(folder)
    answer: dict[str, Any] = {
        "folder": str(folder),
        "valid": not problems,
        "problems": [problem.as_dict() for problem in problems],
        "data": None if facts is None else facts.model_dump(mode="json"),
    }
    emit(answer, as_json, lambda _: problems_text(problems) if facts is None else _summary(facts))
    if problems:
        raise typer.Exit(Code.PROBLEM)


@app.command(rich_help_panel=PANEL, epilog="Example: easeml init ./digits && easeml validate ./digits")
def init(
    folder: FolderArgument,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the task.yaml that is there.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Look at FOLDER/data and write the task.yaml that fits it."""
    from easeml_core.service.inspect_data import propose_spec

    target = folder / naming.SPEC_FILE
    if target.exists() and not force:
        fail(Code.PROBLEM, f"{target} is there already; --force overwrites it", as_json)
    if target.exists() and not target.is_file():
        fail(Code.PROBLEM, f"{target} is not a regular file; move it away first", as_json)
    text = propose_spec(folder)
    target.write_text(text, encoding="utf-8")
    answer = {"file": str(target), "spec": text}
    emit(answer, as_json, lambda _: f"{text}\nwritten to {target}; now check it: easeml validate {folder}")


def check(folder: Path) -> tuple[list[Problem], VersionFacts | None]:
    """Every problem of a task's folder, and what its data is when there is none.

    The data is staged in a temporary folder by the service's own code, so the verdict is the same.
    """
    from easeml_core.cli.upload import task_files
    from easeml_core.data import Limits, build_version
    from easeml_core.spec import load_spec

    problems: list[Problem] = []
    spec = None
    try:
        task_files(folder)
    except TenantError as error:
        problems += error.problems
    path = folder / naming.SPEC_FILE
    if path.is_file():
        try:
            spec = load_spec(path.read_bytes())
        except TenantError as error:
            problems += error.problems
    facts = None
    if spec is not None and (folder / naming.DATA_DIR).is_dir():
        with tempfile.TemporaryDirectory(prefix="easeml-validate-") as scratch:
            try:
                with console(stderr=True).status("reading the data") as told:
                    facts = build_version(
                        folder,
                        spec,
                        parent=None,
                        limits=Limits.of(settings_for()),
                        versions_dir=Path(scratch),
                        name=naming.TaskName("local", "task"),
                        progress=lambda count: told.update(f"{count:,} examples read"),
                    )
            except TenantError as error:
                known = {problem.file for problem in problems}
                problems += [problem for problem in error.problems if problem.file not in known]
    return problems, None if problems else facts


def _summary(facts: VersionFacts) -> str:
    shape = " × ".join(map(str, facts.shape))
    lines = [
        f"valid: {facts.n} examples of {shape} ({facts.kind}, {facts.task_kind}); "
        f"{facts.n_train} to train on, {facts.n_val} to validate on"
    ]
    if facts.classes:
        lines.append(f"classes: {', '.join(facts.classes)}")
    if facts.n_quarantined:
        lines.append(f"left out as broken: {facts.n_quarantined}")
        lines += [f"  {item['file']}: {item['reason']}" for item in facts.quarantined]
    if facts.dropped:
        lines.append(f"left out as no data: {', '.join(facts.dropped)}")
    lines += [f"warning: {warning}" for warning in facts.warnings]
    lines += [
        f"warning: {held} (validation) is nearly the same as {seen} (train)"
        for held, seen in facts.near_duplicates[:SHOWN]
    ]
    return "\n".join(lines)
