"""A packaged pipeline holds nothing that a clean process does not know."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from mlflow.models import Model
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.ensemble import ExtraTreesClassifier, VotingClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline

from easeml_core.data import VersionFacts
from training.package import save_pipeline


class Ours(TransformerMixin, BaseEstimator):
    """A transformer that only this process has."""

    def fit(self, inputs: object, targets: object = None) -> Ours:
        return self

    def transform(self, inputs: np.ndarray) -> np.ndarray:
        return inputs


INPUTS = np.random.default_rng(1).random((40, 3)).astype(np.float32)
FACTS = VersionFacts.model_construct(
    task_kind="classification", classes=("a", "b"), kind="vector", shape=(3,), digest="0" * 64
)


def _save(pipeline: Pipeline, folder: Path) -> None:
    pipeline.fit(INPUTS, (INPUTS[:, 0] > 0.5).astype(np.int64))
    save_pipeline(pipeline, FACTS, INPUTS[:2], Model(), folder)


def test_compiled_types_that_were_not_foreseen_are_found_out(tmp_path: Path) -> None:
    import mlflow.pyfunc

    ball = KNeighborsClassifier(algorithm="ball_tree", metric="manhattan")  # none of our candidates
    pipeline = make_pipeline(VotingClassifier([("b", ball), ("t", ExtraTreesClassifier(3))], voting="soft"))
    _save(pipeline, tmp_path / "model")
    answer = mlflow.pyfunc.load_model(str(tmp_path / "model")).predict(INPUTS)
    assert answer == pytest.approx(pipeline.predict_proba(INPUTS))


def test_a_type_of_our_own_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Ours"):
        _save(make_pipeline(Ours(), KNeighborsClassifier()), tmp_path / "model")
