"""A table of what each model reaches on each task and what it costs there.

Notation: N tasks, K models; `quality` `(N, K)` in [0, 1], NaN where unknown; `cost` `(N, K)` in seconds
(or any unit, the same within a task), positive and finite where the quality is known.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from easeml_core.allocator.types import Array

COLUMNS = ("task", "model", "accuracy", "cost_seconds")


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

    Missing cells are allowed. An empty cost is drawn from U(0, 1) by `seed` and the cell, as the paper did
    for tables without costs. Raises ValueError naming the line of the first problem.
    """
    with path.open(newline="", encoding="utf-8") as stream:
        reader = csv.DictReader(stream)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise ValueError(f"{path.name}: columns must be {','.join(COLUMNS)}; got {reader.fieldnames}")
        cells: dict[tuple[str, str], tuple[float, float]] = {}
        for line, row in enumerate(reader, start=2):
            key = (row["task"], row["model"])
            try:
                cell = (
                    float(row["accuracy"]),
                    float(row["cost_seconds"]) if row["cost_seconds"] else math.nan,
                )
            except (TypeError, ValueError) as problem:
                raise ValueError(f"{path.name}:{line}: {problem}") from problem
            if key in cells:
                raise ValueError(f"{path.name}:{line}: {key[1]} on {key[0]} is there twice")
            cells[key] = cell
    tasks = tuple(dict.fromkeys(task for task, _ in cells))
    models = tuple(dict.fromkeys(model for _, model in cells))
    # From (0, 1]: a cost of 0 would make its arm free.
    cost: Array = 1.0 - np.random.default_rng(seed).random((len(tasks), len(models)))
    quality: Array = np.full_like(cost, np.nan)
    for (task, model), (value, seconds) in cells.items():
        i, j = tasks.index(task), models.index(model)
        quality[i, j] = value
        if not math.isnan(seconds):
            cost[i, j] = seconds
    return Table(tasks, models, quality, cost)
