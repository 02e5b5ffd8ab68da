"""The job `predict`: a champion's answers for arrays on disk.

Order: `mlflow_url`, `model` (`<tenant>.<task>`), `inputs` (`.npy` of images `(N, H, W, C)` or vectors `(N,
D)`), or for series, trees and bytes `values` (`(total, D)`), `offsets` (`(N + 1,)`) and of trees `children`
(`(total, R)`), `output` (the `.npy` to write), optionally `threads` and `batch_size`. Answer:
`model_version`, `run_id`, `n`, `metadata`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from easeml_core.errors import OperatorError, TemporaryError
from easeml_core.naming import CHAMPION_ALIAS
from easeml_core.tracking import Tracking
from training import device
from training.examples import padded

_BATCH = 256


def predict_files(order: dict[str, Any]) -> dict[str, Any]:
    """Write the champion's answers `(N, …)` float32 to `output`, aside and renamed.

    Raises TemporaryError where the task has no champion (yet) or MLflow does not answer, OperatorError
    where the model refuses the arrays' shapes.
    """
    import mlflow.pyfunc
    from mlflow.exceptions import MlflowException

    device.use_threads(int(order.get("threads", 1)))
    tracking = Tracking(order["mlflow_url"])
    champion = tracking.champion(order["model"])
    if champion is None:
        raise TemporaryError(f"{order['model']} has no {CHAMPION_ALIAS} yet")
    mlflow.set_tracking_uri(order["mlflow_url"])
    mlflow.set_registry_uri(order["mlflow_url"])
    # By version, not by alias: the answer must say which version gave it, also while it is replaced.
    model = mlflow.pyfunc.load_model(f"models:/{champion.name}/{champion.version}")
    size = int(order.get("batch_size", _BATCH))
    try:
        answers = [np.asarray(model.predict(batch)) for batch in _batches(order, size)]
    except MlflowException as error:
        raise OperatorError(f"the model refuses the inputs: {error.message}") from error
    output = Path(order["output"])
    result = np.concatenate(answers) if answers else np.zeros((0, 0))
    aside = output.with_name(f".{output.name}.{os.getpid()}.npy")
    np.save(aside, result.astype(np.float32))
    aside.replace(output)
    return {
        "model_version": champion.version,
        "run_id": champion.run_id,
        "n": len(result),
        "metadata": model.metadata.metadata or {},
    }


def _batches(order: dict[str, Any], size: int) -> list[npt.NDArray[np.float32]]:
    if "inputs" in order:
        inputs = np.load(order["inputs"], mmap_mode="r", allow_pickle=False)
        return [np.asarray(inputs[i : i + size], np.float32) for i in range(0, len(inputs), size)]
    values = np.load(order["values"], mmap_mode="r", allow_pickle=False)
    offsets = np.load(order["offsets"], allow_pickle=False)
    children = np.load(order["children"], mmap_mode="r", allow_pickle=False) if "children" in order else None
    rows = np.arange(len(offsets) - 1)
    return [padded(values, offsets, rows[i : i + size], children) for i in range(0, len(rows), size)]
