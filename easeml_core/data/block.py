"""One array of an `.npz` file whose rows are inputs, or what is to be answered with."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from easeml_core.data.findings import Findings
from easeml_core.data.forms import Kind
from easeml_core.data.images import resize_plane
from easeml_core.data.ragged import Ragged
from easeml_core.data.staging import is_byte
from easeml_core.data.units import Units


class Block:
    """Rows of `shape` (of a step, where `kind` is series). `where` and `name` say to people what it is.

    Series come padded with NaN to one length, (N, T, D) or (N, T), with `lengths` (N,) beside, or one after
    the other, (total, D), with `offsets` (N + 1,) beside.
    """

    def __init__(
        self,
        where: str,
        name: str,
        array: npt.NDArray[Any],
        shape: tuple[int, ...],
        kind: Kind,
        *,
        lengths: npt.NDArray[Any] | None = None,
        offsets: npt.NDArray[Any] | None = None,
    ) -> None:
        self.where, self.name, self._shape, self._kind = where, name, shape, kind
        self._array, self._lengths, self._offsets = array, lengths, offsets
        self._rows: npt.NDArray[Any] | Ragged = array

    def __len__(self) -> int:
        return len(self._rows)

    def holds_numbers(self, findings: Findings) -> bool:
        """Whether there are rows, of numbers; else a problem is noted, before anything loops over them."""
        array = self._array
        if array.dtype.kind not in "biuf":
            findings.problem(self.where, f"{self.name} must hold numbers; it holds {array.dtype}")
        elif array.ndim < 1:
            findings.problem(self.where, f"{self.name} has shape (); one row per example is needed")
        elif array.size == 0:
            # Such an array may claim any number of rows and take no byte.
            findings.problem(self.where, f"{self.name} has shape {array.shape}: it holds no values")
        else:
            return self._cut(findings)
        return False

    def _cut(self, findings: Findings) -> bool:
        if self._kind != "series" or self._offsets is None:
            return True
        try:
            self._rows = Ragged.of(self._array, self._offsets)
        except ValueError as error:
            findings.problem(self.where, f"the offsets of {self.name} {error}")
            return False
        return True

    def fits(self, findings: Findings, units: Units) -> bool:
        """Bring the rows to their shape, as far as no value changes; a problem is noted where none fits,
        and where images are in other units than `units`."""
        rows = self._rows
        if isinstance(rows, Ragged):
            if rows.values.shape[1:] == self._shape:
                return True
            return self._refuse(self._array, f"(steps of all, {self._shape[0]})", findings)
        if self._kind == "series":
            if rows.ndim == 2 and self._shape == (1,):
                self._rows = rows[:, :, None]
            elif rows.ndim != 3 or rows.shape[2:] != self._shape:
                return self._refuse(rows, f"(examples, steps, {self._shape[0]})", findings)
            return self._check_lengths(findings)
        if self._kind == "image" and (text := units.misfit(rows)) is not None:
            findings.problem(self.where, f"{self.name} {text}", fix="multiply them by 255")
            return False
        if rows.shape[1:] == self._shape:
            return True
        fitted = self._images(rows, findings) if self._kind == "image" else self._vectors(rows, findings)
        if fitted is None:
            return self._refuse(rows, f"(examples, {', '.join(map(str, self._shape))})", findings)
        self._rows = fitted
        return True

    def _refuse(self, array: npt.NDArray[Any], expected: str, findings: Findings) -> bool:
        text = f"{self.name} has shape {array.shape}; the program wants {expected}"
        findings.problem(self.where, text, fix="change the program in task.yaml or the array")
        return False

    def _images(self, x: npt.NDArray[Any], findings: Findings) -> npt.NDArray[Any] | None:
        height, width, channels = self._shape
        note = f"{self.where}:{self.name}"
        if x.ndim == 2 and x.shape[1] == height * width * channels:
            findings.converted[note] = f"rows folded to {self._shape}"
            return x.reshape(-1, *self._shape)
        if x.ndim == 3 and channels == 1:
            x = x[:, :, :, None]
        if x.ndim == 4 and x.shape[1:] == (channels, height, width):
            findings.converted[note] = "channels moved last"
            return np.moveaxis(x, 1, 3)
        if x.ndim == 4 and x.shape[3] == channels and x.shape[1] and x.shape[2]:
            if x.shape[1:] != self._shape:
                findings.converted[note] = f"resized to {height}x{width}"
            return x
        return None

    def _vectors(self, x: npt.NDArray[Any], findings: Findings) -> npt.NDArray[Any] | None:
        if int(np.prod(x.shape[1:])) != self._shape[0]:
            return None
        findings.converted[f"{self.where}:{self.name}"] = "flattened"
        return x.reshape(len(x), self._shape[0])

    def _check_lengths(self, findings: Findings) -> bool:
        lengths = self._lengths
        if lengths is None:
            return True
        if lengths.ndim != 1 or len(lengths) != len(self):
            text = f"lengths must be one per example: {len(self)}; its shape is {lengths.shape}"
            findings.problem(self.where, text)
            return False
        if lengths.dtype.kind not in "biuf":
            findings.problem(self.where, f"lengths must be whole numbers; they are {lengths.dtype}")
            return False
        steps = self._array.shape[1]
        given = lengths.astype(np.float64)
        right = (given >= 0) & (given <= steps) & (given == np.floor(given))
        for row in np.flatnonzero(~right).tolist():
            text = f"its length must be a whole number from 0 to {steps} (rows count from 0)"
            findings.row(self.where, row, text)
        return bool(right.all())

    def row(self, number: int, units: Units) -> npt.NDArray[Any]:
        """A copy of one row: (H, W, C) in `units`, (D,) or (T, D)."""
        value = np.array(self._rows[number])
        if isinstance(self._rows, Ragged):
            return value.astype(np.float32)
        if self._kind == "series":
            value = value.astype(np.float32)
            if self._lengths is not None:
                return value[: int(self._lengths[number])]
            known = np.flatnonzero(~np.isnan(value).all(axis=1))
            return value[: known[-1] + 1] if len(known) else value[:0]
        if self._kind != "image":
            return value
        value = units.of_array(value, self._array.dtype)
        return value if value.shape == self._shape else self._resized(value, units)

    def _resized(self, value: npt.NDArray[Any], units: Units) -> npt.NDArray[Any]:
        planes = [
            resize_plane(np.ascontiguousarray(value[:, :, c], dtype=np.float32), *self._shape[:2])
            for c in range(self._shape[2])
        ]
        resized = np.stack(planes, axis=-1)
        return np.rint(resized).astype(np.uint8) if units.dtype == "uint8" and is_byte(value) else resized
