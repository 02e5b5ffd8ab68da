"""Every row of the template table, on real data: staged, trained, packaged, and asked as requests are.

What `training/` and `easeml_core/data` must agree on is all here: how inputs of each kind reach a model, and
in which shape its answers come back.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine

from easeml_core.data import Limits, build_version, open_version, read_inputs
from easeml_core.naming import CandidateName, version_dir
from easeml_core.service.infer import ARRAYS
from easeml_core.service.predictions import predictions_file
from easeml_core.service.rescore import Question
from easeml_core.spec import Spec
from easeml_core.tracking import Tracking
from easeml_core.workorder import Outcome, WorkOrder
from tests.data.test_arrays import npz
from tests.data.test_objects import files
from tests.data.test_recovery import patches
from tests.data.test_translation import flat, windows
from tests.data.trees import WIDTH, functions
from tests.data.uploads import NAME, spec_of
from training.models import is_network
from training.predict import predict_files
from training.rescore import score_champion
from training.trial import run_attempt

MakeOrder = Callable[..., Path]
Files = dict[str, bytes]
NOISY, CLEAN = patches(48)
DIGITS, NUMBERS = load_digits(n_class=3, return_X_y=True)
WINE, GROWERS = load_wine(return_X_y=True)


def lines(*rows: dict[str, Any]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def translation() -> Files:
    given, wanted = windows(48)
    (inputs, starts), (targets, ends) = flat(given), flat(wanted)
    content = npz(inputs=inputs, input_offsets=starts, targets=targets, target_offsets=ends)
    return {"d.npz": content}


def steps(count: int, *, value: bool) -> Files:
    """Rows of digits as series of 8 steps of 8 pixels, with their class or their mean brightness."""
    rows = DIGITS[:count].reshape(count, 8, 8)
    labels = rows.mean(axis=(1, 2)) if value else NUMBERS[:count]
    return {"d.npz": npz(x=rows, y=labels)}


@dataclass(frozen=True)
class Case:
    """One row: its program, what is uploaded, what is asked, and a candidate."""

    spec: Spec
    upload: Callable[[], Files]
    request: Callable[[], Files]
    candidate: str

    @property
    def is_network(self) -> bool:
        return is_network(CandidateName.parse(self.candidate))


CASES = {
    "image-classification": Case(
        spec_of("[Tensor[8, 8, 1]], []", "[Tensor[3]], []"),
        lambda: {"d.npz": npz(x=DIGITS[:60].reshape(-1, 8, 8), y=NUMBERS[:60])},
        lambda: {"q.npz": npz(x=DIGITS[60:63].reshape(-1, 8, 8))},
        "SmallCNN",
    ),
    "image-recovery": Case(
        spec_of("[Tensor[16, 16, 3]], []", "[Tensor[16, 16, 3]], []"),
        lambda: {"d.npz": npz(inputs=NOISY[:45], targets=CLEAN[:45])},
        lambda: {"q.npz": npz(inputs=NOISY[45:])},
        "auto-encoder",
    ),
    "series-classification": Case(
        spec_of("[Tensor[8]], [next]", "[Tensor[3]], []"),
        lambda: steps(60, value=False),
        lambda: {"q.jsonl": lines(*({"input": DIGITS[i].reshape(8, 8)[: 5 + i].tolist()} for i in range(3)))},
        "GRU",
    ),
    "series-regression": Case(
        spec_of("[Tensor[8]], [next]", "[Tensor[1]], []", "r2"),
        lambda: steps(60, value=True),
        lambda: {"q.npz": npz(x=DIGITS[60:63].reshape(-1, 8, 8))},
        "GRU",
    ),
    "series-translation": Case(
        spec_of("[Tensor[2]], [next]", "[Tensor[1]], [next]"),
        translation,
        lambda: {"q.jsonl": lines(*({"input": x.tolist()} for x in windows(3)[0]))},
        "seq2seq",
    ),
    "tree-classification": Case(
        spec_of(f"[Tensor[{WIDTH}]], [left, right]", "[Tensor[2]], []"),
        lambda: {"d.jsonl": lines(*({"label": name, "tree": tree} for name, tree in functions(30)))},
        lambda: {"q.jsonl": lines(*({"tree": tree} for _, tree in functions(3)))},
        "Tree-LSTM",
    ),
    "vector-classification": Case(
        spec_of("[Tensor[13]], []", "[Tensor[3]], []"),
        lambda: {"d.npz": npz(x=WINE[:-3], y=GROWERS[:-3])},
        lambda: {"q.jsonl": lines(*({"input": row.tolist()} for row in WINE[-3:]))},
        "LogisticRegression",
    ),
    "vector-regression": Case(
        spec_of("[Tensor[12]], []", "[Tensor[1]], []", "mae"),
        lambda: {"d.npz": npz(x=WINE[:-3, :12], y=WINE[:-3, 12])},
        lambda: {"q.npz": npz(x=WINE[-3:, :12])},
        "RidgeRegression",
    ),
    "general-classification": Case(
        spec_of("[Tensor[1, 1]], [next]", "[Tensor[2]], []"),
        files,
        lambda: {name.rpartition("/")[2]: content for name, content in list(files().items())[:3]},
        "bit-level-RNN",
    ),
    "general-autoencoder": Case(
        spec_of("[a :: Tensor[2], b :: Tensor[1]], []", "[Tensor[2], Tensor[1]], []"),
        lambda: {"d.jsonl": lines(*({"input": {"a": [i, -i], "b": i % 3}} for i in range(40)))},
        lambda: {"q.jsonl": lines(*({"input": {"a": [i, i], "b": 0.5}} for i in range(3)))},
        "bit-level-auto-encoder",
    ),
}


@pytest.mark.parametrize("row", CASES)
def test_from_files_to_predictions(row: str, make_order: MakeOrder, mlflow_url: str, tmp_path: Path) -> None:
    case = CASES[row]
    assert case.spec.template == row
    facts = build_version(
        put(tmp_path / "upload", "data", case.upload()),
        case.spec,
        parent=None,
        limits=Limits(),
        versions_dir=tmp_path / "versions",
        name=NAME,
    )
    folder = version_dir(tmp_path / "versions", NAME, facts.digest)
    path = make_order(
        case.candidate,
        facts.kind,
        facts.task_kind,
        template=row,
        objective=case.spec.objective,
        version_dir=folder,
        search={"learning_rate": 0.01} if case.is_network else {},
        max_epochs=1,
    )
    result = run_attempt(path.parent)
    assert result.outcome is Outcome.SUCCEEDED, result
    assert result.quality is not None
    assert 0 <= result.quality <= 1

    order, tracking = WorkOrder.read(path), Tracking(mlflow_url)
    model = f"clinic.{order.task}"
    tracking.set_champion(tracking.register(model, str(result.model_uri), str(result.mlflow_run_id), {}))
    request = put(tmp_path / "request", "", case.request())
    inputs = read_inputs(request, facts=facts, limits=Limits(), staging=tmp_path / "inputs")
    assert not inputs.problems
    output = tmp_path / "outputs.npy"
    asked: dict[str, Any] = {"mlflow_url": mlflow_url, "model": model, "output": str(output), "batch_size": 2}
    asked |= {part: str(inputs.folder / f"{part}.npy") for part in ARRAYS[facts.kind]}
    assert predict_files(asked)["n"] == 3
    ending, content = predictions_file(inputs.ids, np.load(output), facts, "1")
    check_predictions(ending, content, inputs.ids, open_version(folder).facts)

    # What is compared on later data is measured as a trial is.
    verdict = score_champion(Question(mlflow_url, model, "1", case.spec.objective, folder))
    assert verdict.reason == ""
    assert verdict.quality == pytest.approx(result.quality, rel=1e-4)
    assert verdict.score == pytest.approx(result.score, rel=1e-4)


def put(root: Path, folder: str, content: Files) -> Path:
    for name, data in content.items():
        path = root / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def check_predictions(ending: str, content: bytes, ids: list[str], facts: Any) -> None:
    """The file has an answer for each of three ids, of the shape and in the units of the data."""
    if facts.target_shape is None:
        assert ending == "csv"
        head, *rows = content.decode().splitlines()
        assert [line.split(",")[0] for line in rows] == ids
        assert head.startswith("id,class,probability_" if facts.classes else "id,value")
        return
    found = np.load(io.BytesIO(content), allow_pickle=False)
    assert (ending, found["id"].tolist()) == ("npz", ids)
    answers = found["prediction"]
    if facts.kind == "image":
        assert (answers.shape, answers.dtype) == ((3, *facts.target_shape), np.uint8)
    else:
        lengths = np.diff(found["offsets"])
        assert (lengths > 0).all()
        assert (lengths <= facts.target_max_length).all()
        assert answers.shape[0] == lengths.sum()
        assert answers.dtype == (np.uint8 if facts.kind == "bytes" else np.float32)
