"""Proposes the `task.yaml` that fits a folder of data (`easeml init`).

It looks through the readers of `easeml_core.data`, so what it proposes is what intake will read. It decodes
no image in full, and decides nothing: the tenant edits what it wrote.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path

from easeml_core import naming
from easeml_core.catalog import models_for
from easeml_core.errors import Problem, TenantError
from easeml_core.language import DataType, Program, Tensor, match
from easeml_core.service.data_sight import look_at
from easeml_core.service.sight import Sight

UNEVEN = 5.0  # largest over smallest class from which accuracy alone misleads

_NAME = 60  # characters of a class's name that are shown
_BUDGET = "{trials: 20, device_hours: 2}"


def propose_spec(data_dir: Path | str) -> str:
    """The text of a `task.yaml`, with comments, for the data in `data_dir` (or in its folder `data`).

    Raises `TenantError` where it cannot tell what the data is, with what it found and what it can read.
    """
    from easeml_core.data.findings import Findings
    from easeml_core.data.limits import Limits
    from easeml_core.data.tree import collect

    folder = Path(data_dir)
    if (folder / naming.DATA_DIR).is_dir():
        folder = folder / naming.DATA_DIR
    if not folder.is_dir():
        raise TenantError([Problem(str(data_dir), "is no folder", fix="name the folder that holds the data")])
    findings = Findings()
    with tempfile.TemporaryDirectory(prefix="easeml-init-") as scratch:
        tree = collect(folder, Path(scratch), Limits(), findings)
        findings.check()
        sight = look_at(tree, findings)
        findings.check()
    return _write(sight)


def _write(sight: Sight) -> str:
    """The YAML text. Whatever comes from the data is written as JSON text, which YAML reads as it is."""
    counts = Counter(sight.labels)
    outputs = len(counts) if sight.values is None else sight.values
    if sight.values is None and outputs < 2 and not sight.answers:
        text = f"all examples are of one class, {next(iter(counts), 'none')!r}; two or more are needed"
        raise TenantError([Problem(naming.DATA_DIR, text, fix="use a folder, or a label, per class")])
    links = ("next",) if sight.is_series else ()
    program = sight.program
    if program is None:
        program = Program(DataType((Tensor(sight.shape),), links), DataType((Tensor((outputs,)),)))
    objective = None if sight.values is None else "mse"
    row = match(program, objective).template
    if not models_for(row.id):
        text = f"asks for {row.workload} ({row.form}), for which no candidate can be trained yet"
        raise TenantError([Problem(naming.DATA_DIR, text)])
    objective, others = row.objectives[0], row.objectives[1:]
    hints = list(sight.hints)
    if sight.values is None and counts and max(counts.values()) >= UNEVEN * min(counts.values()):
        objective = "balanced_accuracy"
        others = tuple(name for name in row.objectives if name != objective)
        hints.append("some classes are rare, so every class counts the same in the objective")
    if sight.answers:
        about = sight.what
    elif sight.values is None:
        names = ", ".join(name[:_NAME] for name in sorted(counts)[:5]) + (" …" if outputs > 5 else "")
        about = f"{sight.what} in {outputs} classes: {names}"
    else:
        about = f"{sight.what}, {outputs} value{'s' if outputs > 1 else ''} to predict"
        hints.append(
            "if these numbers are names of classes, put their count in the output and accuracy below"
        )
    comments = "".join(f"# {_shown(hint)}\n" for hint in hints)
    return (
        "# Written by `easeml init` from what it saw in the data. Change what is wrong;\n"
        "# every field but `program` may be left out.\n"
        f"{comments}"
        f"program: |\n  {program}\n"
        f"description: {json.dumps(_shown(about), ensure_ascii=False)}\n"
        f"objective: {objective}  # or {', '.join(others)}\n"
        f"budget: {_BUDGET}  # no training goes beyond\n"
    )


def _shown(text: str) -> str:
    """`text` on one line, without what YAML takes for no character of a text."""
    return "".join(c if c.isprintable() else "�" for c in " ".join(text.split()))
