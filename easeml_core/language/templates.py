"""The template table, as data, and how a program finds its row.

Rows are matched top to bottom and the first hit wins (Li et al., Ease.ml, PVLDB 11(5), table of template
models). Ours are the two flat-vector rows, which stand before the general ones that would take them, and
`series-regression`.
"""

from __future__ import annotations

from dataclasses import dataclass

from easeml_core.language.pattern import Bindings, Mismatch, parse_pattern
from easeml_core.language.program import Program

CLASSIFICATION = ("accuracy", "balanced_accuracy", "f1_macro", "roc_auc", "log_loss")
REGRESSION = ("mse", "mae", "r2")
RECOVERY = ("psnr", "mse", "mae")


@dataclass(frozen=True, slots=True)
class Template:
    """One row: `input` and `output` are patterns; `models` are the names the row lists, whether or not the
    catalogue can train them yet; `objectives` are those that make sense, the default first.

    Rows that are `told_by_objective` share their patterns, and the objective decides between them.
    """

    id: str
    input: str
    output: str
    workload: str
    models: tuple[str, ...]
    objectives: tuple[str, ...]
    told_by_objective: bool = False

    @property
    def form(self) -> str:
        """The row as people read it: `{[Tensor[A]], []} → {[Tensor[D]], []}`."""
        return f"{self.input} → {self.output}"


@dataclass(frozen=True, slots=True)
class Miss:
    """A row that did not match, and why."""

    template: str
    reason: str


@dataclass(frozen=True, slots=True)
class Match:
    """The first row that fits, what its variables stand for, and why each row above it did not fit."""

    template: Template
    bindings: Bindings
    misses: tuple[Miss, ...]


_SERIES_MODELS = ("RNN", "LSTM", "bi-LSTM", "GRU")
_VECTOR_MODELS = ("RandomForest", "GradientBoosting", "SVM", "KNN", "MLP")

TEMPLATES: tuple[Template, ...] = (
    Template(
        "image-classification",
        "{[Tensor[A, B, C]], []}",
        "{[Tensor[D]], []}",
        "image or tensor classification",
        ("AlexNet", "ResNet", "GoogLeNet", "SqueezeNet", "VGG", "NIN", "BN-AlexNet")
        + ("MobileNetV3", "EfficientNet", "ConvNeXt", "ViT"),
        CLASSIFICATION,
    ),
    Template(
        "image-recovery",
        "{[Tensor[A, B, C]], []}",
        "{[Tensor[D, E, F]], []}",
        "image or tensor recovery",
        ("auto-encoder", "GAN", "pix2pix"),
        RECOVERY,
    ),
    Template(
        "series-classification",
        "{[Tensor[A], *], [a]}",
        "{[Tensor[D]], []}",
        "time-series classification",
        _SERIES_MODELS,
        CLASSIFICATION,
        told_by_objective=True,
    ),
    Template(
        "series-regression",
        "{[Tensor[A], *], [a]}",
        "{[Tensor[D]], []}",
        "regression on time series",
        _SERIES_MODELS,
        REGRESSION,
        told_by_objective=True,
    ),
    Template(
        "series-translation",
        "{[Tensor[A], *], [a]}",
        "{[Tensor[D], *], [b]}",
        "time-series translation",
        ("seq2seq",),
        REGRESSION,
    ),
    Template(
        "tree-classification",
        "{[Tensor[A], *], [a, b]}",
        "{[Tensor[D]], []}",
        "tree classification",
        ("Tree-RNN", "tree-kernel SVM"),
        CLASSIFICATION,
    ),
    Template(
        "vector-classification",
        "{[Tensor[A]], []}",
        "{[Tensor[D]], []}",
        "classification of flat vectors",
        ("LogisticRegression", *_VECTOR_MODELS),
        CLASSIFICATION,
        told_by_objective=True,
    ),
    Template(
        "vector-regression",
        "{[Tensor[A]], []}",
        "{[Tensor[D]], []}",
        "regression on flat vectors",
        ("RidgeRegression", *_VECTOR_MODELS),
        REGRESSION,
        told_by_objective=True,
    ),
    Template(
        "general-classification",
        "{*, *}",
        "{[Tensor[D]], []}",
        "general classification",
        ("bit-level RNN",),
        CLASSIFICATION,
    ),
    Template(
        "general-autoencoder",
        "{*, *}",
        "{*, *}",
        "general auto-encoder",
        ("bit-level auto-encoder",),
        RECOVERY,
    ),
)


def template(template_id: str) -> Template:
    """The row of this id. Raises KeyError."""
    for row in TEMPLATES:
        if row.id == template_id:
            return row
    raise KeyError(template_id)


def match(program: Program, objective: str | None = None) -> Match:
    """Find the first row that fits; the last row takes anything, so there always is one.

    `objective` tells rows apart that share their patterns: a flat vector or a series to `Tensor[K]` is a
    regression when the objective is one of `REGRESSION`, or when none is given and K is 1; else a
    classification.
    """
    misses = []
    for row in TEMPLATES:
        try:
            bindings = _fit(row, program, objective)
        except Mismatch as reason:
            misses.append(Miss(row.id, str(reason)))
        else:
            return Match(row, bindings, tuple(misses))
    raise AssertionError("the last row takes anything")


def _fit(row: Template, program: Program, objective: str | None) -> Bindings:
    bindings: Bindings = {}
    sides = (("input", row.input, program.input), ("output", row.output, program.output))
    for side, pattern, data_type in sides:
        try:
            bindings = parse_pattern(pattern).bind(data_type, bindings)
        except Mismatch as reason:
            raise Mismatch(f"the {side} {reason}") from None
    if row.told_by_objective:
        regression = objective in REGRESSION or (objective is None and bindings["D"] == 1)
        if regression != (row.objectives is REGRESSION):
            why = f"the objective {objective}" if objective else f"an output of size {bindings['D']}"
            raise Mismatch(f"{why} asks for {'regression' if regression else 'classification'}")
    return bindings
