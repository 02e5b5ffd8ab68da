"""The contracts of ease.ml, run on what this package adds. It must be installed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from easeml_extra_trees import EXTRA_TREES, MATRIX
from sklearn.datasets import load_digits

from easeml_core.catalog import Candidate
from easeml_core.language import Template
from easeml_core.language.testing import TemplateContract
from training.models.testing import TrainedContract

PROGRAM = "{input: {[Tensor[8, 8]], []}, output: {[Tensor[10]], []}}"


class TestMatrix(TemplateContract):
    def template(self) -> Template:
        return MATRIX

    def programs(self) -> list[str]:
        return [PROGRAM, "{input: {[pixels :: Tensor[2, 500]], []}, output: {[Tensor[2]], []}}"]


class TestExtraTrees(TrainedContract):
    def candidate(self) -> Candidate:
        return EXTRA_TREES


class TestExtraTreesOnMatrices(TrainedContract):
    """Handwritten digits as matrices: the row and the candidate together."""

    def candidate(self) -> Candidate:
        return EXTRA_TREES

    def write_task(self, folder: Path) -> None:
        digits = load_digits()
        rows = np.column_stack([digits.data, digits.target])[:400]
        names = [f"p{number}" for number in range(64)] + ["label"]
        (folder / "data").mkdir()
        np.savetxt(folder / "data" / "digits.csv", rows, "%d", ",", header=",".join(names), comments="")
        (folder / "task.yaml").write_text(f"program: '{PROGRAM}'\n")
