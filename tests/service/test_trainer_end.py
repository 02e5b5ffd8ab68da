from __future__ import annotations

import pytest

from easeml_core.service.trainer_end import memory_reason


@pytest.mark.parametrize(
    ("peak", "limit", "reason"),
    [
        (None, None, "out of memory"),
        (3_140_000_000, 4_000_000_000, "out of memory (peak 3.1 GB, limit 4.0 GB)"),
        (31_000_000, 20_480_000, "out of memory (peak 31.0 MB, limit 20.5 MB)"),
        (None, 400_000, "out of memory (limit 0.4 MB)"),
    ],
)
def test_sizes_are_told_in_units_that_show_them(peak: int | None, limit: int | None, reason: str) -> None:
    assert memory_reason(peak, limit) == reason
