"""Error classes of ease.ml, named for the reaction they call for.

Raise the class whose *reaction* you want; the caller never has to read the text to know what to do.

==================  =========================================  ==========================================
class               raised when                                reaction
==================  =========================================  ==========================================
`TenantError`       the tenant's spec, data or request is bad  write every problem to the bucket, go on
`OperatorError`     the installation is misconfigured          stop this command, tell the operator
`TemporaryError`    a server is away, a lock is taken          try again later, nothing was changed
`FencedError`       a late attempt or expired lease writes     drop the write, stop the writer
`FallbackError`     a policy cannot decide on this request     use the next policy of the ladder, log it
==================  =========================================  ==========================================
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass

# Problems of one kind that are told one by one.
NAMED = 20
_PARTICULAR = re.compile(r"'[^']*'|\"[^\"]*\"|\d+")


class EasemlError(Exception):
    """Base of every error that ease.ml raises on purpose."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with what a tenant gave us, in words the tenant can act on.

    `file` is relative to the task's folder (`task.yaml`, `data/cat/7.png`); `line` counts from 1;
    `field` is a dotted path into the spec (`budget.trials`). `message` says what was allowed and what
    came; `fix` says what to do. Only `file` and `message` are always there.
    """

    file: str
    message: str
    line: int | None = None
    field: str | None = None
    fix: str | None = None

    def __str__(self) -> str:
        where = self.file
        if self.line is not None:
            where += f":{self.line}"
        if self.field is not None:
            where += f": {self.field}"
        text = f"{where}: {self.message}"
        return f"{text} → {self.fix}" if self.fix else text

    def as_dict(self) -> dict[str, str | int]:
        """The fields that are set, as JSON-ready values (what `status.json` holds)."""
        return {key: value for key, value in asdict(self).items() if value is not None}


class TenantError(EasemlError):
    """The tenant's input is bad; carries *all* problems found, never only the first.

    Of a kind that comes very often the first are named and the others counted. Raised by spec, data and
    bucket code; caught by intake and inference, which write the problems to the tenant's folder. Other
    tenants are not touched.
    """

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = capped(problems)
        if not self.problems:
            raise ValueError("a TenantError needs at least one problem")
        super().__init__("\n".join(str(problem) for problem in self.problems))


def kind_of(text: str) -> str:
    """What texts that differ in names and numbers only have in common.

    >>> kind_of("column 'a' holds '1,5'")
    'column … holds …'
    """
    return _PARTICULAR.sub("…", text)


def capped(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """`problems` in their order; of those that differ in names and numbers only, `NAMED` and a count.

    >>> [problem.message for problem in capped(Problem("t.csv", f"row {i} is empty") for i in range(22))][19:]
    ['row 19 is empty', 'and 2 more like this one']
    """
    seen: Counter[tuple[str, ...]] = Counter()
    kinds = []
    kept: list[Problem] = []
    for problem in problems:
        kind = tuple(map(kind_of, (problem.message, problem.field or "", problem.fix or "")))
        seen[kind] += 1
        if seen[kind] <= NAMED:
            kept.append(problem)
            kinds.append(kind)
    for kind, count in seen.items():
        if count > NAMED:
            last = len(kinds) - kinds[::-1].index(kind)
            text = f"and {count - NAMED:,} more like this one"
            kept.insert(last, Problem(kept[last - 1].file, text, field=kept[last - 1].field))
            kinds.insert(last, kind)
    return tuple(kept)


class OperatorError(EasemlError):
    """The installation is misconfigured (a setting, a missing server, a wrong version)."""


class TemporaryError(EasemlError):
    """Something is away for now; the same call may work later and nothing was changed."""


class FencedError(EasemlError):
    """The writer no longer holds what it writes to (late attempt, expired lease); drop the write."""


class FallbackError(EasemlError):
    """A policy cannot decide on this request; the ladder goes on with the next policy."""
