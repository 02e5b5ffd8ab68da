"""Takes examples one by one, checks them, and puts their values on disk; labels and ids stay in memory."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from easeml_core.data.findings import Findings
from easeml_core.data.forms import Example, Form
from easeml_core.data.npy import NpyWriter

INPUTS = "inputs.npy"
VALUES = "values.npy"
OFFSETS = "offsets.npy"
_SAMPLE = 1_000_000


@dataclass
class Staged:
    """All examples that could be used, in order. `hashes` are SHA-256 over shape, type and values."""

    ids: list[str] = field(default_factory=list)
    hashes: list[str] = field(default_factory=list)
    labels: list[str | None] = field(default_factory=list)
    targets: list[tuple[float, ...] | None] = field(default_factory=list)
    splits: list[str | None] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    low: float = float("inf")
    high: float = float("-inf")
    dynamic_range: float = 1.0

    def __len__(self) -> int:
        return len(self.ids)


def stage(examples: Iterable[Example], form: Form, dtype: str, folder: Path, findings: Findings) -> Staged:
    """Write the values of `examples` under `folder`: INPUTS, or VALUES and OFFSETS for series.

    An example of a wrong shape or with a value that is not finite is quarantined; an id that comes twice
    is a problem.
    """
    staged = Staged()
    seen: set[str] = set()
    spread = _Spread()
    with ExitStack() as stack:
        name, row = (VALUES, form.shape) if form.kind == "series" else (INPUTS, form.shape)
        writer = stack.enter_context(NpyWriter(folder / name, dtype, row))
        for example in examples:
            value = _checked(example, form, dtype, findings)
            if value is None:
                continue
            if example.target is not None and not finite(example.target):
                text = "the value to predict is too large for 32 bits; a finite number is needed"
                _reject(example, text, findings)
                continue
            if example.id in seen:
                text = f"the id {example.id!r} is given twice"
                findings.problem(example.file, text, fix="make the ids differ")
                continue
            seen.add(example.id)
            writer.append(value if form.kind == "series" else value[None])
            spread.add(value)
            staged.ids.append(example.id)
            lead = f"{value.dtype.str}{value.shape}".encode()
            staged.hashes.append(hashlib.sha256(lead + value.tobytes()).hexdigest())
            staged.labels.append(example.label)
            staged.targets.append(example.target)
            staged.splits.append(example.split)
            staged.lengths.append(len(value) if form.kind == "series" else 1)
        if form.kind == "series":
            offsets = np.concatenate([[0], np.cumsum(staged.lengths, dtype=np.int64)]).astype(np.int64)
            with NpyWriter(folder / OFFSETS, "int64", ()) as out:
                out.append(offsets)
    staged.low, staged.high, staged.dynamic_range = spread.low, spread.high, spread.dynamic_range()
    return staged


def _checked(example: Example, form: Form, dtype: str, findings: Findings) -> npt.NDArray[Any] | None:
    value = example.value
    if form.kind == "series":
        fits = value.ndim == 2 and value.shape[1:] == form.shape and len(value) > 0
    else:
        fits = value.shape == form.shape
    if not fits:
        reason = "it has no values" if value.size == 0 else f"its shape is {value.shape}, not {form}"
        findings.quarantine(example.file, reason)
        return None
    if dtype == "uint8" and not is_byte(value):
        _reject(example, "beside 8-bit images, values must be whole numbers from 0 to 255", findings)
        return None
    with np.errstate(over="ignore"):
        value = np.ascontiguousarray(value, dtype=dtype)
    if value.dtype.kind == "f" and not np.isfinite(value).all():
        findings.quarantine(example.file, "it has a value that is not a finite number")
        return None
    return value


def is_byte(value: npt.NDArray[Any]) -> bool:
    """Whether 8 bits hold all of `value` (any shape) without a change."""
    if value.dtype in (np.dtype(np.uint8), np.dtype(bool)):
        return True
    return bool(((value >= 0) & (value <= 255) & (value == np.floor(value))).all())


def finite(values: npt.ArrayLike) -> bool:
    """Whether all `values` are finite as float32, the type in which targets are stored."""
    with np.errstate(over="ignore"):
        return bool(np.isfinite(np.asarray(values, dtype=np.float64).astype(np.float32)).all())


def _reject(example: Example, text: str, findings: Findings) -> None:
    # Readers of rows write where one is as `file:row` or `file[row]`.
    place = re.fullmatch(r"(.*)(?::(\d+)|\[(\d+)\])", example.file, re.DOTALL)
    if place is None:
        findings.problem(example.file, text)
    else:
        findings.row(place[1], int(place[2] or place[3]), text)


class _Spread:
    """Lowest and highest value, and how far the magnitudes lie apart, from a bounded sample."""

    def __init__(self) -> None:
        self.low, self.high = float("inf"), float("-inf")
        self._sample: list[npt.NDArray[np.float32]] = []
        self._kept = 0
        self._stride = 1
        self._seen = 0

    def add(self, value: npt.NDArray[Any]) -> None:
        self.low = min(self.low, float(value.min()))
        self.high = max(self.high, float(value.max()))
        self._seen += 1
        if self._seen % self._stride:
            return
        flat = value.reshape(-1)
        part = np.abs(flat[:: max(1, flat.size // 4096)].astype(np.float32))
        self._sample.append(part)
        self._kept += part.size
        if self._kept > _SAMPLE:
            # Keep every second example from now on, and of those kept so far.
            self._sample = self._sample[::2]
            self._kept = sum(p.size for p in self._sample)
            self._stride *= 2

    def dynamic_range(self) -> float:
        """Largest magnitude over the 1st percentile of those that are not zero; at least 1."""
        if not self._sample:
            return 1.0
        sample = np.concatenate(self._sample)
        positive = sample[sample > 0]
        if not positive.size:
            return 1.0
        largest = max(abs(self.low), abs(self.high))
        return max(1.0, largest / float(np.percentile(positive, 1)))
