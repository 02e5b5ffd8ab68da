"""Are the constants of the default policy fitted to the tables they are shown on? Leave one table out.

What the policy cannot learn inside a history is a constant. Each is varied alone; for each table the value is
taken that is best on all *other* tables (least mean log of the area, the paper's protocol), and the table is
measured with it. A constant that was fitted to a table would do worse there once the table is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from easeml_core.allocator import experts, template


def _heavy(name: str) -> Callable[[Any], AbstractContextManager[object]]:
    return lambda value: patch.object(experts, "HEAVY", replace(experts.HEAVY, **{name: value}))


# How to set a constant, and the values to try; the first one is in use.
GRID: dict[str, tuple[Callable[[Any], AbstractContextManager[object]], tuple[Any, ...]]] = {
    "HEAVY.honest": (_heavy("honest"), (experts.HEAVY.honest, 0.4, 0.8, 1.0)),
    "HEAVY.bandwidths": (_heavy("bandwidths"), (experts.HEAVY.bandwidths, (0.25, 0.5, 1.0), (0.6, 0.8, 1.0))),
    "CLEARLY": (lambda value: patch.object(experts, "CLEARLY", value), (experts.CLEARLY, 0.0, 0.1, 1.0)),
    "AFRESH": (lambda value: patch.object(template, "AFRESH", value), (template.AFRESH, 0.005, 0.1)),
}


def left_out(area: Callable[[str], float], tables: list[str]) -> dict[str, Any]:
    """By constant and table: the value that the other tables choose, and the area with it ÷ with ours.

    `area` measures the default policy on a table, by name.
    """
    found: dict[str, Any] = {}
    ours = {table: area(table) for table in tables}
    for constant, (set_to, values) in GRID.items():
        areas: dict[Any, Mapping[str, float]] = {values[0]: ours}
        for value in values[1:]:
            with set_to(value):
                areas[value] = {table: area(table) for table in tables}
        found[constant] = {
            table: {
                "chosen": str(chosen := _best(areas, [other for other in tables if other != table])),
                "area ÷ ours": areas[chosen][table] / ours[table],
            }
            for table in tables
        }
    return found


def _best(areas: Mapping[Any, Mapping[str, float]], tables: list[str]) -> Any:
    return min(areas, key=lambda value: sum(math.log(areas[value][table]) for table in tables))
