"""Classes of different size, where the objective counts each class the same."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from training.examples import Examples

# What these measure is won on the rare classes, whatever share of the examples they are.
COUNT_CLASSES_THE_SAME = frozenset({"balanced_accuracy"})
MOST = 20.0  # a class of very few examples must not decide alone


def class_weights(examples: Examples, objective: str) -> npt.NDArray[np.float32] | None:
    """What an example of each class counts in training, `(K,)`; None where all count the same.

    N / (K · n_k) for a class of n_k examples, as scikit-learn's `balanced`, and at most `MOST`.
    """
    if not examples.is_classification or objective not in COUNT_CLASSES_THE_SAME:
        return None
    classes = examples.targets(examples.version.train).astype(np.int64)
    counts = np.bincount(classes, minlength=examples.facts.outputs)
    return np.minimum(len(classes) / (len(counts) * np.maximum(counts, 1)), MOST).astype(np.float32)
