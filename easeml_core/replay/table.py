"""A table of what each model reaches on each task and what it costs there.

Notation: N tasks, K models; `quality` `(N, K)` in [0, 1], NaN where unknown; `cost` `(N, K)` in seconds
(or any unit, the same within a task), positive and finite where the quality is known.
"""

from __future__ import annotations

import csv
import logging
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from easeml_core.allocator.types import Array
from easeml_core.errors import Problem, TenantError

if TYPE_CHECKING:
    from _csv import Reader

log = logging.getLogger(__name__)

COLUMNS = ("task", "model", "accuracy", "cost_seconds")
ACCURACIES = (0.0, 1.0)
COSTS = (1e-9, 1e12)  # what a cost can be, so that no sum or ratio of costs overflows


@dataclass(frozen=True, eq=False)
class Table:
    """Qualities and costs by task (rows) and model (columns); validated."""

    tasks: tuple[str, ...]
    models: tuple[str, ...]
    quality: Array
    cost: Array

    def __post_init__(self) -> None:
        shape = (len(self.tasks), len(self.models))
        if self.quality.shape != shape or self.cost.shape != shape:
            raise ValueError(f"a table of {shape} has shapes {self.quality.shape} and {self.cost.shape}")
        known = ~np.isnan(self.quality)
        if not ((self.quality[known] >= 0) & (self.quality[known] <= 1)).all():
            raise ValueError("qualities must be in [0, 1]")
        if not (np.isfinite(self.cost[known]) & (self.cost[known] > 0)).all():
            raise ValueError("costs must be finite and positive")

    def rows(self, tasks: Sequence[int]) -> Table:
        """The table of some tasks only, by position."""
        index = np.asarray(tasks, dtype=np.int64)
        return Table(tuple(self.tasks[i] for i in index), self.models, self.quality[index], self.cost[index])

    def without(self, models: Iterable[str]) -> Table:
        """The table without some models, by name."""
        dropped = set(models)
        keep = [j for j, model in enumerate(self.models) if model not in dropped]
        names = tuple(self.models[j] for j in keep)
        return Table(self.tasks, names, self.quality[:, keep], self.cost[:, keep])

    def with_cost(self, cost: Array | float) -> Table:
        """The same qualities at other costs, `(N, K)` or the same for all cells."""
        return Table(self.tasks, self.models, self.quality, np.broadcast_to(cost, self.quality.shape).copy())

    def with_relative_costs(self) -> Table:
        """The same with the costs of each task divided by their mean over its known cells.

        For tables whose costs compare only within a task: other machines, or units, for other tasks. The
        paper does so with measured times (ease.ml, section 1.9).
        """
        mean = np.nanmean(np.where(np.isnan(self.quality), np.nan, self.cost), axis=1, keepdims=True)
        return self.with_cost(self.cost / mean)

    @property
    def total_cost(self) -> float:
        """Summed cost of all cells whose quality is known."""
        return float(self.cost[~np.isnan(self.quality)].sum())

    @property
    def best(self) -> Array:
        """Best quality of each task, shape `(N,)`."""
        best: Array = np.nanmax(self.quality, axis=1)
        return best


def read_table(path: Path, seed: int = 0) -> Table:
    """Read tidy CSV `task,model,accuracy,cost_seconds`; tasks and models keep the file's order.

    A cell may be missing: no row, or an empty accuracy. An empty cost, or a table without that column: drawn
    from U(0, 1] by `seed` and the cell, as the paper did for tables without costs. Raises TenantError with
    all problems, each with its line.
    """
    cells = _Cells(path.name)
    try:
        # utf-8-sig: spreadsheets write a byte order mark.
        with path.open(newline="", encoding="utf-8-sig") as stream:
            cells.read(csv.reader(stream))
    except (UnicodeDecodeError, csv.Error) as problem:
        cells.problem(f"this is not CSV in UTF-8: {problem}")
    if not cells.problems and not cells.known:
        cells.problem("there is no cell with an accuracy")
    if cells.problems:
        raise TenantError(cells.problems)
    return _table(cells, seed)


