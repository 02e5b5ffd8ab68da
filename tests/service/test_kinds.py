"""Tasks of the newer kinds of data go through intake and inference like any other."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from easeml_core.catalog import models_for
from easeml_core.service import Service, trainer
from easeml_core.service.infer import run_inference
from easeml_core.service.intake import run_intake
from tests.data.test_arrays import npz
from tests.data.test_recovery import patches
from tests.data.trees import WIDTH, functions
from tests.service.test_infer import crown

TREES = f"program: '{{input: {{[Tensor[{WIDTH}]], [left, right]}}, output: {{[Tensor[2]], []}}}}'\n"
IMAGES = "program: '{input: {[Tensor[16, 16, 3]], []}, output: {[Tensor[16, 16, 3]], []}}'\n"


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The orders that the champion got, at the seam `trainer.run_job`; it answers with its inputs."""
    orders: list[dict[str, Any]] = []

    def answer(kind: str, order: dict[str, Any], settings: Any, timeout: float) -> dict[str, Any]:
        orders.append(order)
        if "inputs" in order:
            found = np.load(order["inputs"]).astype(np.float32)
        else:
            assert len(np.load(order["values"])) == len(np.load(order["children"]))
            found = np.tile([0.25, 0.75], (len(np.load(order["offsets"])) - 1, 1))
        np.save(Path(order["output"]), found)
        return {"model_version": "7", "run_id": "r", "n": len(found), "metadata": {}}

    monkeypatch.setattr(trainer, "run_job", answer)
    return orders


def submit(service: Service, spec: str, name: str, content: bytes) -> dict[str, Any]:
    service.bucket.write(f"lab/rows/data/{name}", content)
    service.bucket.write("lab/rows/task.yaml", spec)
    assert run_intake(service).accepted == ["lab/rows"]
    return status(service)


def status(service: Service) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(service.bucket.read("lab/rows/status.json"))
    return found


def lines(count: int) -> bytes:
    rows = [{"label": name, "tree": tree} for name, tree in functions(count)]
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def test_a_task_of_trees(service: Service, model: list[dict[str, Any]]) -> None:
    found = submit(service, TREES, "functions.jsonl", lines(30))
    names = {candidate["candidate"] for candidate in found["candidates"]}
    assert names == {known.name for known in models_for("tree-classification")}
    assert found["data"]["facts"]["classes"] == ["email.message", "statistics"]
    assert "trees with nodes of 4" in service.bucket.read("lab/rows/data-report.md").decode()
    crown(service)
    service.bucket.write("lab/rows/infer/r1/q.jsonl", lines(2) + b'{"tree": 1}\n')
    assert run_inference(service).done == ["lab/rows/infer/r1"]
    rows = service.bucket.read("lab/rows/predictions/r1.csv").decode().splitlines()
    assert [row.split(",")[:2] for row in rows[1:]] == [[f"q.jsonl#{i}", "statistics"] for i in (1, 2)]
    assert "q.jsonl:3" in service.bucket.read("lab/rows/predictions/r1.problems.md").decode()


def test_a_task_of_images_to_recover(service: Service, model: list[dict[str, Any]]) -> None:
    noisy, clean = patches(20)
    found = submit(service, IMAGES, "d.npz", npz(inputs=noisy, targets=clean))
    assert found["objective"] == "psnr"
    assert (
        "each is to be answered with 16 × 16 × 3" in service.bucket.read("lab/rows/data-report.md").decode()
    )
    crown(service)
    service.bucket.write("lab/rows/infer/r1/q.npz", npz(x=noisy[:3]))
    assert run_inference(service).done == ["lab/rows/infer/r1"]
    (inference,) = status(service)["inferences"]
    assert inference["predictions"] == "lab/rows/predictions/r1.npz"
    with np.load(io.BytesIO(service.bucket.read("lab/rows/predictions/r1.npz"))) as answer:
        assert answer["id"].tolist() == ["q.npz[0]", "q.npz[1]", "q.npz[2]"]
        assert np.array_equal(answer["prediction"], noisy[:3])
    with zipfile.ZipFile(io.BytesIO(service.bucket.read("lab/rows/predictions/r1.zip"))) as packed:
        assert packed.namelist() == ["q.npz[0].png", "q.npz[1].png", "q.npz[2].png"]
        assert np.array_equal(np.asarray(Image.open(packed.open("q.npz[1].png"))), noisy[1])
