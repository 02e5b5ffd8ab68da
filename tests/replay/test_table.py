from __future__ import annotations

import numpy as np
import pytest

from easeml_core.replay import Table, read_table

HEADER = "task,model,accuracy,cost_seconds\n"


def write(tmp_path, text):
    path = tmp_path / "table.csv"
    path.write_text(text)
    return path


def test_reads_cells_and_leaves_missing_ones(tmp_path):
    table = read_table(write(tmp_path, HEADER + "t1,m1,0.5,10\nt1,m2,0.7,20\nt2,m2,0.9,5\n"))
    assert (table.tasks, table.models) == (("t1", "t2"), ("m1", "m2"))
    np.testing.assert_array_equal(table.quality, [[0.5, 0.7], [np.nan, 0.9]])
    assert table.cost[0].tolist() == [10, 20]
    assert table.best.tolist() == [0.7, 0.9]


def test_absent_costs_are_drawn_from_the_seed(tmp_path):
    path = write(tmp_path, HEADER + "t1,m1,0.5,\nt1,m2,0.7,\n")
    first, again, other = read_table(path, 1), read_table(path, 1), read_table(path, 2)
    np.testing.assert_array_equal(first.cost, again.cost)
    assert (first.cost != other.cost).all()
    assert ((first.cost > 0) & (first.cost <= 1)).all()


def test_rows_and_without(tmp_path):
    table = read_table(write(tmp_path, HEADER + "t1,m1,0.5,10\nt1,m2,0.7,20\nt2,m1,0.9,5\nt2,m2,0.1,5\n"))
    assert table.rows([1]).tasks == ("t2",)
    assert table.without(["m1"]).quality.tolist() == [[0.7], [0.1]]


WRONG = {
    "columns": ("task,model\n", "columns must be"),
    "a word": (HEADER + "t,m,good,1\n", r"table.csv:2: could not convert"),
    "a repeat": (HEADER + "t,m,0.5,1\nt,m,0.6,1\n", r"table.csv:3: m on t is there twice"),
    "too good": (HEADER + "t,m,50,1\n", r"in \[0, 1\]"),
    "free": (HEADER + "t,m,0.5,0\n", "positive"),
}


@pytest.mark.parametrize(("text", "message"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_named(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read_table(write(tmp_path, text))


def test_shapes_must_fit():
    with pytest.raises(ValueError, match="shapes"):
        Table(("t",), ("m",), np.zeros((2, 1)), np.ones((1, 1)))
