"""Finds examples that are likely mislabelled: confident learning on out-of-fold predictions.

Northcutt, Jiang and Chuang, "Confident Learning: Estimating Uncertainty in Dataset Labels", JAIR 70 (2021):
a class counts as likely for an example where its predicted probability is at least the mean of that
probability over the examples labelled so (equation 2); an example whose most probable likely class is not
its label is a suspect. Suspects are ranked by the margin p(label) - p(likely class).

Each example is predicted by a model that has not seen it, nor a copy of it. Nothing is changed here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from easeml_core.data.features import features
from easeml_core.data.version import Version

FOLDS = 5
FEWEST = 2 * FOLDS  # different examples that a class needs for its members to be judged
_TREES = 200


@dataclass(frozen=True, slots=True)
class Suspect:
    """An example whose label is in doubt; `margin` is below 0, the lower the likelier it is wrong."""

    id: str
    given: str
    likely: str
    margin: float


@dataclass(frozen=True, slots=True)
class Suspicion:
    """What came of looking: `suspects`, worst first, out of `judged` examples. `not_judged` counts the
    examples of classes with fewer than `FEWEST` different ones."""

    suspects: tuple[Suspect, ...]
    judged: int
    not_judged: dict[str, int]


def find_suspects(version: Version, *, most: int | None = None, seed: int = 0) -> Suspicion:
    """The suspects among the examples in use; with `most` the so many worst of all, suspects or not.

    Raises ValueError where the task is no classification.
    """
    classes = version.facts.classes
    if classes is None:
        raise ValueError("only classes can be told to be mislabelled")
    used = np.sort(np.concatenate([version.train, version.val]))
    labels = np.asarray(version.targets[used])
    contents = np.array(version.manifest["content"])[used]
    different = [len(set(contents[labels == number])) for number in range(len(classes))]
    judged = np.array(different)[labels] >= FEWEST
    not_judged = {
        name: int((labels == i).sum()) for i, name in enumerate(classes) if 0 < different[i] < FEWEST
    }
    positions, labels, contents = used[judged], labels[judged], contents[judged]
    known = np.unique(labels)
    if len(known) < 2:
        return Suspicion((), 0, not_judged)
    given = np.searchsorted(known, labels)
    probabilities = out_of_fold(features(version, positions), given, contents, seed=seed)
    likely, margin, confident = rank(probabilities, given)
    order = np.argsort(margin, kind="stable")
    chosen = order[confident[order]] if most is None else order[:most]
    ids = version.ids
    suspects = [
        Suspect(
            ids[int(positions[i])],
            classes[int(known[given[i]])],
            classes[int(known[likely[i]])],
            float(margin[i]),
        )
        for i in chosen.tolist()
    ]
    return Suspicion(tuple(suspects), len(positions), not_judged)


def out_of_fold(
    inputs: npt.NDArray[np.float32],
    labels: npt.NDArray[np.int64],
    groups: npt.NDArray[np.str_],
    *,
    seed: int,
) -> npt.NDArray[np.float64]:
    """Probabilities (N, K) of each example by a model that saw no example of its group; labels are 0..K-1.

    Randomised trees: they need no scaling, fit any boundary, and a few wrong labels move them little.
    """
    from sklearn.ensemble import ExtraTreesClassifier
    from sklearn.model_selection import StratifiedGroupKFold

    probabilities = np.zeros((len(labels), int(labels.max()) + 1))
    folds = StratifiedGroupKFold(FOLDS, shuffle=True, random_state=seed)
    for train, held in folds.split(inputs, labels, groups):
        model = ExtraTreesClassifier(_TREES, min_samples_leaf=2, random_state=seed)
        model.fit(inputs[train], labels[train])
        # A class may be missing in a fold's training part; its probability there is 0.
        probabilities[np.ix_(held, model.classes_)] = model.predict_proba(inputs[held])
    return probabilities


def rank(
    probabilities: npt.NDArray[np.float64], labels: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Of each example the most probable class beside its label, the margin, and whether it is a suspect."""
    rows = np.arange(len(labels))
    own = probabilities[rows, labels]
    others = probabilities.copy()
    others[rows, labels] = -1
    likely = others.argmax(axis=1)
    margin = own - others[rows, likely]
    thresholds = np.array([own[labels == k].mean() for k in range(probabilities.shape[1])])
    confident = np.where(probabilities >= thresholds, probabilities, -1)
    best = confident.argmax(axis=1)
    return likely, margin, (confident[rows, best] >= 0) & (best != labels) & (margin < 0)
