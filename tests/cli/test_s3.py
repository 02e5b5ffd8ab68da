"""The tenant's commands against a real S3-compatible server."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from easeml_core.bucket import Bucket
from tests.bucket.conftest import S3, s3
from tests.cli.conftest import data_of

__all__ = ["s3"]

Easeml = Callable[..., Result]
_numbers = itertools.count()


@pytest.fixture
def remote(s3: S3, bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """A bucket on the server that the environment names."""
    name = f"cli-tests-{next(_numbers)}"
    s3.client().create_bucket(Bucket=name)
    monkeypatch.setenv("EASEML_BUCKET", f"s3://{name}")
    monkeypatch.setenv("EASEML_BUCKET_OPTIONS", json.dumps(s3.options()))
    return Bucket(f"s3://{name}", s3.options())


def test_submit_to_s3_sends_once_and_marks_it_complete(
    easeml: Easeml, remote: Bucket, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "data" / 'it\'s a "row".csv').write_text("a,b,label\n900,1,yes\n")
    first = data_of(easeml("submit", "lab/rows", folder, "--json"))
    assert len(first["sent"]) == 3
    listing = remote.listing("lab/rows")
    assert listing is not None
    assert listing.marked
    again = data_of(easeml("submit", "lab/rows", folder, "--json"))
    assert (again["sent"], again["same"]) == ([], 3)
    (folder / "data" / "rows.csv").write_text((folder / "data" / "rows.csv").read_text().replace("5", "6"))
    assert data_of(easeml("submit", "lab/rows", folder, "--json"))["sent"] == ["data/rows.csv"]


def test_wrong_keys_are_said_plainly(
    easeml: Easeml, s3: S3, bucket: Bucket, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EASEML_BUCKET_OPTIONS", json.dumps(s3.options(secret="wrong")))
    result = easeml("submit", "lab/rows", folder, "--bucket", "s3://cli-tests")
    assert result.exit_code == 4
    assert "refuses" in result.stderr


def test_a_file_sent_in_parts_is_not_sent_again(easeml: Easeml, remote: Bucket, folder: Path) -> None:
    """What S3 joined from parts has no MD5 as its tag: the contents are compared, in pieces."""
    rows = (folder / "data" / "rows.csv").read_text()
    large = folder / "data" / "rows.csv"
    large.write_text(rows + "900,1,yes\n" * ((40 << 20) // 10))
    assert data_of(easeml("submit", "lab/large", folder, "--json"))["sent"] == ["data/rows.csv", "task.yaml"]
    listing = remote.listing("lab/large")
    assert listing is not None
    assert "-" in listing.entries[0].tag
    assert data_of(easeml("submit", "lab/large", folder, "--json"))["sent"] == []
    with large.open("r+b") as stream:
        stream.seek(-3, 2)
        stream.write(b"n")
    assert data_of(easeml("submit", "lab/large", folder, "--json"))["sent"] == ["data/rows.csv"]
