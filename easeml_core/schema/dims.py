"""How the dimensions of a module's tensor may stand for those of a data set's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from easeml_core.schema.model import WILDCARDS, Dim, wildcard

Binding = dict[str, Dim]


def bindings(module: Sequence[Dim], data: Sequence[Dim]) -> list[Binding]:
    """Every way in which `module` can stand for `data`, as what each named dimension of it then is.

    Both lists may hold one wildcard, which is written out as often as needed, so that the lists become
    equally long; all repeats of one stand for the same size. A skipped dimension is not bound. No way: an
    empty list. Bindings that bind more than another one does to the same are left out.

    >>> bindings(["a", "b*"], [16, 32, 32])
    [{'a': 16, 'b': 32}]
    """
    ours, theirs = _parsed(tuple(module)), _parsed(tuple(data))
    found: list[Binding] = []
    last = len(module) + 1 if theirs.high is None else theirs.high
    for times in range(theirs.low, last + 1):
        sizes = theirs.written_out(times)
        # The lists must become equally long, which says how often the module's wildcard stands there.
        repeats = len(sizes) - ours.fixed
        if repeats < ours.low or (ours.high is not None and repeats > ours.high):
            continue
        binding = _bind(ours.written_out(repeats), sizes)
        if binding is not None and binding not in found:
            found.append(binding)
    if len(found) < 2:
        return found
    return [
        binding
        for binding in found
        if not any(other is not binding and other.items() < binding.items() for other in found)
    ]


@dataclass(frozen=True, slots=True)
class _Parsed:
    """Dimensions before and after a wildcard, which stands there `low` to `high` times; 0 without one."""

    before: tuple[Dim, ...]
    repeated: Dim
    low: int
    high: int | None
    after: tuple[Dim, ...]

    @property
    def fixed(self) -> int:
        return len(self.before) + len(self.after)

    def written_out(self, times: int) -> tuple[Dim, ...]:
        return (*self.before, *(self.repeated,) * times, *self.after)


@lru_cache(maxsize=4096)
def _parsed(dims: tuple[Dim, ...]) -> _Parsed:
    for place, dim in enumerate(dims):
        if isinstance(dim, str) and (ending := wildcard(dim)):
            low, high = WILDCARDS[ending]
            return _Parsed(dims[:place], dim[:-1], low, high, dims[place + 1 :])
    return _Parsed(dims, 1, 0, 0, ())


def _bind(module: Sequence[Dim], data: Sequence[Dim]) -> Binding | None:
    binding: Binding = {}
    for ours, theirs in zip(module, data, strict=True):
        bound = ours if isinstance(ours, int) else binding.setdefault(ours, theirs)
        if bound != theirs:
            return None
    return binding
