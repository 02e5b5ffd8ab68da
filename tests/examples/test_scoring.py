"""Held-back scores on tables small enough to work out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from examples.scoring import score_arrays, score_labels

CLASSES = {"task_kind": "classification", "classes": ["no", "yes"], "class_counts": [7, 3]}
VALUES = {"task_kind": "regression", "classes": None, "class_counts": None}


def csv(rows: dict[str, str], column: str = "class") -> bytes:
    return (
        f"id,{column},model_version\n" + "".join(f"{name},{value},1\n" for name, value in rows.items())
    ).encode()


def test_accuracy_beside_the_most_frequent_training_class() -> None:
    labels = {"a": "yes", "b": "yes", "c": "no", "d": "yes"}
    found = score_labels(csv({"a": "yes", "b": "no", "c": "no", "d": "yes"}), labels, CLASSES)
    assert (found.metric, found.score, found.baseline, found.missing) == ("accuracy", 0.75, 0.25, 0)


def test_an_example_without_a_prediction_is_wrong() -> None:
    found = score_labels(csv({"a": "yes", "other": "yes"}), {"a": "yes", "b": "yes"}, CLASSES)
    assert (found.score, found.missing) == (0.5, 1)


@pytest.mark.parametrize(
    ("answers", "r2"),
    [(["1", "2", "3"], 1.0), (["2", "2", "2"], 0.0), (["1", "2", "2"], 0.5), (["3", "2", "1"], -3.0)],
)
def test_r2(answers: list[str], r2: float) -> None:
    names = ["a", "b", "c"]
    found = score_labels(
        csv(dict(zip(names, answers, strict=True)), "value"), dict(zip(names, "123", strict=True)), VALUES
    )
    assert found.score == pytest.approx(r2)
    assert (found.metric, found.baseline) == ("r2", 0.0)


def test_predictions_about_something_else_are_refused() -> None:
    with pytest.raises(ValueError, match="none of the predictions"):
        score_labels(csv({"x": "yes"}), {"a": "yes"}, CLASSES)
    truth = {"id": np.array(["a"]), "target": np.zeros((1, 2, 1)), "baseline": np.ones((1, 2, 1))}
    with pytest.raises(ValueError, match="none of the predictions"):
        score_arrays({"id": np.array(["x"]), "prediction": np.zeros((2, 1))}, truth, {"kind": "series"})


def test_series_that_end_early_go_on_as_they_ended_and_missing_ones_are_the_baseline() -> None:
    truth = {
        "id": np.array(["a", "b"]),
        "target": np.array([[[1.0], [2.0], [3.0]], [[5.0], [5.0], [5.0]]]),
        "baseline": np.array([[[0.0]] * 3, [[3.0]] * 3]),
    }
    given = {
        "id": np.array(["x", "a"]),
        "prediction": np.array([[9.0], [1.0], [2.0]], dtype=np.float32),
        "offsets": np.array([0, 1, 3]),
    }
    found = score_arrays(given, truth, {"kind": "series"})
    assert found.metric == "mse"
    assert found.score == pytest.approx((1 + 3 * 4) / 6)  # 1, 2, 2 for 1, 2, 3; thrice 3 for 5
    assert found.baseline == pytest.approx((1 + 4 + 9 + 3 * 4) / 6)
    assert found.missing == 1
    assert found.beats_baseline  # a lower error is better


def test_images_are_measured_in_decibels_of_their_range() -> None:
    target = np.zeros((2, 1, 1, 1), dtype=np.uint8)
    truth = {"id": np.array(["a", "b"]), "target": target, "baseline": target + 51}
    given = {"id": np.array(["b", "a"]), "prediction": target + 102}
    found = score_arrays(given, truth, {"kind": "image"})
    assert found.metric == "psnr"
    assert found.baseline == pytest.approx(-20 * np.log10(0.2))
    assert found.score == pytest.approx(-20 * np.log10(0.4))
    assert not found.beats_baseline
