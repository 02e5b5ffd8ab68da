"""Which examples of a task's folder are likely mislabelled, as rows of a `refine.csv`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from easeml_core import naming
from easeml_core.errors import Problem, TenantError

if TYPE_CHECKING:
    from easeml_core.data import Limits
    from easeml_core.data.suspects import Suspicion

COLUMNS = ("id", "keep", "label", "given", "likely", "margin")


def suspects_of(folder: Path, limits: Limits, *, most: int | None = None) -> Suspicion:
    """Stage `folder` (`task.yaml`, `data/`, perhaps `refine.csv`) as intake would, and judge its labels.

    Raises `TenantError` where it would be rejected, or is no classification.
    """
    from easeml_core.data import build_version, open_version
    from easeml_core.data.suspects import find_suspects
    from easeml_core.spec import load_spec

    try:
        spec = load_spec((folder / naming.SPEC_FILE).read_bytes())
    except FileNotFoundError:
        raise TenantError(
            [Problem(naming.SPEC_FILE, "there is no spec", fix="write one: easeml init")]
        ) from None
    name = naming.TaskName("local", "task")
    with tempfile.TemporaryDirectory(prefix="easeml-suspects-") as scratch:
        facts = build_version(folder, spec, parent=None, limits=limits, versions_dir=Path(scratch), name=name)
        if facts.classes is None:
            text = f"asks for {facts.task_kind}; only labels of a classification can be told to be wrong"
            raise TenantError([Problem(naming.SPEC_FILE, text, field="program")])
        version = open_version(naming.version_dir(Path(scratch), name, facts.digest))
        return find_suspects(version, most=most)


def rows(found: Suspicion, *, relabel: bool) -> list[tuple[str, ...]]:
    """A row of `COLUMNS` per suspect, worst first: to be switched off, or with `relabel` to be corrected."""
    return [
        (
            suspect.id,
            "1" if relabel else "0",
            suspect.likely if relabel else "",
            suspect.given,
            suspect.likely,
            f"{suspect.margin:.3f}",
        )
        for suspect in found.suspects
    ]
