"""What installed packages add to ease.ml, by entry points (`docs/language.md`, Plug-ins).

A faulty plug-in is named in one message and left out; everything else goes on. What was loaded is kept for
the life of the process: installing a package takes effect in the next one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

TEMPLATES = "easeml.templates"
CANDIDATES = "easeml.candidates"

log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Fault:
    """A plug-in that was left out, and why."""

    group: str
    name: str
    package: str
    reason: str

    def __str__(self) -> str:
        return f"plug-in {self.name} ({self.group}) of {self.package} is left out: {self.reason}"


_faults: dict[tuple[str, str, str], Fault] = {}


def faults() -> tuple[Fault, ...]:
    """The plug-ins that were left out so far; each was logged once, as a warning."""
    return tuple(_faults.values())


def load(group: str, kind: type[T], check: Callable[[T, Sequence[T]], Sequence[str]]) -> tuple[T, ...]:
    """What the entry points of `group` give, in order of their names: one object of `kind`, or several.

    `check` says what is wrong with an object, given those that were taken before it. One wrong object leaves
    out its whole entry point.
    """
    taken: list[T] = []
    for point in sorted(entry_points(group=group), key=lambda p: (p.name, p.value)):
        try:
            given = point.load()
        except Exception as error:  # whatever a stranger's module does
            _leave_out(point, f"{type(error).__name__}: {error}")
            continue
        objects = [given] if isinstance(given, kind) else given
        if not isinstance(objects, list | tuple) or not all(isinstance(held, kind) for held in objects):
            _leave_out(point, f"{point.value} is no {kind.__name__}, or list of them; it is {given!r:.80}")
            continue
        wrong: list[str] = []
        for number, held in enumerate(objects):
            try:
                wrong += check(held, [*taken, *objects[:number]])
            except Exception as error:
                wrong.append(f"{type(error).__name__}: {error}")
        if wrong:
            _leave_out(point, "; ".join(wrong))
        else:
            taken += objects
    return tuple(taken)


def _leave_out(point: EntryPoint, reason: str) -> None:
    package = point.dist.name if point.dist is not None else "an unknown package"
    fault = Fault(point.group, point.name, package, " ".join(reason.split()))  # on one line
    if _faults.setdefault((point.group, point.name, package), fault) is fault:
        log.warning("%s", fault)
