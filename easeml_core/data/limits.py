"""What a hostile upload may cost us."""

from __future__ import annotations

from dataclasses import dataclass

from easeml_core.settings import Settings

_ROWS_PER_FILE = 10


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on one upload; sizes in bytes, shares in [0, 1]. The defaults are those of `Settings`."""

    max_files: int = 200_000
    max_file_bytes: int = 4 * 1024**3
    max_upload_bytes: int = 20 * 1024**3
    max_expansion_ratio: float = 200.0
    max_pixels: int = 64_000_000
    max_broken_share: float = 0.1

    @property
    def max_rows(self) -> int:
        """Rows of an array or table: one costs less than a file, but its id and label stay in memory too."""
        return self.max_files * _ROWS_PER_FILE

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        """The limits that the operator set."""
        return cls(**{name: getattr(settings, name) for name in cls.__dataclass_fields__})
