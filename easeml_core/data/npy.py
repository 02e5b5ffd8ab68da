"""Writes `.npy` files row by row, so that staging needs memory for one example only."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt


class NpyWriter:
    """A `.npy` file that grows along its first axis.

    numpy pads the header so that the first dimension can grow up to 21 digits in place; the header is
    written once with no rows and once more, at its true length, on closing.
    """

    def __init__(self, path: Path, dtype: str, row_shape: tuple[int, ...]) -> None:
        self.dtype = np.dtype(dtype)
        self.row_shape = row_shape
        self.rows = 0
        self._file = path.open("w+b")
        self._header()
        self._start = self._file.tell()

    def _header(self) -> None:
        header = {"descr": self.dtype.str, "fortran_order": False, "shape": (self.rows, *self.row_shape)}
        np.lib.format.write_array_header_1_0(self._file, header)

    def append(self, rows: npt.NDArray[Any]) -> None:
        """Add rows, shape (n, *row_shape)."""
        if rows.shape[1:] != self.row_shape:
            raise ValueError(f"rows must have shape {self.row_shape}; got {rows.shape[1:]}")
        self._file.write(np.ascontiguousarray(rows, dtype=self.dtype).tobytes())
        self.rows += len(rows)

    def __enter__(self) -> NpyWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._file.seek(0)
                self._header()
                if self._file.tell() != self._start:
                    raise RuntimeError("the header of a .npy file changed its length")
                self._file.flush()
                os.fsync(self._file.fileno())
        finally:
            self._file.close()
