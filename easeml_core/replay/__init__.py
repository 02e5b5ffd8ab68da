"""Replays allocation policies over tables of known qualities and costs, in simulated time."""

from easeml_core.replay.simulate import Run, Trace, replay
from easeml_core.replay.table import Table, read_table

__all__ = ["Run", "Table", "Trace", "read_table", "replay"]
