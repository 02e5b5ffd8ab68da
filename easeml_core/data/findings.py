"""What readers find out beside the examples: problems, quarantined files, drops, conversions."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from easeml_core.errors import Problem, TenantError, kind_of

# How many of a kind are named one by one; beyond that a count has to do.
NAMED = 20
KEPT = 1000
# Where in a file an example is: `#row`, `:line` or `[position]`.
_PLACE = re.compile(r"[#:]\d+$|\[\d+\]$")


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
    _rows: defaultdict[tuple[str, str, str | None, str], list[int]] = field(
        default_factory=lambda: defaultdict(list)
    )

    @property
    def wrong(self) -> bool:
        """Whether anything rejects the upload, so that of what it has there may be less than was meant."""
        return bool(self.problems or self._rows)

    def problem(self, file: str, message: str, *, fix: str | None = None, line: int | None = None) -> None:
        """Something that rejects the upload."""
        self.problems.append(Problem(file, message, line=line, fix=fix))

    def row(self, file: str, row: int, message: str, *, fix: str | None = None, unit: str = "row") -> None:
        """Something wrong with a row (or line: `unit`) that rejects the upload; rows with one message become
        one problem."""
        self._rows[file, message, fix, unit].append(row)

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
        for (file, message, fix, unit), rows in sorted(self._rows.items(), key=lambda it: (it[0][0], it[1])):
            word = unit if len(rows) == 1 else f"{unit}s"
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
        alike: dict[tuple[str, str], list[dict[str, str]]] = {}
        for item in self.quarantined:
            alike.setdefault((source_of(item["file"]), kind_of(item["reason"])), []).append(item)
        named = 0
        for (source, _), (first, *others) in list(alike.items())[:NAMED]:
            places = [item["file"].removeprefix(source) for item in others]
            self.problem(first["file"], first["reason"] + (f"; so {listed(places)}" if places else ""))
            named += 1 + len(others)
        if self.n_quarantined > named:
            self.problem("data", f"and {self.n_quarantined - named} more broken examples")


def source_of(file: str) -> str:
    """The file of an example, without where in it the example is.

    >>> source_of("data/t.csv#12"), source_of("data/x.npz[3]"), source_of("data/1.png")
    ('data/t.csv', 'data/x.npz', 'data/1.png')
    """
    return _PLACE.sub("", file)


def listed(items: list[Any]) -> str:
    """Names of the first few, and how many more there are."""
    text = ", ".join(map(str, items[:NAMED]))
    return text if len(items) <= NAMED else f"{text} and {len(items) - NAMED} more"
