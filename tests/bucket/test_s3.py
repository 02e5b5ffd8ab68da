"""What only an object store can do to us."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from easeml_core.bucket import Bucket
from easeml_core.errors import OperatorError, TemporaryError, TenantError

LIMITS = {"max_files": 1000, "max_file": 1 << 20, "max_total": 1 << 20}


def test_a_wrong_secret_is_the_operators_problem(s3: Any, s3_bucket: Bucket) -> None:
    with pytest.raises(OperatorError):
        Bucket(s3_bucket.url, s3.options(secret="wrong")).scan()


def test_a_missing_bucket_is_the_operators_problem(s3: Any) -> None:
    with pytest.raises(OperatorError, match="create it"):
        Bucket("s3://no-such-bucket", s3.options()).scan()


def test_a_server_that_is_away_is_temporary() -> None:
    options = {
        "key": "k",
        "secret": "s",
        "endpoint_url": "http://127.0.0.1:9",
        "config_kwargs": {"retries": {}},
    }
    with pytest.raises(TemporaryError):
        Bucket("s3://bucket", options).scan()


def test_an_unknown_protocol_is_the_operators_problem() -> None:
    with pytest.raises(OperatorError):
        Bucket("nosuch://bucket").scan()


def test_a_file_beside_a_folder_of_the_same_name(s3_bucket: Bucket, tmp_path: Path) -> None:
    s3_bucket.write("clinic/tumours/data/a/b.png", b"x")
    listing = s3_bucket.scan().listings["clinic/tumours"]
    entry = listing.entries[0]
    twin = type(entry)("clinic/tumours/data/a", 1, "tag", 0.0)
    both = type(listing)(listing.prefix, listing.kind, (twin, entry))
    with pytest.raises(TenantError, match="both a file and a folder"):
        s3_bucket.fetch(both, tmp_path / "to", **LIMITS)


def test_listings_are_never_cached(s3: Any, s3_bucket: Bucket) -> None:
    s3_bucket.write("clinic/tumours/task.yaml", b"x")
    assert len(s3_bucket.scan().listings) == 1
    s3.client().put_object(Bucket=s3_bucket.url[5:], Key="clinic/lungs/task.yaml", Body=b"y")
    assert len(s3_bucket.scan().listings) == 2


def test_more_objects_than_one_page(s3_bucket: Bucket, tmp_path: Path) -> None:
    fs, root = s3_bucket.store._open()  # type: ignore[attr-defined]
    fs.pipe({f"{root}/clinic/tumours/data/cat/{i}.png": b"%d" % i for i in range(1001)})
    listing = s3_bucket.scan().listings["clinic/tumours"]
    assert len(listing.entries) == 1001
    bucket_limits = LIMITS | {"max_files": 2000}
    s3_bucket.fetch(listing, tmp_path / "to", **bucket_limits)
    assert (tmp_path / "to/data/cat/1000.png").read_bytes() == b"1000"


def _scan_in_child(bucket: Bucket, queue: Any) -> None:
    queue.put(sorted(bucket.scan().listings))


def test_a_bucket_survives_a_fork(s3_bucket: Bucket) -> None:
    s3_bucket.write("clinic/tumours/task.yaml", b"x")
    s3_bucket.scan()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_scan_in_child, args=(s3_bucket, queue))
    child.start()
    assert queue.get(timeout=30) == ["clinic/tumours"]
    child.join(30)
    assert child.exitcode == 0
