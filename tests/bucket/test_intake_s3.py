"""Intake on a real S3 server: what tenants upload there is taken as from a folder."""

from __future__ import annotations

import json
from typing import Any

from easeml_core.bucket import Bucket
from easeml_core.service import Service
from easeml_core.service.intake import run_intake, scan_uploads
from easeml_core.settings import Settings

SPEC = "program: '{input: {[Tensor[2]], []}, output: {[Tensor[2]], []}}'\n"
ROWS = "a,b,label\n" + "".join(f"{i},{i * i},{'yn'[i % 2]}\n" for i in range(40))


def test_intake_on_s3(settings: Settings, s3: Any, s3_bucket: Bucket) -> None:
    """Settings alone name the bucket; its keys come from them too."""
    changes = {"bucket": s3_bucket.url, "bucket_options": s3.options()}
    service = Service(settings.model_copy(update=changes))
    client, name = s3.client(), s3_bucket.url.removeprefix("s3://")
    client.put_object(Bucket=name, Key="lab/rows/data/rows.csv", Body=ROWS.encode())
    assert run_intake(service).waiting == ["lab/rows"]
    client.put_object(Bucket=name, Key="lab/rows/task.yaml", Body=SPEC.encode())
    client.put_object(Bucket=name, Key="lab/bad/task.yaml", Body=b"program: x\n")
    client.put_object(Bucket=name, Key="lab/bad/data/rows.csv", Body=ROWS.encode())
    report = run_intake(service)
    assert (report.accepted, report.rejected) == (["lab/rows"], ["lab/bad"])

    def status(task: str) -> dict[str, Any]:
        found: dict[str, Any] = json.load(client.get_object(Bucket=name, Key=f"{task}/status.json")["Body"])
        return found

    assert status("lab/rows")["state"] == "open"
    assert status("lab/bad")["problems"][0]["file"] == "task.yaml"
    first = status("lab/rows")["data"]["digest"]
    client.put_object(Bucket=name, Key="lab/rows/data/rows.csv", Body=ROWS.encode())
    run_intake(service)
    assert status("lab/rows")["data"]["digest"] == first
    changed = ROWS.replace("5,25,n", "5,25,y")
    client.put_object(Bucket=name, Key="lab/rows/data/rows.csv", Body=changed.encode())
    client.put_object(Bucket=name, Key="lab/rows/control.json", Body=b'{"state": "paused"}')
    run_intake(service)
    assert status("lab/rows")["data"]["digest"] != first
    assert status("lab/rows")["state"] == "paused"
    assert scan_uploads(service) == []
