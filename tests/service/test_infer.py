"""Requests under infer/ are answered once, with the champion, or told why not."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sqlalchemy import func, update

from easeml_core.data import VersionFacts
from easeml_core.errors import TemporaryError
from easeml_core.ledger.models import Candidate, Promotion, Task, Trial, Upload
from easeml_core.service import Service, trainer
from easeml_core.service.infer import run_inference
from easeml_core.service.intake import run_intake, scan_uploads
from easeml_core.service.predictions import extension, pictures, predictions_csv, predictions_file

SPEC = "program: '{input: {[Tensor[2]], []}, output: {[Tensor[3]], []}}'\n"
ROWS = "a,b,label\n" + "".join(f"{i},{i * i},{'xyz'[i % 3]}\n" for i in range(30))


class Model:
    """Stands for the champion in a trainer process, at the seam `trainer.run_job`."""

    def __init__(self) -> None:
        self.orders: list[dict[str, Any]] = []
        self.error: Exception | None = None

    def __call__(self, kind: str, order: dict[str, Any], settings: Any, timeout: float) -> dict[str, Any]:
        self.orders.append(order)
        if self.error is not None:
            raise self.error
        assert kind == "predict"
        if "offsets" in order:
            best = np.zeros(len(np.load(order["offsets"])) - 1, int)
        else:
            best = (np.load(order["inputs"])[:, 0] % 3).astype(int)
        np.save(Path(order["output"]), np.where(np.eye(3)[best] == 1, 0.8, 0.1).astype(np.float32))
        return {"model_version": "7", "run_id": "r", "n": len(best), "metadata": {}}


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Model:
    made = Model()
    monkeypatch.setattr(trainer, "run_job", made)
    return made


@pytest.fixture
def task(service: Service) -> Service:
    service.bucket.write("lab/rows/data/rows.csv", ROWS)
    service.bucket.write("lab/rows/task.yaml", SPEC)
    assert run_intake(service).accepted == ["lab/rows"]
    return service


def crown(service: Service) -> None:
    """Give the task a champion."""
    with service.ledger.transaction() as session:
        found = session.query(Task).one()
        candidate = session.query(Candidate).filter_by(task_id=found.id).first()
        assert candidate is not None
        trial = Trial(
            task_id=found.id,
            candidate_id=candidate.id,
            data_version_id=found.data_version_id,
            state="succeeded",
            predicted_seconds=1.0,
            reserved_seconds=1.0,
            quality=0.9,
            score=0.9,
        )
        session.add(trial)
        session.flush()
        session.add(
            Promotion(task_id=found.id, trial_id=trial.id, model_version="7", quality=0.9, reason="best")
        )


def wake(service: Service) -> None:
    """Let every rest be over."""
    with service.ledger.transaction() as session:
        session.execute(update(Upload).values(retry_at=func.clock_timestamp()))


def inference(service: Service) -> dict[str, Any]:
    (found,) = json.loads(service.bucket.read("lab/rows/status.json"))["inferences"]
    return dict(found)


def test_a_request_waits_for_a_champion_and_is_answered_once(task: Service, model: Model) -> None:
    task.bucket.write("lab/rows/infer/r1/in.csv", "id,b,a\np,0,4\nq,0,2\n")
    assert [(r.prefix, r.kind) for r in scan_uploads(task)] == [("lab/rows/infer/r1", "infer")]
    assert run_inference(task).waiting == ["lab/rows/infer/r1"]
    assert inference(task)["state"] == "waiting"
    assert scan_uploads(task) == []  # nothing to wake up for
    crown(task)
    assert len(scan_uploads(task)) == 1
    assert run_inference(task).done == ["lab/rows/infer/r1"]
    rows = list(csv.DictReader(io.StringIO(task.bucket.read("lab/rows/predictions/r1.csv").decode())))
    assert [(row["id"], row["class"], row["model_version"]) for row in rows] == [
        ("p", "y", "7"),
        ("q", "z", "7"),
    ]
    assert [float(rows[0][f"probability_{c}"]) for c in "xyz"] == pytest.approx([0.1, 0.8, 0.1])
    assert inference(task)["state"] == "done"
    assert inference(task)["predictions"] == "lab/rows/predictions/r1.csv"
    listing = task.bucket.listing("lab/rows/infer/r1")
    assert listing is not None
    assert inference(task)["fingerprint"] == listing.fingerprint
    assert run_inference(task).done == []
    assert len(model.orders) == 1
    assert run_intake(task).accepted == []  # predictions are no upload


def test_bad_inputs_are_named_and_good_ones_predicted(task: Service, model: Model) -> None:
    crown(task)
    task.bucket.write("lab/rows/infer/r1/in.csv", "a,b\n1,1\nx,1\n")
    assert run_inference(task).done == ["lab/rows/infer/r1"]
    assert task.bucket.read("lab/rows/predictions/r1.csv").decode().count("\n") == 2
    assert r"in.csv\#2" in task.bucket.read("lab/rows/predictions/r1.problems.md").decode()
    task.bucket.write("lab/rows/infer/r1/in.csv", "a,b\n1,1\n3,1\n")
    assert run_inference(task).done == ["lab/rows/infer/r1"]
    assert task.bucket.read_if_there("lab/rows/predictions/r1.problems.md") is None
    assert inference(task)["problems"] == []


def test_series_too_long_for_the_model_are_predicted_and_named(service: Service, model: Model) -> None:
    head = "@univariate true\n@timeStamps false\n@classLabel "
    text = "program: '{input: {[Tensor[1]], [next]}, output: {[Tensor[2]], []}}'\n"
    rows = "".join(f"{i},2,3:{'ab'[i % 2]}\n" for i in range(20))
    service.bucket.write("lab/rows/data/X.ts", f"{head}true a b\n@data\n{rows}")
    service.bucket.write("lab/rows/task.yaml", text)
    assert run_intake(service).accepted == ["lab/rows"]
    crown(service)
    service.bucket.write("lab/rows/infer/r1/in.ts", f"{head}false\n@data\n1,2,3\n1,2,3,4\n")
    assert run_inference(service).done == ["lab/rows/infer/r1"]
    assert service.bucket.read("lab/rows/predictions/r1.csv").decode().count("\n") == 3
    told = service.bucket.read("lab/rows/predictions/r1.problems.md").decode()
    assert "has 4 steps, of which the first 3 were read" in told
    assert "has 3 steps" not in told
    assert [problem["file"] for problem in inference(service)["problems"]] == ["in.ts#2"]


def test_a_request_without_usable_inputs_is_rejected(task: Service, model: Model) -> None:
    crown(task)
    task.bucket.write("lab/rows/infer/r1/in.csv", "a,c\n1,1\n")
    assert run_inference(task).rejected == ["lab/rows/infer/r1"]
    found = inference(task)
    assert found["state"] == "rejected"
    assert "columns differ" in found["problems"][0]["message"]
    assert model.orders == []
    assert run_inference(task).rejected == []


def test_a_failing_request_does_not_stop_others(task: Service, model: Model) -> None:
    crown(task)
    task.bucket.write("lab/rows/infer/r1/in.csv", "a,b\n1,1\n")
    task.bucket.write("lab/rows/infer/r2/in.csv", "a,b\n1,1\n")
    model.error = TemporaryError("MLflow is away")
    assert run_inference(task).deferred == ["lab/rows/infer/r1", "lab/rows/infer/r2"]
    assert scan_uploads(task) == []
    wake(task)
    model.error = RuntimeError("a bug of ours")
    assert run_inference(task).failed == ["lab/rows/infer/r1", "lab/rows/infer/r2"]
    found = json.loads(task.bucket.read("lab/rows/status.json"))["inferences"]
    assert [(one["state"], "no fault of yours" in one["problems"][0]["message"]) for one in found] == [
        ("waiting", True)
    ] * 2
    model.error = None
    assert run_inference(task).done == []
    wake(task)
    assert run_inference(task).done == ["lab/rows/infer/r1", "lab/rows/infer/r2"]
    found = json.loads(task.bucket.read("lab/rows/status.json"))["inferences"]
    assert [(one["state"], one["problems"]) for one in found] == [("done", [])] * 2
    assert not any((task.settings.versions_dir / ".staging").iterdir())


def test_a_request_for_a_task_that_is_not_there_waits(service: Service, model: Model) -> None:
    service.bucket.write("lab/rows/infer/r1/in.csv", "a,b\n1,1\n")
    assert run_inference(service).waiting == ["lab/rows/infer/r1"]


def facts(**changes: Any) -> VersionFacts:
    base = {
        "digest": "d", "kind": "vector", "task_kind": "regression", "shape": (2,), "dtype": "float32", "n": 1,
        "n_train": 1, "n_val": 1, "outputs": 1, "low": 0, "high": 1, "dynamic_range": 1,
        "validation_fraction": 0.2, "validation_seed": 7,
    }  # fmt: skip
    return VersionFacts(**(base | changes))


def test_tables_of_values() -> None:
    assert predictions_csv(["a"], np.array([[0.5]]), facts(), "1") == "id,value,model_version\na,0.5,1\n"
    two = predictions_csv(["a"], np.array([[0.5, 2.0]]), facts(outputs=2), "1")
    assert two == "id,value_1,value_2,model_version\na,0.5,2,1\n"


def test_outputs_without_a_class_are_no_answer() -> None:
    known = facts(task_kind="classification", outputs=3, classes=("x", "y,z"))
    text = predictions_csv(["a,b"], np.array([[0.1, 0.2, 0.7]]), known, "1")
    assert list(csv.reader(io.StringIO(text))) == [
        ["id", "class", "probability_x", "probability_y,z", "model_version"],
        ["a,b", "y,z", "0.1", "0.2", "1"],
    ]


@pytest.mark.parametrize("outputs", [np.zeros((2, 3)), np.array([[np.nan]]), np.zeros((0, 0))])
def test_answers_that_do_not_fit_are_refused(outputs: Any) -> None:
    with pytest.raises(ValueError, match="the model answered"):
        predictions_csv(["a"], outputs, facts(), "1")


ANSWERING = {"kind": "series", "task_kind": "translation", "target_shape": (2,)}


def arrays(outputs: Any, **changes: Any) -> dict[str, Any]:
    ending, content = predictions_file(["a", "b"], np.array(outputs), facts(**changes), "3")
    assert ending == extension("series-translation") == "npz"
    found = np.load(io.BytesIO(content), allow_pickle=False)
    assert found["id"].tolist() == ["a", "b"]
    assert found["model_version"] == "3"
    return dict(found)


def test_series_are_answered_one_after_the_other() -> None:
    nan = [np.nan, np.nan]
    found = arrays([[[1, 2], nan, nan], [[3, 4], [5, 6], nan]], **ANSWERING)
    assert found["prediction"].tolist() == [[1, 2], [3, 4], [5, 6]]
    assert found["offsets"].tolist() == [0, 1, 3]


def test_images_and_bytes_are_answered_in_their_own_units() -> None:
    byte = {"kind": "bytes", "task_kind": "recovery", "target_shape": (1,), "dtype": "uint8"}
    found = arrays([[1.6, np.nan], [-3.0, 256.0]], **byte)
    assert found["prediction"].tolist() == [2, 0, 255]
    image = {"kind": "image", "task_kind": "recovery", "target_shape": (1, 2, 1)}
    assert arrays(np.arange(4.0).reshape(2, 1, 2, 1), **image)["prediction"].shape == (2, 1, 2, 1)


@pytest.mark.parametrize(
    ("ids", "names"),
    [
        (["day 1/a.JPG", "b.tif"], ["day 1/a.png", "b.png"]),
        (["a.jpg", "A.png"], ["input 1.png", "input 2.png"]),
        (["../a", "/b"], ["input 1.png", "input 2.png"]),
        (["q.npz[0]", "q.npz[1]"], ["q.npz[0].png", "q.npz[1].png"]),
    ],
)
def test_pictures_are_called_as_their_inputs_where_that_is_safe(ids: list[str], names: list[str]) -> None:
    image = facts(kind="image", task_kind="recovery", target_shape=(1, 2, 1), dtype="uint8")
    content = pictures(ids, np.array([[0.4, 255.6], [-1, 7]]), image)
    assert content is not None
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        assert packed.namelist() == names
        found = [np.asarray(Image.open(packed.open(name))).tolist() for name in names]
    assert found == [[[0, 255]], [[0, 7]]]


@pytest.mark.parametrize("changes", [{"dtype": "float32"}, {"target_shape": (1, 1, 2)}])
def test_what_a_png_cannot_hold_is_in_no_zip(changes: dict[str, Any]) -> None:
    image = {"kind": "image", "task_kind": "recovery", "target_shape": (1, 2, 1), "dtype": "uint8"}
    assert pictures(["a", "b"], np.zeros((2, 2)), facts(**{**image, **changes})) is None


@pytest.mark.parametrize(
    "outputs",
    [
        [[[1, 2]]],
        [[[np.nan, np.nan], [1, 2]], [[1, 2], [1, 2]]],
        [[[1, np.inf]], [[1, 2]]],
    ],
)
def test_series_with_gaps_are_no_answer(outputs: Any) -> None:
    with pytest.raises(ValueError, match="the model answered"):
        arrays(outputs, **ANSWERING)
