"""Scores a champion on the validation split of a data version other than its own.

The model is asked as a tenant would ask it: as packaged, through MLflow alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from mlflow.exceptions import MlflowException

from easeml_core.data import open_version
from easeml_core.errors import OperatorError
from easeml_core.service.rescore import Question, Verdict
from training import device
from training.examples import Examples, batches
from training.predict import BATCH, ask, load_model
from training.score import DivergedError, evaluate


def score_champion(question: Question) -> Verdict:
    """What the model reaches under the task's objective; a model that cannot be scored is a verdict, too.

    Raises TemporaryError where MLflow does not answer, OperatorError where the data is not there.
    """
    device.use_threads(1)
    examples = Examples(open_version(question.version_dir))
    validation, facts = examples.version.val, examples.facts
    try:
        model = load_model(question.mlflow_url, question.model, question.model_version)
    except MlflowException as error:
        return Verdict(reason=f"its model cannot be loaded: {error.message}")
    inputs = (examples.inputs(part) for part in batches(validation, BATCH))
    try:
        answers = ask(model, inputs)
    except OperatorError as error:
        return Verdict(reason=str(error))
    if facts.classes is not None:
        known = (model.metadata.metadata or {}).get("classes") or ()
        answers = by_name(answers, known, facts.classes)
        facts = facts.model_copy(update={"outputs": answers.shape[1]})
    try:
        scored = evaluate(question.objective, facts, examples.targets(validation), answers)
    except DivergedError as error:
        return Verdict(reason=str(error))
    return Verdict(scored.score, scored.quality)


def by_name(
    answers: npt.NDArray[np.floating], known: Sequence[str], wanted: Sequence[str]
) -> npt.NDArray[np.floating]:
    """Probabilities `(N, K)`, of which the first columns are for the classes `known`, as `(N, K')` with those
    of the classes `wanted` first.

    A class that is not known has the probability 0. Columns of no class that is wanted come last, so that an
    answer for one stays a wrong answer.
    """
    position = {name: column for column, name in enumerate(known)}
    columns = [answers[:, position[name]] if name in position else np.zeros(len(answers)) for name in wanted]
    rest = [answers[:, i] for i in range(answers.shape[1]) if i >= len(known) or known[i] not in wanted]
    return np.stack(columns + rest, axis=1)