@dataclass
class _Cells:
    """What a file holds: accuracy and cost (NaN: absent) by task and model, and all that is wrong with it."""

    file: str
    known: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    line_of: dict[tuple[str, str], int] = field(default_factory=dict)
    above: list[tuple[int, str]] = field(default_factory=list)  # line and text of accuracies above 1
    problems: list[Problem] = field(default_factory=list)

    def problem(self, message: str, line: int | None = None, name: str | None = None, fix: str = "") -> None:
        """Note what is wrong with a cell or with all of the file."""
        self.problems.append(Problem(self.file, message, line, name, fix or None))

    def read(self, rows: Reader) -> None:
        """Take every row; `rows.line_num` is its (last) line."""
        names = [name.strip() for name in next(rows, [])]
        wrong = [name for name in names if name not in COLUMNS] + [n for n in COLUMNS[:3] if n not in names]
        if wrong or len(set(names)) < len(names):
            got = ",".join(names) or "an empty file"
            fix = "separate columns by commas" if len(names) == 1 and {";", "\t"} & set(names[0]) else ""
            self.problem(
                f"columns must be {','.join(COLUMNS)} (the last may be absent); got {got}", 1, fix=fix
            )
            return
        for row in rows:
            if row and len(row) != len(names):
                self.problem(f"has {len(row)} fields, the first line {len(names)}", rows.line_num)
            elif row:
                values = [value.strip() for value in row]
                self._cell(rows.line_num, dict(zip(names, values, strict=True)))
        if self.above:  # one mistake, made all over the table: percent
            (line, text), more = self.above[0], len(self.above) - 1
            got = f"{text!r}, and {more:,} more above 1" if more else repr(text)
            self._no_number(line, "accuracy", *ACCURACIES, got, "as a share: 93 % is 0.93")
        self.problems.sort(key=lambda problem: problem.line or 0)

    def _cell(self, line: int, row: dict[str, str]) -> None:
        task, model = row["task"], row["model"]
        for name in ("task", "model"):
            if not row[name]:
                self.problem("is empty", line, name)
        accuracy = self._number(line, row, "accuracy", *ACCURACIES, "")
        cost = self._number(line, row, "cost_seconds", *COSTS, "leave it empty where it is not known")
        first = self.line_of.setdefault((task, model), line)
        if first != line:
            self.problem(f"{model} on {task} is there twice, first on line {first}", line)
        elif not math.isnan(accuracy):
            self.known[task, model] = accuracy, cost

    def _number(self, line: int, row: dict[str, str], name: str, low: float, high: float, fix: str) -> float:
        """The number in a column, NaN where it is absent or not as it must be."""
        text = row.get(name, "")
        if not text:
            return math.nan
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if low <= value <= high:
            return value
        if name == "accuracy" and 1 < value <= 100:
            self.above.append((line, text))
        else:  # also NaN
            self._no_number(line, name, low, high, repr(text), fix)
        return math.nan

    def _no_number(self, line: int, name: str, low: float, high: float, got: str, fix: str) -> None:
        self.problem(f"must be a number from {low:g} to {high:g}, or empty; got {got}", line, name, fix)


def _table(cells: _Cells, seed: int) -> Table:
    tasks = {task: i for i, task in enumerate(dict.fromkeys(task for task, _ in cells.known))}
    models = {model: j for j, model in enumerate(dict.fromkeys(model for _, model in cells.known))}
    # From (0, 1]: a cost of 0 would make its arm free.
    cost: Array = 1.0 - np.random.default_rng(seed).random((len(tasks), len(models)))
    quality: Array = np.full_like(cost, np.nan)
    drawn = 0
    for (task, model), (value, seconds) in cells.known.items():
        at = tasks[task], models[model]
        quality[at] = value
        if math.isnan(seconds):
            drawn += 1
        else:
            cost[at] = seconds
    if 0 < drawn < len(cells.known):
        others = float(np.median([seconds for _, seconds in cells.known.values() if not math.isnan(seconds)]))
        log.warning(
            "%s: %d of %d costs are absent: drawn from U(0, 1], beside a median of %.3g of the others",
            *(cells.file, drawn, len(cells.known), others),
        )
    return Table(tuple(tasks), tuple(models), quality, cost)
