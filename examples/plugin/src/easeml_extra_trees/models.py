"""What the trainer imports, and nobody else."""

from __future__ import annotations

from sklearn.base import BaseEstimator
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

from easeml_extra_trees import TREES


def extra_trees(is_classification: bool, seed: int, threads: int) -> BaseEstimator:
    """Extremely randomised trees (Geurts, Ernst and Wehenkel, Machine Learning 63, 2006)."""
    family = ExtraTreesClassifier if is_classification else ExtraTreesRegressor
    return family(TREES, random_state=seed, n_jobs=threads)
