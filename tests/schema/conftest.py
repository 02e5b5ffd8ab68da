"""The public examples of ease.ml's schemas, where they lie beside the repository; schemas to try."""

from __future__ import annotations

from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "shared" / "easeml-examples"


def example_files(pattern: str) -> list[Path]:
    """Files or folders below the examples; one that says what is missing where there are none."""
    return sorted(EXAMPLES.glob(pattern)) or [EXAMPLES / pattern]


def skip_if_absent(path: Path) -> None:
    if not path.exists():
        pytest.skip(f"{EXAMPLES} is not there: clone ease.ml's public examples beside the repository")
