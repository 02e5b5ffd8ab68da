"""What every candidate of a plug-in must keep when it is trained; run it with pytest on yours.

    class TestMyModel(TrainedContract):
        def candidate(self): return my_package.MY_MODEL

The trials are real ones, as the service runs them, with MLflow's records in a temporary SQLite file.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from easeml_core.catalog.testing import CandidateContract
from easeml_core.data import Limits, build_version, open_version
from easeml_core.naming import TaskName, version_dir
from easeml_core.spec import Spec, load_spec
from easeml_core.workorder import ORDER_FILE, Outcome, TrialResult, WorkOrder
from training.child import prepare_environment
from training.examples import Examples
from training.trial import run_attempt

TASK = TaskName("contract", "task")
Trials = tuple[WorkOrder, list[TrialResult]]


class TrainedContract(CandidateContract):
    """Trains the candidate on the task that `write_task` writes, a small one of real data.

    By default that is iris for candidates of vector-classification, diabetes for vector-regression; for any
    other row, write one.
    """

    @pytest.fixture(scope="class")
    def trials(self, tmp_path_factory: pytest.TempPathFactory) -> Trials:
        """The same trial twice, and the order of the first."""
        prepare_environment()
        root = tmp_path_factory.mktemp("trained")
        (root / "task").mkdir()
        self.write_task(root / "task")
        spec = load_spec((root / "task" / "task.yaml").read_bytes())
        facts = build_version(
            root / "task", spec, parent=None, limits=Limits(), versions_dir=root / "versions", name=TASK
        )
        version = version_dir(root / "versions", TASK, facts.digest)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(root)  # where MLflow leaves a folder of its own
            url = _store(tmp_path_factory.getbasetemp(), root)
            attempts = [self._order(root, trial, spec, version, url) for trial in (1, 2)]
            return WorkOrder.read(attempts[0] / ORDER_FILE), [run_attempt(attempt) for attempt in attempts]

    def write_task(self, folder: Path) -> None:
        """Write `task.yaml` and `data/` into `folder`."""
        from sklearn import datasets

        rows = self.candidate().facts.templates
        if "vector-classification" in rows:
            _write(folder, datasets.load_iris(), "{input: {[Tensor[4]], []}, output: {[Tensor[3]], []}}")
        elif "vector-regression" in rows:
            _write(folder, datasets.load_diabetes(), "{input: {[Tensor[10]], []}, output: {[Tensor[1]], []}}")
        else:
            raise NotImplementedError(f"say what a task of {', '.join(sorted(rows))} is: override write_task")

    def _order(self, root: Path, trial: int, spec: Spec, version: Path, url: str) -> Path:
        facts = self.candidate().facts
        folder = root / f"trial-{trial}" / "attempt-1"
        folder.mkdir(parents=True)
        WorkOrder(
            trial_id=trial,
            attempt=1,
            tenant=TASK.tenant,
            task=TASK.task,
            template=spec.template,
            candidate=facts.name,
            version_dir=str(version),
            version_digest="0" * 64,
            objective=spec.objective,
            device="cpu0",
            seed=11,
            search=facts.search.document(),
            max_settings=facts.max_settings,
            max_epochs=facts.epochs,
            batch_size=facts.batch_size,
            patience=facts.patience,
            limit_seconds=600.0,
            leash_seconds=600.0,
            checkpoint_dir=str(folder.parent / "checkpoint"),
            mlflow_url=url,
            experiment=root.name,
        ).write(folder / ORDER_FILE)
        return folder

    def test_a_trial_succeeds(self, trials: Trials) -> None:
        """With every setting of its space tried, and better than chance or than the mean."""
        _, results = trials
        for result in results:
            assert result.outcome is Outcome.SUCCEEDED, result.reason
            assert result.quality is not None
            assert result.quality > 0.5

    def test_the_same_seed_gives_the_same_score(self, trials: Trials) -> None:
        """So that a trial that is taken over ends as it would have."""
        _, (first, second) = trials
        assert first.score == pytest.approx(second.score)

    def test_its_model_answers_for_new_inputs(self, trials: Trials) -> None:
        """Loaded by MLflow from the registry: one row per input, probabilities where there are classes."""
        import mlflow

        order, results = trials
        mlflow.set_tracking_uri(order.mlflow_url)
        model = mlflow.pyfunc.load_model(str(results[1].model_uri))
        examples = Examples(open_version(Path(order.version_dir)))
        inputs = examples.inputs(examples.version.val)
        answers: Any = np.asarray(model.predict(inputs))
        assert answers.shape == (len(inputs), examples.facts.outputs)
        assert np.isfinite(answers).all()
        if examples.is_classification:
            np.testing.assert_allclose(answers.sum(axis=1), 1.0, atol=1e-4)


def _store(shared: Path, root: Path) -> str:
    """A store for all contracts of a run, whose schema takes seconds to make; artifacts go below `root`."""
    from mlflow import MlflowClient

    url = f"sqlite:///{shared}/contract-mlflow.db"
    MlflowClient(url).create_experiment(root.name, artifact_location=(root / "artifacts").as_uri())
    return url


def _write(folder: Path, table: Any, program: str) -> None:
    (folder / "data").mkdir()
    (folder / "task.yaml").write_text(f"program: '{program}'\n")
    with (folder / "data" / "rows.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow([*(f"x{number}" for number in range(table.data.shape[1])), "label"])
        labels = table.target_names[table.target] if "target_names" in table else table.target
        rows.writerows([*x, y] for x, y in zip(table.data.tolist(), labels.tolist(), strict=True))
