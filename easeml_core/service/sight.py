"""What was seen of a folder of data, for the `task.yaml` that is proposed for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from easeml_core.language import Program

MANY_VALUES = 20  # more different whole numbers than this may be a quantity rather than classes …
FEW_EACH = 10  # … and are, where each occurs less often than this on average
MOSTLY = 0.9  # of the labels of an amount are numbers


@dataclass(frozen=True, slots=True)
class Sight:
    """What was seen: `shape` of one input (of one step, for a series), and `labels`, one per example seen,
    as text; `values` is how many numbers are to be predicted, None where the labels are classes. `program`
    is there where there is more to say than that."""

    what: str
    shape: tuple[int, ...]
    labels: Sequence[str]
    values: int | None = None
    is_series: bool = False
    hints: tuple[str, ...] = ()
    program: Program | None = None

    @property
    def answers(self) -> bool:
        """Whether examples are answered with images, series or objects."""
        return self.program is not None and not self.labels and self.values is None


def is_quantity(labels: Sequence[str]) -> bool:
    """Whether labels are amounts rather than names of classes; a few may be no numbers, such as `NA`: then
    that is a fault of theirs."""
    from easeml_core.data.text import number

    numbers = [number(label) for label in labels]
    known = [value for value in numbers if value is not None]
    if len(known) < MOSTLY * len(numbers):
        return False
    if not all(value.is_integer() for value in known):
        return True
    distinct = len(set(known))
    return distinct > MANY_VALUES and len(known) < FEW_EACH * distinct
