"""One stack for all modules here, taken down after the last of them, whatever happened."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from easeml_core.settings import Settings
from easeml_core.stack import api, leftovers
from easeml_core.stack.layout import Layout
from tests.e2e.installation import Installation

# The loop on a stack that nobody has hurt yet, then what hurts.
ORDER = ("test_loop", "test_ui", "test_bad_trials", "test_faults")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run this folder's modules in the order above, one after the other."""
    here = Path(__file__).parent
    places = [place for place, item in enumerate(items) if item.path.parent == here]
    ordered = sorted((items[place] for place in places), key=lambda item: ORDER.index(item.path.stem))
    for place, item in zip(places, ordered, strict=True):
        items[place] = item


@pytest.fixture(scope="package")
def installation() -> Iterator[Installation]:
    """A running service with two devices in a temporary home."""
    kept = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("EASEML_")}
    folder = Path(tempfile.mkdtemp(prefix="easeml-e2e-", dir="/tmp"))
    home = folder / "home"
    home.mkdir()
    # As an operator would, so that every command reads the same.
    (home / "easeml.toml").write_text('devices = ["cpu0", "cpu1"]\n')
    try:
        info = api.up(Settings(home=home), timeout=900)
        yield Installation(folder, Settings(home=home), info)
    finally:
        api.purge(Settings(home=home))
        assert not leftovers.find(Layout.of(home))
        os.environ.update(kept)
        shutil.rmtree(folder, ignore_errors=True)
