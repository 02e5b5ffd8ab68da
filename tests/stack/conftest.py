"""What the stack's tests share: a home of their own that leaves nothing behind."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from easeml_core.stack.layout import Layout


@pytest.fixture
def layout() -> Iterator[Layout]:
    home = Path(tempfile.mkdtemp(prefix="easeml-test-"))
    made = Layout.of(home)
    made.create()
    yield made
    shutil.rmtree(home)
