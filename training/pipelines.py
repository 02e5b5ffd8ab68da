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

from easeml_core.naming import CandidateName
from easeml_core.workorder import WorkOrder
from training.device import seed_everything
from training.examples import Examples
from training.models import vectors
from training.package import EXAMPLE_ROWS, save_pipeline
from training.run_log import RunLog
from training.score import DivergedError, evaluate
from training.search import Finished, Search
from training.watch import Watch

log = logging.getLogger("training")


class PipelineTrainee:
    """Fits a pipeline per setting. A fit has no middle to resume from, so a checkpoint holds only scores;
    after a resume the best setting is fitted again, which gives the same pipeline (same seed)."""

    def __init__(self, order: WorkOrder, examples: Examples, watch: Watch, runs: RunLog) -> None:
        self.order, self.examples, self.watch, self.runs = order, examples, watch, runs
        self._fitted: tuple[dict[str, Any], Pipeline] | None = None

    def fit(self, index: int, setting: dict[str, Any], search: Search) -> Finished:
        """Fit one setting and score it on the validation split."""
        child = self.runs.child(index, setting)
        self.watch.epoch = 1
        pipeline = self._fit(setting)
        validation = self.examples.version.val
        scored = evaluate(
            self.order.objective,
            self.examples.facts,
            self.examples.targets(validation),
            self._predict(pipeline, validation),
        )
        log.info("setting %d, %s: %s %.4g", index + 1, setting, self.order.objective, scored.score)
        child.metrics({self.order.objective: scored.score, "quality": scored.quality}, 1)
        self.runs.close_child("done")
        if search.is_best(scored):
            self._fitted = setting, pipeline
        finished = Finished(setting, "done", scored.score, scored.quality, 1)
        search.checkpoint.save(
            {
                "finished": [vars(entry) for entry in [*search.finished, finished]],
                "accumulate": search.accumulate,
                "best_weights": None,
                "progress": None,
                "seconds": search.seconds + self.watch.compute_seconds,
            }
        )
        return finished

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
        smallest = 0
        if self.examples.is_classification:
            counts = np.bincount(targets.astype(np.int64), minlength=self.examples.facts.outputs)
            smallest = int(counts.min())
            if smallest == 0:
                raise ValueError(f"class number {int(counts.argmin())} has no training example")
        pipeline = vectors.build(
            CandidateName.parse(order.candidate).model,
            setting,
            is_classification=self.examples.is_classification,
            smallest_class=smallest,
            seed=order.seed,
            threads=order.threads,
        )
        with self.watch.interruptible(), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a worse score says the same
            try:
                pipeline.fit(self.examples.inputs(version.train), targets)
            except FloatingPointError as error:
                raise DivergedError(str(error)) from error
        return pipeline

    def _predict(self, pipeline: Pipeline, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.floating]:
        inputs = self.examples.inputs(indices)
        if self.examples.is_classification:
            return np.asarray(pipeline.predict_proba(inputs))
        return np.asarray(pipeline.predict(inputs)).reshape(len(inputs), -1)

    def _best(self, search: Search) -> Pipeline:
        assert search.best is not None
        if self._fitted is None or self._fitted[0] != search.best.setting:
            self._fitted = search.best.setting, self._fit(search.best.setting)
        return self._fitted[1]
