"""Which candidates a task has."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from easeml_core import catalog
from easeml_core.catalog import candidates_for, models_for


@dataclass(frozen=True)
class Wishes:
    template: str = "image-classification"
    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()


IMAGES = (
    "AlexNet", "BN-AlexNet", "NIN", "GoogLeNet", "SqueezeNet", "VGG-16", "ResNet-18", "ResNet-50", "SmallCNN",
    "MobileNetV3", "EfficientNet-B0", "ConvNeXt-Tiny", "ViT-Tiny",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _no_weights(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever the host has: pretrained weights are not there."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))


SERIES = ("RNN", "LSTM", "bi-LSTM", "GRU", "CNN-1D", "ROCKET")


@pytest.mark.parametrize(
    ("template", "names"),
    [
        ("image-classification", IMAGES),
        (
            "vector-classification",
            ("LogisticRegression", "RandomForest", "GradientBoosting", "SVM", "KNN", "MLP"),
        ),
        (
            "vector-regression",
            ("RidgeRegression", "RandomForest", "GradientBoosting", "SVM", "KNN", "MLP"),
        ),
        ("series-classification", SERIES),
        ("series-regression", SERIES),
        ("series-translation", ("seq2seq", "seq2seq-attention")),
        ("image-recovery", ("auto-encoder", "U-Net", "pix2pix")),
        ("tree-classification", ("Tree-LSTM", "Tree-LSTM-binary", "tree-kernel-SVM")),
        ("general-classification", ("bit-level-RNN",)),
        ("general-autoencoder", ("bit-level-auto-encoder",)),
    ],
)
def test_models_of_a_row(template: str, names: tuple[str, ...]) -> None:
    assert tuple(model.name for model in models_for(template)) == names
    assert candidates_for(Wishes(template)) == names


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        (("*",), ("VGG-16",), tuple(name for name in IMAGES if name != "VGG-16")),
        (("alexnet", "g*net"), (), ("AlexNet", "GoogLeNet")),
        (("ResNet-1?",), (), ("ResNet-18",)),
        (("*",), ("*",), ()),
    ],
)
def test_include_and_exclude(
    include: tuple[str, ...], exclude: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    assert candidates_for(Wishes(include=include, exclude=exclude)) == expected


def test_normalisers_come_with_a_high_dynamic_range_of_images_only() -> None:
    assert candidates_for(Wishes(), {"dynamic_range": 255.0}) == IMAGES
    high = candidates_for(Wishes(), {"dynamic_range": 1e6})
    assert len(high) == 5 * len(IMAGES)
    assert high[: len(IMAGES)] == IMAGES
    assert "ResNet-18+f0.2" in high
    assert len(candidates_for(Wishes("vector-classification"), {"dynamic_range": 1e6})) == 6


def test_a_pattern_means_the_model_unless_it_names_a_normaliser() -> None:
    high = {"dynamic_range": 1e6}
    assert len(candidates_for(Wishes(include=("NIN",)), high)) == 5
    assert candidates_for(Wishes(include=("NIN+f0.4",)), high) == ("NIN+f0.4",)
    assert candidates_for(Wishes(exclude=("*+f*",)), high) == IMAGES


def test_a_normalised_candidate_costs_what_its_model_costs() -> None:
    size = {"shape": (28, 28, 1), "outputs": 10, "n_train": 500}
    assert catalog.work("NIN+f0.2", **size) == catalog.work("NIN", **size)
    with pytest.raises(KeyError):
        catalog.work("Oracle", **size)


def test_the_catalogue_imports_nothing_heavy() -> None:
    heavy = "{'numpy', 'torch', 'sklearn', 'lark'}"
    code = f"import sys, easeml_core.catalog; print(sorted({heavy} & set(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
