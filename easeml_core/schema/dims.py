"""How the dimensions of a module's tensor may stand for those of a data set's."""

from __future__ import annotations

from collections.abc import Sequence

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
    found: list[Binding] = []
    for repeats in _counts(module, len(data) + 1):
        ours = _written_out(module, repeats)
        for others in _counts(data, len(module) + 1):
            theirs = _written_out(data, others)
            binding = _bind(ours, theirs) if len(ours) == len(theirs) else None
            if binding is not None and binding not in found:
                found.append(binding)
    return [
        binding
        for binding in found
        if not any(other is not binding and other.items() < binding.items() for other in found)
    ]


def _counts(dims: Sequence[Dim], most: int) -> range:
    low, high = next((WILDCARDS[w] for w in map(wildcard, dims) if w), (1, 1))
    return range(low, (most if high is None else high) + 1)


def _written_out(dims: Sequence[Dim], repeats: int) -> list[Dim]:
    written: list[Dim] = []
    for dim in dims:
        if wildcard(dim):
            assert isinstance(dim, str)
            written += [dim[:-1]] * repeats
        else:
            written.append(dim)
    return written


def _bind(module: Sequence[Dim], data: Sequence[Dim]) -> Binding | None:
    binding: Binding = {}
    for ours, theirs in zip(module, data, strict=True):
        bound = ours if isinstance(ours, int) else binding.setdefault(ours, theirs)
        if bound != theirs:
            return None
    return binding
