"""Held-back scores on tables small enough to work out by hand."""

from __future__ import annotations

import pytest

from examples.scoring import score

CLASSES = {"task_kind": "classification", "classes": ["no", "yes"], "class_counts": [7, 3]}
VALUES = {"task_kind": "regression", "classes": None, "class_counts": None}


def csv(rows: dict[str, str], column: str = "class") -> bytes:
    return (
        f"id,{column},model_version\n" + "".join(f"{name},{value},1\n" for name, value in rows.items())
    ).encode()


def test_accuracy_beside_the_most_frequent_training_class() -> None:
    labels = {"a": "yes", "b": "yes", "c": "no", "d": "yes"}
    found = score(csv({"a": "yes", "b": "no", "c": "no", "d": "yes"}), labels, CLASSES)
    assert (found.metric, found.score, found.baseline, found.missing) == ("accuracy", 0.75, 0.25, 0)


def test_an_example_without_a_prediction_is_wrong() -> None:
    found = score(csv({"a": "yes", "other": "yes"}), {"a": "yes", "b": "yes"}, CLASSES)
    assert (found.score, found.missing) == (0.5, 1)


@pytest.mark.parametrize(
    ("answers", "r2"),
    [(["1", "2", "3"], 1.0), (["2", "2", "2"], 0.0), (["1", "2", "2"], 0.5), (["3", "2", "1"], -3.0)],
)
def test_r2(answers: list[str], r2: float) -> None:
    names = ["a", "b", "c"]
    found = score(
        csv(dict(zip(names, answers, strict=True)), "value"), dict(zip(names, "123", strict=True)), VALUES
    )
    assert found.score == pytest.approx(r2)
    assert (found.metric, found.baseline) == ("r2", 0.0)


def test_predictions_about_something_else_are_refused() -> None:
    with pytest.raises(ValueError, match="none of the predictions"):
        score(csv({"x": "yes"}), {"a": "yes"}, CLASSES)
