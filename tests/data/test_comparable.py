"""Whether a model of one data version may be judged on another, whatever its tenant did to the data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from easeml_core.data import Version
from easeml_core.data.comparable import obstacle
from easeml_core.data.version import MANIFEST
from easeml_core.errors import OperatorError
from tests.data.uploads import image, vector

SPEC = vector(2, 2)


@pytest.fixture
def rows(upload: Path) -> Callable[..., None]:
    """`rows("part.csv", 0, 40)` uploads a table of these examples; without any, it is removed."""

    def write(name: str, start: int = 0, end: int = 0, head: str = "width,height,label") -> None:
        path = upload / "data" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join([head, *(f"{i},{i * i % 17},{'ab'[i % 2]}" for i in range(start, end))]))
        if start == end:
            path.unlink()

    return write


@pytest.fixture
def first(build: Any, rows: Callable[..., None]) -> Version:
    rows("part.csv", 0, 40)
    version: Version = build(SPEC)
    return version


def test_a_feed_a_correction_and_a_smaller_set_can_be_judged_on(
    build: Any, rows: Callable[..., None], upload: Path, first: Version
) -> None:
    assert obstacle(first, first) is None
    rows("more.csv", 40, 100)
    fed = build(SPEC, parent=first)
    assert fed.facts.n_val > first.facts.n_val
    assert obstacle(first, fed) is None
    (upload / "refine.csv").write_text("id,keep,label\npart.csv#1,0,\npart.csv#2,1,a\n")
    refined = build(SPEC, parent=fed)
    assert [obstacle(first, refined), obstacle(fed, refined)] == [None, None]
    assert obstacle(fed, first) is None, "the tenant went back to it"


def test_examples_that_were_taken_out_and_come_again_may_have_been_trained_on(
    build: Any, rows: Callable[..., None], upload: Path, first: Version
) -> None:
    table = upload / "data" / "part.csv"
    head, *lines = table.read_text().splitlines()
    rows("part.csv", 40, 80)
    other = build(SPEC, parent=first)
    table.write_text("\n".join([head, *(lines[i] for i in first.train)]))
    again = build(SPEC, parent=other)
    count = again.facts.n_val
    expected = f"it was trained on {count} of the {count} examples to validate on now"
    assert obstacle(first, again) == expected
    assert obstacle(other, again) is None


def test_a_lost_split_is_found_out(build: Any, rows: Callable[..., None], first: Version) -> None:
    rows("more.csv", 40, 60)
    fed = build(SPEC, parent=first)
    (fed.folder / MANIFEST).write_bytes(b"")
    rows("third.csv", 60, 70)
    third = build(SPEC, parent=fed)
    assert "damaged" in str(obstacle(Version(fed.folder, fed.facts), third))
    assert "it was trained on" in str(obstacle(first, third)), "its split was drawn anew"
    with pytest.raises(OperatorError, match="manifest"):
        obstacle(first, Version(fed.folder, fed.facts))


def test_other_columns_and_other_units_cannot_be_compared(
    build: Any, rows: Callable[..., None], upload: Path, first: Version
) -> None:
    rows("part.csv", 40, 80, head="depth,height,label")
    assert obstacle(first, build(SPEC, parent=first)) == "its data had other columns: width, height"
    rows("part.csv")
    spec, pixels = image(8, 8, 1, 2), np.random.default_rng(0).integers(0, 255, (40, 8, 8, 1))
    found = []
    for x in (pixels.astype(np.uint8), pixels / 255):
        np.savez(upload / "data" / "x.npz", x=x, y=np.arange(40) % 2)
        found.append(build(spec))
    assert obstacle(*found) == "its data came in other units"
    assert obstacle(first, found[0]) == "its data had another shape"
