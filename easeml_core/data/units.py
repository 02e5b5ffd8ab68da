"""In which units inputs are stored, and how those of other sources are brought to them.

Of images, 8-bit and bool arrays it is known which number is white. Other arrays, tables and 32-bit TIFFs
are taken as they are: among themselves they need no common word for white.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from easeml_core.data.findings import Findings, source_of
from easeml_core.data.forms import Example, Form

if TYPE_CHECKING:
    from easeml_core.data.deep import Depth
    from easeml_core.data.version import VersionFacts

_WHITE = {np.dtype(np.uint8): 255.0, np.dtype(bool): 1.0}
_BYTE = 255.0
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class Units:
    """`dtype` of the stored inputs, "uint8" or "float32", and the number in them that is `white`; None where
    nobody can tell. `bound`: that number is sure, so what lies outside of 0 to `white` is left out."""

    dtype: str
    white: float | None = None
    bound: bool = False

    @classmethod
    def choose(
        cls, depths: set[Depth], arrays: set[np.dtype[Any]], tables: bool, form: Form, findings: Findings
    ) -> Units:
        """For the images (by `depths`), arrays (by their types) and `tables` of pixels of one upload.

        What has no common unit becomes a problem.
        """
        if form.kind != "image":
            return cls("uint8" if form.kind == "bytes" else "float32")
        unknown = arrays - _WHITE.keys()
        if depths:
            if unknown or (arrays and depths == {"raw"}):
                what = "32-bit TIFFs" if depths == {"raw"} else "images"
                other = ", ".join(sorted(map(str, unknown or arrays)))
                text = f"{what} and arrays of {other} have no common unit"
                fix = "upload only images, or save the arrays as uint8 from 0 to 255"
                findings.problem("data", text, fix=fix)
            if depths == {"raw"}:
                return cls("float32")
            return cls("uint8", _BYTE, True) if depths == {"byte"} else cls("float32", 1.0, True)
        if unknown or tables or not arrays:
            return cls("float32")
        return cls("float32", 1.0, True) if arrays == {np.dtype(bool)} else cls("uint8", _BYTE, True)

    @classmethod
    def of_facts(cls, facts: VersionFacts) -> Units:
        """Those of a data version. Where white is not known it is guessed from the range of the numbers."""
        if facts.kind != "image" or facts.dtype == "uint8":
            return cls(facts.dtype, _BYTE, True) if facts.kind == "image" else cls(facts.dtype)
        if facts.white is not None:
            return cls(facts.dtype, facts.white, True)
        guess = next((top for top in (1.0, _BYTE) if facts.low >= 0 and facts.high <= top), None)
        return cls(facts.dtype, guess)

    def of_bytes(self, values: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
        """Numbers of which 255 is white, in these units. `white` must be known."""
        return values if self.dtype == "uint8" else self.of_share(values.astype(np.float32) / np.float32(255))

    def of_share(self, values: npt.NDArray[np.float32]) -> npt.NDArray[Any]:
        """Numbers of which 1 is white, in these units. `white` must be known."""
        assert self.white is not None
        scaled = values * np.float32(self.white)
        return np.clip(np.rint(scaled), 0, _BYTE).astype(np.uint8) if self.dtype == "uint8" else scaled

    def of_array(self, values: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        """`values` out of an array of `dtype`, scaled where it is known what is white in both."""
        own = _WHITE.get(dtype)
        if own is None or self.white is None or own == self.white:
            return values
        return self.of_share(values.astype(np.float32) / np.float32(own))

    def misfit(self, array: npt.NDArray[Any]) -> str | None:
        """Why no part of `array` can be in these units, though some of its numbers may look so; else None."""
        if self.dtype != "uint8" or array.dtype.kind != "f":
            return None
        if not ((array >= 0) & (array <= 1)).all() or (array == np.floor(array)).all():
            return None
        return "holds numbers from 0 to 1; the data of the task goes from 0 to 255"

    def checked(self, examples: Iterable[Example], findings: Findings) -> Iterator[Example]:
        """`examples` without those outside of the units, which are quarantined.

        Where white is not known, sources of which one goes from 0 to 1 and another holds whole numbers far
        above that become a problem.
        """
        ranges: dict[str, _Range] = {}
        for example in examples:
            parts = [part for part in (example.value, example.answer) if part is not None and part.size]
            text = next(filter(None, map(self._outside, parts)), None)
            if text is not None:
                findings.quarantine(example.file, text)
                continue
            if self.white is None and example.value.ndim == 3:
                for part in parts:
                    ranges.setdefault(source_of(example.file), _Range()).add(part)
            yield example
        shares = sorted(name for name, seen in ranges.items() if seen.is_share)
        wholes = sorted(name for name, seen in ranges.items() if seen.is_whole)
        if shares and wholes:
            text = f"its values go from 0 to 1, those of {wholes[0]} to {ranges[wholes[0]].high:g}"
            findings.problem(shares[0], text, fix="bring both to one unit")

    def _outside(self, values: npt.NDArray[Any]) -> str | None:
        if not self.bound or self.white is None or self.dtype == "uint8":
            return None  # 8-bit values are checked when they are stored
        low, high = float(values.min()), float(values.max())
        if low >= -_ROUNDING and high <= self.white * (1 + _ROUNDING):
            return None
        return f"its values go from {low:g} to {high:g}; those of the other data from 0 to {self.white:g}"


class _Range:
    """What the numbers of one source look like."""

    def __init__(self) -> None:
        self.low, self.high, self.whole = np.inf, -np.inf, True

    def add(self, value: npt.NDArray[Any]) -> None:
        self.low, self.high = min(self.low, float(value.min())), max(self.high, float(value.max()))
        self.whole = self.whole and bool((value == np.floor(value)).all())

    @property
    def is_share(self) -> bool:
        return not self.whole and self.low >= 0 and self.high <= 1

    @property
    def is_whole(self) -> bool:
        return self.whole and self.low >= 0 and self.high > 16
