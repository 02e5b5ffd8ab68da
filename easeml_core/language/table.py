"""The template table as a whole: ease.ml's rows, and those of plug-ins (entry points `easeml.templates`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import overload

from easeml_core import extensions
from easeml_core.language.pattern import parse_pattern
from easeml_core.language.templates import BUILT_IN, CLASSIFICATION, REGRESSION, Template

_ID = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class Table(Sequence[Template]):
    """Rows from top to bottom. Plug-ins, which import this package, are loaded when it is first looked at."""

    @cached_property
    def _rows(self) -> tuple[Template, ...]:
        rows = list(BUILT_IN)
        for row in extensions.load(extensions.TEMPLATES, Template, wrong_with):
            rows.insert([other.id for other in rows].index(row.before), row)
        return tuple(rows)

    @overload
    def __getitem__(self, index: int) -> Template: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Template, ...]: ...
    def __getitem__(self, index: int | slice) -> Template | tuple[Template, ...]:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)


TEMPLATES: Sequence[Template] = Table()


def wrong_with(row: Template, others: Sequence[Template] = ()) -> list[str]:
    """What is wrong with a row of a plug-in, in words; `others` are rows of plug-ins that came before it."""
    from easeml_core.objectives import OBJECTIVES

    wrong = []
    ids = [other.id for other in (*BUILT_IN, *others)]
    if not _ID.fullmatch(row.id):
        wrong.append(f"the id {row.id!r} is not like `matrix-classification`")
    if row.id in ids:
        wrong.append(f"there is a row {row.id} already")
    for side, text in (("input", row.input), ("output", row.output)):
        try:
            parse_pattern(text)
        except ValueError as error:
            wrong.append(f"the {side} of {row.id} is {error}")
    unknown = [name for name in row.objectives if name not in OBJECTIVES]
    if unknown or not row.objectives:
        wrong.append(
            f"the objectives of {row.id} must be some of {', '.join(OBJECTIVES)}; got {row.objectives}"
        )
    if row.told_by_objective and (
        row.objectives not in (CLASSIFICATION, REGRESSION) or row.output != "{[Tensor[D]], []}"
    ):
        text = "needs the objectives of classification or of regression, and the output {[Tensor[D]], []}"
        wrong.append(f"{row.id} is told by the objective, and so {text}")
    if row.before not in ids:
        wrong.append(f"{row.id} stands before {row.before}, and there is no such row")
    if row.reads_like not in [other.id for other in BUILT_IN]:
        wrong.append(f"{row.id} must say which row of ease.ml it `reads_like`; got {row.reads_like!r}")
    return wrong
