"""A trained candidate as an MLflow model that needs none of our code to load and answer.

Networks become torch.export programs (MLflow's `pt2` form: no pickle), scikit-learn pipelines skops files.
Requirements are given, never inferred: inferring loads the model in another interpreter, for seconds.
Contract of both (through `mlflow.pyfunc`): raw inputs in; probabilities or values `(N, K)`, recovered images
`(N, D, E, F)`, series `(N, S, E)` with NaN after their ends, or bytes `(N, S)` out.
"""

from __future__ import annotations

import importlib.metadata
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.pipeline import Pipeline

from easeml_core.data import VersionFacts
from training.examples import Examples
from training.models.network import Network
from training.models.preprocess import FixedLength

EXAMPLE_ROWS = 2  # torch.export fixes a dimension of size 1, so the example has two
_TRUSTED = ("sklearn.", "numpy.", "scipy.", "builtins.")
# Compiled types of scikit-learn in our candidates. Finding them out means dumping a forest twice (0.3 s).
_COMPILED = (
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.metrics._dist_metrics.EuclideanDistance32",
    "sklearn.metrics._dist_metrics.EuclideanDistance64",
    "sklearn.neighbors._kd_tree.KDTree",
    "sklearn.tree._tree.Tree",
)


def example_of(examples: Examples) -> npt.NDArray[np.float32]:
    """The first `EXAMPLE_ROWS` training examples, the one there is repeated."""
    example = examples.inputs(examples.version.train[:EXAMPLE_ROWS])
    return np.repeat(example, EXAMPLE_ROWS, axis=0) if len(example) < EXAMPLE_ROWS else example


def save_network(
    network: Network, facts: VersionFacts, example: npt.NDArray[np.float32], model: Any, folder: Path
) -> None:
    """Save a network as a pt2 model; `example` `(2, …)` is the input that is traced."""
    import mlflow.pytorch

    exported = network.cpu().eval()
    exported.forget_training()
    is_long = facts.kind not in ("image", "vector")
    module = FixedLength(exported, facts.max_length or 1) if is_long else exported
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    with torch.no_grad():
        answer = module(torch.from_numpy(example)).numpy()
    with warnings.catch_warnings():
        # torch.export says of recurrent layers that it saw their flat weights; they are parameters.
        warnings.filterwarnings("ignore", message="The tensor attributes")
        mlflow.pytorch.save_model(
            module,
            str(folder),
            mlflow_model=model,
            signature=_signature(example, answer, variable_length=is_long),
            input_example=example,
            pip_requirements=_requirements("mlflow", "torch", "numpy"),
            serialization_format="pt2",
            metadata=_metadata(facts),
        )
    # An exported program stays on the device it was exported on. Without this, a host with a GPU would
    # ask for it there and refuse to load the model.
    model.flavors["python_function"]["config"] = {"device": "cpu"}
    model.save(str(folder / "MLmodel"))


def save_pipeline(
    pipeline: Pipeline, facts: VersionFacts, example: npt.NDArray[np.float32], model: Any, folder: Path
) -> None:
    """Save a fitted scikit-learn pipeline as a skops model.

    skops refuses types it does not know; those of scikit-learn and its libraries are declared, any other
    would be a type of ours that no clean process has, and is refused here (ValueError).
    """
    import mlflow.sklearn
    from mlflow.exceptions import MlflowException

    method = "predict_proba" if facts.task_kind == "classification" else "predict"

    def save(trusted: list[str]) -> None:
        mlflow.sklearn.save_model(
            pipeline,
            str(folder),
            mlflow_model=model,
            signature=_signature(example, getattr(pipeline, method)(example)),
            input_example=example,
            pip_requirements=_requirements("mlflow", "scikit-learn", "skops", "numpy"),
            serialization_format="skops",
            skops_trusted_types=trusted,
            pyfunc_predict_fn=method,
            metadata=_metadata(facts),
        )

    try:
        save(list(_COMPILED))
    except MlflowException:  # it holds others
        shutil.rmtree(folder, ignore_errors=True)
        save(_unknown_types(pipeline))


def _unknown_types(pipeline: Pipeline) -> list[str]:
    """Types in a pipeline that skops wants declared; raises ValueError where one is no library's."""
    import skops.io

    unknown = skops.io.get_untrusted_types(data=skops.io.dumps(pipeline))
    foreign = [name for name in unknown if not name.startswith(_TRUSTED)]
    if foreign:
        raise ValueError(f"the model holds types that a clean process does not know: {', '.join(foreign)}")
    return list(unknown)


def _signature(example: npt.NDArray[Any], answer: npt.NDArray[Any], *, variable_length: bool = False) -> Any:
    from mlflow.models import ModelSignature
    from mlflow.types import Schema, TensorSpec

    free = 2 if variable_length else 1
    inputs = TensorSpec(example.dtype, (-1,) * free + example.shape[free:])
    outputs = TensorSpec(answer.dtype, (-1, *answer.shape[1:]))
    return ModelSignature(Schema([inputs]), Schema([outputs]))


def _requirements(*packages: str) -> list[str]:
    return [f"{name}=={importlib.metadata.version(name).partition('+')[0]}" for name in packages]


def _metadata(facts: VersionFacts) -> dict[str, Any]:
    return {
        "task_kind": facts.task_kind,
        "classes": list(facts.classes) if facts.classes else None,
        "kind": facts.kind,
        "shape": list(facts.shape),
        "data_version": facts.digest,
    }
