"""Parquet tables mean what the same CSV means; JSON lines hold vectors and series too."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import load_diabetes, load_wine

from easeml_core.data import Limits, read_inputs
from tests.data.uploads import series, spec_of, vector

Put = Callable[[str, "bytes | str"], Path]


def packed(table: Any, **options: Any) -> bytes:
    stream = io.BytesIO()
    if isinstance(table, pd.DataFrame):
        table.to_parquet(stream, **options)
    else:
        pq.write_table(pa.table(table), stream, **options)
    return stream.getvalue()


def wine() -> pd.DataFrame:
    table: pd.DataFrame = load_wine(as_frame=True).frame
    table["label"] = table.pop("target").map({0: "red", 1: "white", 2: "rosé"})
    return table


def test_the_same_table_as_csv_is_the_same_content(build: Any, put: Put) -> None:
    csv = put("data/wine.csv", wine().to_csv(index=False))
    first = build(vector(13, 3))
    csv.unlink()
    put("data/wine.parquet", packed(wine().sample(frac=1, random_state=0)))  # with the index of pandas
    second = build(vector(13, 3))
    assert second.facts.classes == ("red", "rosé", "white")
    assert sorted(second.manifest["content"]) == sorted(first.manifest["content"])
    assert second.ids[0] == "wine.parquet#1"


def test_numbers_to_predict_and_ids(build: Any, put: Put) -> None:
    table = load_diabetes(as_frame=True).frame
    table.insert(0, "id", [f"p{i}" for i in range(len(table))])
    put("data/d.parquet", packed(table))
    version = build(vector(10, 1) + "objective: mse\n")
    assert version.ids[:2] == ["p0", "p1"]
    assert version.targets[0, 0] == table["target"][0]
    assert version.facts.converted["columns"] == list(table.columns[1:-1])


def test_labels_of_every_type(build: Any, put: Put) -> None:
    rows = {"a": pa.array(range(20), pa.uint8()), "b": [i % 3 == 0 for i in range(20)]}
    for label in (
        pa.array([i % 2 for i in range(20)], pa.int8()),
        pa.array([float(i % 2) for i in range(20)], pa.float32()),
        pa.array([str(i % 2) for i in range(20)], pa.large_string()),
        pa.array([str(i % 2) for i in range(20)]).dictionary_encode(),
        pa.array([bool(i % 2) for i in range(20)]),
    ):
        put("data/t.parquet", packed({**rows, "label": label}))
        version = build(vector(2, 2))
        assert version.facts.classes == ("0", "1")
        assert version.inputs[3].tolist() == [3, 1]


def test_decimals_are_numbers(build: Any, put: Put) -> None:
    cents = [Decimal(i) / 100 for i in range(20)]
    put("data/t.parquet", packed({"a": cents, "b": cents, "label": ["x", "y"] * 10}))
    assert build(vector(2, 2)).inputs[7].tolist() == pytest.approx([0.07, 0.07])


def test_empty_cells_are_left_out_and_named(build: Any, put: Put) -> None:
    table = wine()
    table.loc[3, "alcohol"] = np.nan
    put("data/wine.parquet", packed(table, index=False))
    (broken,) = build(vector(13, 3)).facts.quarantined
    assert broken == {"file": "data/wine.parquet#4", "reason": "column 'alcohol' is empty"}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"PAR1 and nothing", "cannot be read"),
        (packed({"a": [[1], [2]], "label": ["x", "y"]}), "columns of neither numbers nor text: a (list<"),
        (
            packed({"a": [1, 2], "b": [1, 2], "c": [1, 2], "label": ["x", "y"]}),
            "has 3 columns beside label; ",
        ),
        (packed({"a": [1, 2], "b": [1, 2], "label": ["x", None]}), "row 2: the label is empty"),
        (packed({"a": pa.array([], pa.int8()), "b": pa.array([], pa.int8())}), "has no rows in it"),
        (packed({"a": [1, 2], "A": [1, 2], "label": ["x", "y"]}), "two columns are called 'a'"),
        (packed({"a": [1, 2], "label": ["x", "y"]})[:-9], "cannot be read"),
    ],
)
def test_tables_that_are_refused(refused: Any, put: Put, content: bytes, words: str) -> None:
    put("data/t.parquet", content)
    assert words in refused(vector(2, 2))


def test_a_small_file_of_very_many_rows_is_refused(refused: Any, put: Put) -> None:
    same = pa.array(np.zeros(3_000_000, np.int8))
    content = packed({"a": same, "b": same, "label": same})
    assert len(content) < 100_000
    put("data/t.parquet", content)
    assert "has 3,000,000 rows; at most 2,000,000 are read" in refused(vector(2, 2))


def test_one_long_text_is_in_memory_once(build: Any, put: Put) -> None:
    names = pa.array(["x" * 5_000_000, "y"] * 200)
    put("data/t.parquet", packed({"a": range(400), "b": range(400), "label": names}))
    assert build(vector(2, 2)).facts.class_counts == (200, 200)


def test_series_of_one_value_per_step(build: Any, put: Put) -> None:
    steps = {str(t): [float(i + t) if t < 3 or i % 2 else None for i in range(20)] for t in range(5)}
    put("data/t.parquet", packed({**steps, "label": ["ab"[i % 2] for i in range(20)]}))
    version = build(series(1, 2))
    assert np.diff(version.offsets)[:4].tolist() == [3, 5, 3, 5]


def test_lines_of_vectors_and_series(build: Any, put: Put) -> None:
    x, y = load_wine(return_X_y=True)
    rows = [{"id": f"w{i}", "label": int(y[i]), "input": x[i].tolist()} for i in range(len(x))]
    path = put("data/d.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    version = build(vector(13, 3))
    assert version.ids[5] == "w5"
    assert np.allclose(version.inputs, x)
    path.unlink()
    put("data/d.ndjson", "".join(json.dumps({"y": i, "input": [i, 2, i]}) + "\n" for i in range(20)))
    version = build(spec_of("[Tensor[1]], [next]", "[Tensor[1]], []", "mae"))
    assert version.facts.task_kind == "regression"
    assert version.values[:6, 0].tolist() == [0, 2, 0, 1, 2, 1]
    assert version.targets[:3, 0].tolist() == [0, 1, 2]


def test_requests_need_no_label(build: Any, put: Put, tmp_path: Path) -> None:
    put("data/wine.csv", wine().to_csv(index=False))
    version = build(vector(13, 3))
    request = tmp_path / "request"
    request.mkdir()
    (request / "q.parquet").write_bytes(packed(wine().drop(columns="label")[::-1].head(3)))
    inputs = read_inputs(request, facts=version.facts, limits=Limits(), staging=tmp_path / "staging")
    assert np.array_equal(inputs.inputs, version.inputs[:-4:-1])
