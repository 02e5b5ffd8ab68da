"""A scikit-learn pipeline as the search's trainee."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import has_fit_parameter

from easeml_core.naming import CandidateName
from easeml_core.workorder import WorkOrder
from training.device import seed_everything
from training.examples import Examples
from training.imbalance import class_weights
from training.models import vectors
from training.package import EXAMPLE_ROWS, save_pipeline
from training.run_log import RunLog
from training.score import DivergedError, evaluate
from training.search import Search, Tried
from training.watch import Watch

log = logging.getLogger("training")


class PipelineTrainee:
    """Fits a pipeline per setting. A fit has no middle to resume from, so a checkpoint holds only scores;
    after a resume the best setting is fitted again, which gives the same pipeline (same seed)."""

    def __init__(self, order: WorkOrder, examples: Examples, watch: Watch, runs: RunLog) -> None:
        self.order, self.examples, self.watch, self.runs = order, examples, watch, runs
        self._fitted: tuple[dict[str, Any], Pipeline] | None = None

    @property
    def most_pieces(self) -> int:
        """A fit takes all examples at once."""
        return 1

    def fit(self, index: int, tried: Tried, epochs: int, search: Search) -> None:
        """Fit one setting and score it on the validation split; one epoch is all there is."""
        child = self.runs.child(index, tried.setting)
        self.watch.epoch = epochs
        pipeline = self._fit(tried.setting)
        validation = self.examples.version.val
        scored = evaluate(
            self.order.objective,
            self.examples.facts,
            self.examples.targets(validation),
            self._predict(pipeline, validation),
        )
        log.info("setting %d, %s: %s %.4g", index + 1, tried.setting, self.order.objective, scored.score)
        child.metrics({self.order.objective: scored.score, "quality": scored.quality}, 1)
        tried.note(scored, [scored.quality])
        tried.state = child.state = "done"
        if search.best == index:
            self._fitted = tried.setting, pipeline
        search.save(self.watch.compute_seconds)

    def answers(self, search: Search, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.floating]:
        """The best setting's answers for examples of the data version."""
        return self._predict(self._best(search), indices)

    def save(self, search: Search, model: Any, folder: Path) -> None:
        """Save the best setting's pipeline as an MLflow model."""
        example = self.examples.inputs(self.examples.version.train[:EXAMPLE_ROWS])
        save_pipeline(self._best(search), self.examples.facts, example, model, folder)

    def _fit(self, setting: dict[str, Any]) -> Pipeline:
        order, version = self.order, self.examples.version
        seed_everything(order.seed)
        targets = self.examples.targets(version.train)
        smallest = self.check_classes(targets)
        pipeline = vectors.build(
            CandidateName.parse(order.candidate).model,
            setting,
            is_classification=self.examples.is_classification,
            smallest_class=smallest,
            seed=order.seed,
            threads=order.threads,
        )
        weighted = {}
        step, estimator = pipeline.steps[-1]
        weights = self.example_weights(targets)
        if weights is not None and has_fit_parameter(estimator, "sample_weight"):
            weighted[f"{step}__sample_weight"] = weights
        with self.watch.interruptible(), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a worse score says the same
            try:
                pipeline.fit(self.examples.inputs(version.train), targets, **weighted)
            except FloatingPointError as error:
                raise DivergedError(str(error)) from error
        return pipeline

    def example_weights(self, targets: npt.NDArray[Any]) -> npt.NDArray[np.float32] | None:
        """What each training example counts, `(N,)`; None where all count the same."""
        weights = class_weights(self.examples, self.order.objective)
        return None if weights is None else weights[targets]

    def check_classes(self, targets: npt.NDArray[Any]) -> int:
        """Examples of the rarest class, 0 for values; raises ValueError on a class without any.

        A program may have outputs beyond the classes of the data, room for those to come.
        """
        classes = self.examples.facts.classes
        if classes is None:
            return 0
        counts = np.bincount(targets.astype(np.int64), minlength=len(classes))
        if counts.min() == 0:
            raise ValueError(f"class number {int(counts.argmin())} has no training example")
        return int(counts.min())

    def _predict(self, pipeline: Pipeline, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.floating]:
        inputs = self.examples.inputs(indices)
        if self.examples.is_classification:
            known = np.asarray(pipeline.predict_proba(inputs))
            return np.pad(known, ((0, 0), (0, self.examples.facts.outputs - known.shape[1])))
        return np.asarray(pipeline.predict(inputs)).reshape(len(inputs), -1)

    def _best(self, search: Search) -> Pipeline:
        assert search.best is not None
        setting = search.tried[search.best].setting
        if self._fitted is None or self._fitted[0] != setting:
            self._fitted = setting, self._fit(setting)
        return self._fitted[1]
