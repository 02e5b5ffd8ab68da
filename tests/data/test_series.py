"""The .ts format of the UCR/UEA archive."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data.uploads import series, spec_of

Put = Callable[[str, "bytes | str"], Path]

HEAD = "#comment\n@problemName X\n@timeStamps false\n@univariate {}\n@classLabel true a b\n@data\n"
UNI = HEAD.format("true") + "1,2,3:a\n4,5,6:b\n\n7,8,9:a\n1,1,1:b\n"


def test_univariate(build: Any, put: Put) -> None:
    put("data/X.ts", UNI)
    version = build(series(1, 2))
    facts = version.facts
    assert (facts.kind, facts.shape, facts.max_length, facts.mean_length) == ("series", (1,), 3, 3.0)
    assert facts.classes == ("a", "b")
    assert version.values[:, 0].tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 1, 1]
    assert version.offsets.tolist() == [0, 3, 6, 9, 12]
    assert version.ids == ["X.ts#1", "X.ts#2", "X.ts#3", "X.ts#4"]


def test_multivariate_of_varying_length(build: Any, put: Put) -> None:
    put("data/X.ts", HEAD.format("false") + "1,2,3:4,5,6:a\n1,2:3,4:b\n9:8:a\n7,7,7,7:6,6,6,6:b\n")
    version = build(series(2, 2))
    assert np.diff(version.offsets).tolist() == [3, 2, 1, 4]
    assert version.values[:3].tolist() == [[1, 4], [2, 5], [3, 6]]
    assert version.facts.mean_length == 2.5


def test_missing_values(build: Any, put: Put) -> None:
    rows = "1,?,3,?,?,9:a\n?,2,2:a\n1,2,?,?:b\n5,6:b\n"
    put("data/X.ts", HEAD.format("true") + rows)
    version = build(series(1, 2))
    at = version.offsets
    assert version.values[at[0] : at[1], 0].tolist() == [1, 2, 3, 5, 7, 9]
    assert version.values[at[1] : at[2], 0].tolist() == [2, 2, 2]
    assert version.values[at[2] : at[3], 0].tolist() == [1, 2]
    assert version.facts.converted == {"series with gaps interpolated": 2}


def test_a_given_split_is_taken(build: Any, put: Put) -> None:
    put("data/X_TRAIN.ts", UNI)
    put("data/X_TEST.ts", UNI.replace("1,2,3", "1,2,4").replace("4,5,6", "4,5,7").replace("7,8,9", "7,8,8"))
    version = build(series(1, 2))
    # The last series is in both files: the same content never validates what it trains.
    assert [version.ids[i] for i in version.val] == ["X_TEST.ts#1", "X_TEST.ts#2", "X_TEST.ts#3"]
    assert version.facts.n_train == 5


def test_broken_series_are_named(build: Any, put: Put) -> None:
    bad = "1,x,3:a\n:a\n?,?:b\n1,2:3,4:b\n"
    put("data/X.ts", UNI + "".join(f"{i},{i}:{'ab'[i % 2]}\n" for i in range(40)) + bad)
    version = build(series(1, 2))
    assert version.facts.n == 44
    reasons = [item["reason"] for item in version.facts.quarantined]
    assert version.facts.quarantined[0]["file"] == "data/X.ts#45"
    assert reasons[0] == "it has the value 'x', which is neither a number nor `?`"
    assert "no values" in reasons[1] or "missing" in reasons[1]
    assert "missing" in reasons[2]
    assert "has 2 values per step" in reasons[3]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("@problemName X\n1,2:a\n", "has values before @data"),
        ("@problemName X\n", "has no @data line"),
        (UNI[: UNI.index("@data")] + "@data\n\n", "data/X.ts: has no series below its @data line"),
        (UNI.replace("timeStamps false", "timeStamps true"), "has time stamps"),
        (UNI.replace("@classLabel true a b\n", "@classLabel false\n"), "says that its series have no class"),
        (UNI.replace("1,1,1:b", "1,1,1:c"), "row 4: the class 'c' is not in the @classLabel line"),
        (UNI.replace("1,1,1:b", "1,1,1:?"), "row 4: the class is missing"),
        (UNI.replace("@univariate true", "@dimensions 3"), "has 3 values per step; the program wants 1"),
        (UNI.encode("utf-8") + b"\xff", "is not UTF-8 text"),
    ],
)
def test_files_that_are_refused(refused: Any, put: Put, content: bytes | str, words: str) -> None:
    put("data/X.ts", content)
    assert words in refused(series(1, 2))


def test_numbers_to_predict_stand_where_the_class_does(build: Any, put: Put, refused: Any) -> None:
    rows = "".join(f"{i},{i + 1}:{i / 2}\n" for i in range(20))
    head = HEAD.replace("@classLabel true a b", "@targetLabel true").format("true")
    put("data/X.ts", head + rows)
    spec = spec_of("[Tensor[1]], [next]", "[Tensor[1]], []", "r2")
    version = build(spec)
    assert version.facts.task_kind == "regression"
    assert version.targets[:3, 0].tolist() == [0, 0.5, 1]
    put("data/X.ts", head + rows + "1,2:x\n3,4:inf\n5,6:\n")
    assert "rows 21, 22, 23: what is to be predicted must be 1 finite number" in refused(spec)
