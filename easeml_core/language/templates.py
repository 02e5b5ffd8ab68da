"""The rows of the template table that come with ease.ml, as data.

Rows are matched top to bottom and the first hit wins (Li et al., Ease.ml, PVLDB 11(5), table of template
models). Ours are the two flat-vector rows, which stand before the general ones that would take them, and
`series-regression`.
"""

from __future__ import annotations

from dataclasses import dataclass

CLASSIFICATION = ("accuracy", "balanced_accuracy", "f1_macro", "roc_auc", "log_loss")
REGRESSION = ("mse", "mae", "r2")
RECOVERY = ("psnr", "mse", "mae")


@dataclass(frozen=True, slots=True)
class Template:
    """One row: `input` and `output` are patterns; `models` are the names the row lists, whether or not the
    catalogue can train them yet; `objectives` are those that make sense, the default first.

    Rows that are `told_by_objective` share their patterns, and the objective decides between them: then one
    has the objectives of `CLASSIFICATION`, one those of `REGRESSION`, and both have an output `Tensor[D]`.

    For rows of plug-ins: `before` is the row above which it stands, by default the first of the general ones,
    which would take everything; `reads_like` is the row of ease.ml whose forms of data it reads.
    """

    id: str
    input: str
    output: str
    workload: str
    models: tuple[str, ...]
    objectives: tuple[str, ...]
    told_by_objective: bool = False
    before: str = "general-classification"
    reads_like: str | None = None

    @property
    def form(self) -> str:
        """The row as people read it: `{[Tensor[A]], []} → {[Tensor[D]], []}`."""
        return f"{self.input} → {self.output}"


_IMAGE_MODELS = (
    *("AlexNet", "ResNet", "GoogLeNet", "SqueezeNet", "VGG", "NIN", "BN-AlexNet"),
    *("MobileNetV3", "EfficientNet", "ConvNeXt", "ViT"),
)
_SERIES_MODELS = ("RNN", "LSTM", "bi-LSTM", "GRU", "CNN-1D", "ROCKET")
_VECTOR_MODELS = ("RandomForest", "GradientBoosting", "SVM", "KNN", "MLP")

BUILT_IN: tuple[Template, ...] = (
    Template(
        "image-classification",
        "{[Tensor[A, B, C]], []}",
        "{[Tensor[D]], []}",
        "image or tensor classification",
        _IMAGE_MODELS,
        CLASSIFICATION,
    ),
    Template(
        "image-recovery",
        "{[Tensor[A, B, C]], []}",
        "{[Tensor[D, E, F]], []}",
        "image or tensor recovery",
        ("auto-encoder", "U-Net", "GAN", "pix2pix"),
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
        ("Tree-LSTM", "tree-kernel-SVM"),
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
        ("bit-level-RNN",),
        CLASSIFICATION,
    ),
    Template(
        "general-autoencoder",
        "{*, *}",
        "{*, *}",
        "general auto-encoder",
        ("bit-level-auto-encoder",),
        RECOVERY,
    ),
)
