from __future__ import annotations

import numpy as np
import pytest

from easeml_core.errors import TenantError
from easeml_core.replay import Table, read_table

HEADER = "task,model,accuracy,cost_seconds\n"


def write(tmp_path, text):
    path = tmp_path / "table.csv"
    path.write_text(text, encoding="utf-8")
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


def test_relative_costs_are_shares_of_what_a_trial_of_the_task_takes(tmp_path):
    text = HEADER + "t1,m1,0.5,10\nt1,m2,0.7,30\nt2,m2,0.9,5\nt3,m1,0.1,500\nt3,m2,0.2,1500\n"
    table = read_table(write(tmp_path, text)).with_relative_costs()
    assert table.cost[0].tolist() == table.cost[2].tolist() == [0.5, 1.5]
    assert table.cost[1, 1] == 1.0


def test_columns_in_any_order_and_without_costs(tmp_path):
    table = read_table(write(tmp_path, "\ufeffmodel, accuracy ,task\nm1,0.5,t1\nm2,,t1\nm2,0.25,t2\n"))
    np.testing.assert_array_equal(table.quality, [[0.5, np.nan], [np.nan, 0.25]])
    assert ((table.cost > 0) & (table.cost <= 1)).all()


def test_some_absent_costs_are_told(tmp_path, caplog):
    read_table(write(tmp_path, HEADER + "t1,m1,0.5,10\nt1,m2,0.7,\n"))
    assert "1 of 2 costs are absent" in caplog.text


WRONG = {
    "columns": ("task,model\n", 1, "columns must be"),
    "semicolons": ("task;model;accuracy\nt;m;0,5\n", 1, "separate columns by commas"),
    "a column twice": ("task,model,accuracy,task\n", 1, "columns must be"),
    "a word": (HEADER + "t,m,good,1\n", 2, "from 0 to 1"),
    "a repeat": (HEADER + "t,m,0.5,1\nt,m,0.6,1\n", 3, "m on t is there twice, first on line 2"),
    "too good": (HEADER + "t,m,50,1\n", 2, "from 0 to 1"),
    "free": (HEADER + "t,m,0.5,0\n", 2, "cost_seconds"),
    "overflowing": (HEADER + "t,m,0.5,1e300\n", 2, "cost_seconds"),
    "a line in quotes": (HEADER + '"t\n1",m,0.5,1\nu,m,2,1\n', 4, "from 0 to 1"),
    "a field too few": (HEADER + "t,m,0.5\n", 2, "has 3 fields"),
}


@pytest.mark.parametrize(("text", "line", "message"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_named_with_its_line(tmp_path, text, line, message):
    with pytest.raises(TenantError) as caught:
        read_table(write(tmp_path, text))
    [problem] = caught.value.problems
    assert problem.line == line
    assert message in str(problem)


def test_a_file_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(b"\x89PNG\r\n\x1a\n\x00")
    with pytest.raises(TenantError, match="not CSV in UTF-8"):
        read_table(path)


def test_shapes_must_fit():
    with pytest.raises(ValueError, match="shapes"):
        Table(("t",), ("m",), np.zeros((2, 1)), np.ones((1, 1)))
