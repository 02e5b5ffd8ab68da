"""What readers find out beside the examples: problems, quarantined files, drops, conversions."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from easeml_core.errors import Problem, TenantError

# How many of a kind are named one by one; beyond that a count has to do.
NAMED = 20
KEPT = 1000


@dataclass
class Findings:
    """Collected while reading one upload.

    `problems` reject it; a quarantined example is left out and named, and too many of them reject the
    upload; dropped files are no data (leftovers, unknown types); `converted` says what was changed, and
    `earlier` the same of the data version before; `sizes` counts images by theirs.
    """

    problems: list[Problem] = field(default_factory=list)
    quarantined: list[dict[str, str]] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    converted: dict[str, Any] = field(default_factory=dict)
    sizes: Counter[str] = field(default_factory=Counter)
    earlier: dict[str, Any] = field(default_factory=dict)
    n_quarantined: int = 0
    _rows: defaultdict[tuple[str, str, str | None], list[int]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def problem(self, file: str, message: str, *, fix: str | None = None, line: int | None = None) -> None:
        """Something that rejects the upload."""
        self.problems.append(Problem(file, message, line=line, fix=fix))

    def row(self, file: str, row: int, message: str, *, fix: str | None = None) -> None:
        """Something wrong with a row that rejects the upload; rows with one message become one problem."""
        self._rows[file, message, fix].append(row)

    def quarantine(self, file: str, reason: str) -> None:
        """Leave one example out."""
        self.n_quarantined += 1
        if len(self.quarantined) < KEPT:
            self.quarantined.append({"file": file, "reason": reason})

    def drop(self, file: str) -> None:
        """Leave out a file that is no data."""
        if len(self.dropped) < KEPT:
            self.dropped.append(file)

    def count(self, conversion: str, number: int = 1) -> None:
        """Count one conversion of an example."""
        self.converted[conversion] = self.converted.get(conversion, 0) + number

    def check(self) -> None:
        """Raise `TenantError` when anything rejects the upload."""
        for (file, message, fix), rows in sorted(self._rows.items(), key=str):
            word = "row" if len(rows) == 1 else "rows"
            self.problems.append(Problem(file, f"{word} {listed(rows)}: {message}", fix=fix))
        self._rows.clear()
        if self.problems:
            raise TenantError(self.problems)

    def check_share(self, good: int, allowed: float) -> None:
        """Reject the upload when more than a share `allowed` of its examples is broken."""
        total = good + self.n_quarantined
        if not self.n_quarantined or self.n_quarantined <= allowed * total:
            return
        text = f"{self.n_quarantined} of {total} examples are broken; at most {allowed:.0%} may be"
        self.problem("data", text, fix="mend or remove those named here")
        for item in self.quarantined[:NAMED]:
            self.problem(item["file"], item["reason"])
        if self.n_quarantined > NAMED:
            self.problem("data", f"and {self.n_quarantined - NAMED} more broken examples")


def listed(items: list[Any]) -> str:
    """Names of the first few, and how many more there are."""
    text = ", ".join(map(str, items[:NAMED]))
    return text if len(items) <= NAMED else f"{text} and {len(items) - NAMED} more"
