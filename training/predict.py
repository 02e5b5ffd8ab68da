"""The job `predict`: a champion's answers for arrays on disk.

Order: `mlflow_url`, `model` (`<tenant>.<task>`), `inputs` (`.npy` of images `(N, H, W, C)` or vectors `(N,
D)`), or for series, trees and bytes `values` (`(total, D)`), `offsets` (`(N + 1,)`) and of trees `children`
(`(total, R)`), `output` (the `.npy` to write), optionally `threads` and `batch_size`. Answer:
`model_version`, `run_id`, `n`, `metadata`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from easeml_core.errors import OperatorError, TemporaryError
from easeml_core.naming import CHAMPION_ALIAS
from easeml_core.tracking import Tracking, away
from training import device
from training.examples import padded

BATCH = 256


def predict_files(order: dict[str, Any]) -> dict[str, Any]:
    """Write the champion's answers `(N, …)` float32 to `output`, aside and renamed.

    Raises TemporaryError where the task has no champion (yet) or MLflow does not answer, OperatorError
    where the model refuses the arrays' shapes.
    """
    device.use_threads(int(order.get("threads", 1)))
    tracking = Tracking(order["mlflow_url"])
    champion = tracking.champion(order["model"])
    if champion is None:
        raise TemporaryError(f"{order['model']} has no {CHAMPION_ALIAS} yet")
    # By version, not by alias: the answer must say which version gave it, also while it is replaced.
    model = load_model(order["mlflow_url"], champion.name, champion.version)
    output = Path(order["output"])
    result = ask(model, _batches(order, int(order.get("batch_size", BATCH))))
    aside = output.with_name(f".{output.name}.{os.getpid()}.npy")
    np.save(aside, result.astype(np.float32))
    aside.replace(output)
    return {
        "model_version": champion.version,
        "run_id": champion.run_id,
        "n": len(result),
        "metadata": model.metadata.metadata or {},
    }


def load_model(mlflow_url: str, name: str, version: str) -> Any:
    """A version of a registered model, ready to answer.

    Raises TemporaryError where MLflow does not answer, MlflowException where it has no such model.
    """
    import mlflow.pyfunc

    mlflow.set_tracking_uri(mlflow_url)
    mlflow.set_registry_uri(mlflow_url)
    with away():
        return mlflow.pyfunc.load_model(f"models:/{name}/{version}")


def ask(model: Any, batches: Iterable[npt.NDArray[np.float32]]) -> npt.NDArray[Any]:
    """The model's answers `(N, …)` to all batches; raises OperatorError where it refuses their shape."""
    from mlflow.exceptions import MlflowException

    try:
        answers = [np.asarray(model.predict(batch)) for batch in batches]
    except MlflowException as error:
        raise OperatorError(f"the model refuses the inputs: {error.message}") from error
    return np.concatenate(answers) if answers else np.zeros((0, 0))


def _batches(order: dict[str, Any], size: int) -> list[npt.NDArray[np.float32]]:
    if "inputs" in order:
        inputs = np.load(order["inputs"], mmap_mode="r", allow_pickle=False)
        return [np.asarray(inputs[i : i + size], np.float32) for i in range(0, len(inputs), size)]
    values = np.load(order["values"], mmap_mode="r", allow_pickle=False)
    offsets = np.load(order["offsets"], allow_pickle=False)
    children = np.load(order["children"], mmap_mode="r", allow_pickle=False) if "children" in order else None
    rows = np.arange(len(offsets) - 1)
    return [padded(values, offsets, rows[i : i + size], children) for i in range(0, len(rows), size)]
