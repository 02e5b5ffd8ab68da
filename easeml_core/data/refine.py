"""Reads and writes `refine.csv`: which examples to leave out, and which labels to correct.

Columns: `id`, `keep` (0 or 1), and optionally `label` (empty leaves it as it is); others mean nothing.
Examples that are not in it stay as they are.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from easeml_core.data.findings import Findings
from easeml_core.data.rows import read_rows
from easeml_core.data.text import open_text, plain
from easeml_core.errors import TenantError
from easeml_core.naming import REFINE_FILE

_COLUMNS = ("id", "keep", "label")
_FIX = "columns are id, keep and, if wanted, label, once each"


@dataclass(frozen=True, slots=True)
class Refinement:
    """What one row asks for."""

    row: int
    keep: bool
    label: str | None


def refinements_text(refinements: Mapping[str, Refinement]) -> str:
    """A `refine.csv` that says the same."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("id", "keep", "label"))
    for ident, wish in refinements.items():
        writer.writerow((ident, int(wish.keep), wish.label or ""))
    return out.getvalue()


def read_refinements(path: Path, findings: Findings) -> dict[str, Refinement]:
    """Refinements by example id; everything wrong with the file becomes a problem."""
    result: dict[str, Refinement] = {}
    try:
        with open_text(path, REFINE_FILE) as stream:
            first, above = stream.readline(), 1
            while first and not first.strip():
                first, above = stream.readline(), above + 1
            delimiter = max(",;\t", key=first.count)
            names = [
                plain(cell).lower()
                for cell in next(read_rows([first], delimiter, REFINE_FILE, above=above - 1))
            ]
            if not {"id", "keep"} <= set(names) or any(names.count(name) > 1 for name in _COLUMNS):
                findings.problem(REFINE_FILE, f"has the columns {', '.join(names) or 'none'}", fix=_FIX)
                return {}
            for row, cells in enumerate(read_rows(stream, delimiter, REFINE_FILE, above=above), 1):
                if not any(cell.strip() for cell in cells):
                    continue
                if len(cells) != len(names):
                    findings.row(REFINE_FILE, row, f"there must be {len(names)} cells")
                    continue
                values = dict(zip(names, cells, strict=True))
                ident, keep = plain(values["id"]), values["keep"].strip()
                if keep not in ("0", "1"):
                    findings.row(REFINE_FILE, row, f"keep must be 0 or 1; it is {keep[:20]!r}")
                elif not ident:
                    findings.row(REFINE_FILE, row, "the id is empty")
                elif ident in result:
                    findings.row(REFINE_FILE, row, f"the id {ident!r} is there twice")
                else:
                    result[ident] = Refinement(row, keep == "1", plain(values.get("label", "")) or None)
    except TenantError as error:
        findings.problems.extend(error.problems)
    return result
