"""CSV as people really write it."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from easeml_core.data import Limits, read_inputs
from tests.data.uploads import image, save_images, series, vector

Put = Callable[[str, "bytes | str"], Path]

GOOD = [("1", "2", "yes"), ("3", "4", "no"), ("5", "6", "yes"), ("7", "8", "no"), ("9", "0.5", "no")]

GOOD_YN = [(a, b, label[0]) for a, b, label in GOOD]


def table(header: str | None, rows: list[tuple[str, ...]], delimiter: str = ",") -> str:
    lines = ([header.replace(",", delimiter)] if header else []) + [delimiter.join(row) for row in rows]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("header", ["a,b,label", "a,b,whatever", None])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_usual_forms(build: Any, put: Put, delimiter: str, header: str | None, encoding: str) -> None:
    put("data/t.csv", table(header, GOOD, delimiter).encode(encoding))
    version = build(vector(2, 2))
    assert version.facts.classes == ("no", "yes")
    assert version.inputs[:].tolist() == [[1, 2], [3, 4], [5, 6], [7, 8], [9, 0.5]]
    assert version.targets[:].tolist() == [1, 0, 1, 0, 0]
    assert version.ids[0] == "t.csv#1"
    assert version.facts.converted.get("data/t.csv:delimiter", ",") == {"\t": "tab"}.get(delimiter, delimiter)


def test_the_line_that_tells_excel_the_delimiter_is_no_header(build: Any, put: Put) -> None:
    put("data/t.csv", "sep=;\r\n" + table("a,b,label", GOOD, ";"))
    assert build(vector(2, 2)).inputs[0].tolist() == [1, 2]


def test_windows_and_quotes(build: Any, put: Put) -> None:
    put("data/t.csv", 'a,b,label\r\n"1","2","so, ""so"""\r\n3,4,no\r\n5,6,"so, ""so"""\r\n7,8,no\r\n\r\n')
    assert build(vector(2, 2)).facts.classes == ("no", 'so, "so"')


def test_label_column_and_ids(build: Any, put: Put) -> None:
    put("data/t.csv", table("class,id,a,b", [(row[2], f"p{i}", *row[:2]) for i, row in enumerate(GOOD)]))
    version = build(vector(2, 2))
    assert version.ids == ["p0", "p1", "p2", "p3", "p4"]
    assert version.inputs[0].tolist() == [1, 2]


def test_labels_are_text(build: Any, put: Put) -> None:
    rows = [(str(i), label) for i, label in enumerate(["01", "1", "NA", "None", "10", "nan"] * 2)]
    put("data/t.csv", table("a,label", rows))
    assert build(vector(1, 6)).facts.classes == ("01", "1", "10", "NA", "None", "nan")


def test_columns_are_matched_by_name(build: Any, put: Put, refused: Any) -> None:
    put("data/1.csv", table("a,b,label", GOOD))
    put("data/2.csv", table("b,a,label", [("20", "10", "yes"), ("40", "30", "no")]))
    version = build(vector(2, 2))
    assert version.inputs[5].tolist() == [10, 20]
    put("data/2.csv", table("b,c,label", [("20", "10", "yes")]))
    said = refused(vector(2, 2))
    assert "its columns differ from those of the other data: it lacks a and it has c besides" in said


def test_the_label_may_be_any_column_that_is_left(build: Any, put: Put, refused: Any) -> None:
    put("data/1.csv", table("a,b,kind", GOOD))
    put("data/2.csv", table("kind,b,a", [("yes", "20", "10"), ("no", "40", "30")]))
    version = build(vector(2, 2))
    assert version.inputs[5].tolist() == [10, 20]
    assert version.facts.classes == ("no", "yes")
    put("data/2.csv", table("kind,b,a,c", [("yes", "20", "10", "1"), ("no", "40", "30", "1")]))
    assert "data/2.csv: its columns differ from those of the other data" in refused(vector(2, 2))


def test_a_feed_in_another_order_moves_and_swaps_nothing(build: Any, put: Put, refused: Any) -> None:
    random = np.random.default_rng(0)
    rows = [(f"{a:.3f}", f"{b:.3f}", "yn"[i % 2]) for i, (a, b) in enumerate(random.random((40, 2)))]
    put("data/rows.csv", table("a,b,label", rows))
    first = build(vector(2, 2))
    put("data/more.csv", table("b,label,a", [(b, label, a + "1") for a, b, label in rows[:10]]))
    second = build(vector(2, 2), parent=first)
    before, after = (
        {
            ident: (split, version.inputs[i].tolist())
            for i, (ident, split) in enumerate(
                zip(version.manifest["id"], version.manifest["split"], strict=True)
            )
        }
        for version in (first, second)
    )
    assert {ident: after[ident] for ident in before} == before
    assert second.inputs[second.ids.index("more.csv#1")].tolist() == pytest.approx(
        [float(x) for x in rows[0][:2]], abs=1e-3
    )
    put("data/more.csv", table("b,label,c", rows[:2]))
    assert "rows.csv: its columns differ" in refused(vector(2, 2), parent=first)


def test_several_values_to_predict_keep_their_names(build: Any, put: Put) -> None:
    random = np.random.default_rng(0).random((20, 4))
    put("data/1.csv", table("a,b,fx,fy", [tuple(f"{x:.3f}" for x in row) for row in random]))
    put("data/2.csv", table("a,b,fy,fx", [("1", "2", "20", "10")]))
    version = build(vector(2, 2) + "objective: mse\n")
    assert version.targets[20].tolist() == [10, 20]


def test_rows_without_a_header_are_taken_by_position_and_it_is_said(build: Any, put: Put) -> None:
    put("data/1.csv", table("a,b,label", GOOD))
    put("data/2.csv", table(None, [("10", "20", "yes")]))
    version = build(vector(2, 2))
    assert version.inputs[5].tolist() == [10, 20]
    assert "data/2.csv names no columns: they were taken to be a, b" in version.facts.warnings


@pytest.mark.parametrize(
    ("first", "rows", "data"),
    [
        ("1,2,3", [("4", "5", "6"), ("7", "8", "3"), ("7", "9", "6")], True),
        ("1,2,0", [("1.5", "5", "1"), ("7", "8", "0"), ("7", "9", "1")], True),
        ("0,1,2", [("1.5", "5", "1"), ("7", "8", "0"), ("7", "9", "1"), ("7", "3", "0")], False),
        ("0,1,2", [("1", "5", "1"), ("7", "8", "2"), ("7", "9", "1")], None),
    ],
)
def test_a_first_row_that_counts(
    build: Any, refused: Any, put: Put, first: str, rows: list[tuple[str, ...]], data: bool | None
) -> None:
    put("data/t.csv", table(first, rows))
    if data is None:
        assert "one cannot tell whether its first row (0, 1, 2) names" in refused(vector(2, 2))
    else:
        assert build(vector(2, 2)).facts.n == len(rows) + data


def test_numbered_headers_of_pandas(build: Any, put: Put) -> None:
    put(
        "data/t.csv",
        table("0,1,2", [("1.5", "2.5", "0"), ("3.5", "4.5", "1"), *[("1", "2", "0"), ("4", "3", "1")]]),
    )
    assert build(vector(2, 2)).facts.n == 4


@pytest.mark.parametrize(
    ("first", "rows", "data"),
    [
        ("1.5,2,y", GOOD_YN, True),
        ("1.5;2;y", GOOD_YN, True),
        ("1.5,2,target", [(a, b, "target" if c == "y" else c) for a, b, c in GOOD_YN], True),
        ("400,410.5,label", GOOD_YN, False),
        ("400,410.5,class", GOOD_YN, False),
        ("400,410.5,y", [(a, b, str(int(c == "y"))) for a, b, c in GOOD_YN], False),
        ("0,1,label", GOOD_YN, False),
        ("1,2,y", GOOD, False),
        ("y,400,410.5", [(str(int(c == "y")), a, b) for a, b, c in GOOD_YN], False),
        ("id,400,410.5,label", [(f"p{i}", *row) for i, row in enumerate(GOOD_YN)], False),
        ("a,410.5,y", GOOD_YN, False),
        ("a,b,y", GOOD_YN, False),
    ],
)
def test_a_first_row_of_numbers_with_a_known_name(
    build: Any, put: Put, first: str, rows: list[tuple[str, ...]], data: bool
) -> None:
    put("data/t.csv", f"{first}\n" + table(None, rows, ";" if ";" in first else ","))
    version = build(vector(2, 2))
    assert version.facts.n == len(rows) + data
    assert version.inputs[0].tolist() == ([1.5, 2] if data else [1, 2])
    assert ("columns" in version.facts.converted) is not data


@pytest.mark.parametrize(
    ("first", "rows"),
    [
        ("400,410.5,y", GOOD),
        ("1.5,2,y", [("1.5", "2", "y")]),
        ("1.5,2,y", []),
        ("1,2,y", GOOD_YN),
        ("0,1,y", GOOD_YN),
    ],
)
def test_a_first_row_that_may_be_either_is_refused(
    refused: Any, put: Put, first: str, rows: list[tuple[str, ...]]
) -> None:
    put("data/t.csv", f"\n{first}\n" + table(None, rows))
    said = refused(vector(2, 2))
    assert f"data/t.csv:2: one cannot tell whether its first row ({first.replace(',', ', ')}) names" in said
    assert "write a header above it" in said


def test_what_is_to_be_predicted_keeps_its_header(build: Any, put: Put, tmp_path: Path) -> None:
    put("data/t.csv", table("400,410.5,label", GOOD))
    facts = build(vector(2, 2)).facts
    asked = tmp_path / "asked"
    asked.mkdir()
    (asked / "q.csv").write_text("id,410.5,400\nz1,1,2\nz2,3,4\n")
    read = read_inputs(asked, facts=facts, limits=Limits(), staging=tmp_path / "read")
    assert (read.ids, read.problems) == (["z1", "z2"], ())
    assert read.inputs[:].tolist() == [[2, 1], [4, 3]]


def test_several_values_to_predict(build: Any, put: Put) -> None:
    rows = [(str(i), str(2 * i), str(3 * i)) for i in range(10)]
    put("data/t.csv", table("target_1,a,target_2", rows))
    version = build(vector(1, 2) + "objective: mse\n")
    assert version.targets.shape == (10, 2)
    assert version.targets[3].tolist() == [3.0, 9.0]
    assert version.inputs[3].tolist() == [6.0]


@pytest.mark.parametrize(
    ("header", "targets"),
    [
        ("year,yaw,a,fx,fy", ["fx", "fy"]),
        ("labelled,classic,a,b,c", ["b", "c"]),
        ("y1st,y2nd,a,fx,fy", ["fx", "fy"]),
        ("y1,y2,a,b,c", ["y1", "y2"]),
        ("a,target 2,b,target 1,c", ["target 1", "target 2"]),
        ("year,Y_1,a,b,Y_2", ["Y_1", "Y_2"]),
        ("y1,y2,y3,b,c", ["b", "c"]),
        ("y,yaw,a,b,y-1", ["b", "y-1"]),
        ("label,a,b,fx,fy", ["fx", "fy"]),
    ],
)
def test_columns_of_several_values_to_predict(build: Any, put: Put, header: str, targets: list[str]) -> None:
    put("data/t.csv", table(header, [tuple(str(10 * i + j) for j in range(5)) for i in range(10)]))
    version = build(vector(3, 2) + "objective: mse\n")
    names = header.split(",")
    assert version.targets[3].tolist() == [30 + names.index(name) for name in targets]
    assert version.facts.converted["columns"] == [name for name in names if name not in targets]


def test_rows_that_cannot_be_used_are_quarantined(build: Any, put: Put) -> None:
    rows = [(str(i), str(i), "yn"[i % 2]) for i in range(40)]
    bad = [
        ("x", "1", "y"),
        ("", "1", "y"),
        ("1,5", "1", "y"),
        ("inf", "1", "y"),
        ("1e39", "1", "n"),
        ("1_0", "1", "n"),
    ]
    put("data/t.csv", table("a,b,label", [*rows, *bad, ("1", "y")], ";"))
    version = build(vector(2, 2), max_broken_share=0.2)
    assert version.facts.n == 40
    assert [(item["file"].split("#")[1], item["reason"]) for item in version.facts.quarantined] == [
        ("41", "column 'a' holds 'x', which is no number"),
        ("42", "column 'a' is empty"),
        ("43", "column 'a' holds '1,5', which is no number (a decimal comma?)"),
        ("44", "it has a value that is not a finite number"),
        ("45", "it has a value that is not a finite number"),
        ("46", "column 'a' holds '1_0', which is no number"),
        ("47", "it has 2 cells, the first row has 3"),
    ]


def test_broken_rows_of_one_kind_are_told_at_once(refused: Any, put: Put) -> None:
    bad = [(f"{i},5", "1", "y") for i in range(9)]
    put("data/t.csv", table("a;b;label", [("", "1", "y"), *bad], ";"))
    assert refused(vector(2, 2)).splitlines() == [
        "data: 10 of 10 examples are broken; at most 10% may be → mend or remove those named here",
        "data/t.csv#1: column 'a' is empty",
        "data/t.csv#2: column 'a' holds '0,5', which is no number (a decimal comma?); "
        "so #3, #4, #5, #6, #7, #8, #9, #10",
    ]


def test_rows_that_reject_come_in_their_order_and_hide_what_follows_from_them(refused: Any, put: Put) -> None:
    put(
        "data/t.csv", "a,label\n" + "".join(f"{i},{value}\n" for i, value in enumerate(["nan", "", "inf", 7]))
    )
    said = refused(vector(1, 1)).splitlines()
    assert [line.partition(": the")[0] for line in said] == [f"data/t.csv: row {i}" for i in (1, 2, 3)]
    put("data/t.csv", "a,label\n1,x\n2,\n3,\n")
    assert refused(vector(1, 2)).startswith("data/t.csv: rows 2, 3: the label is empty")
    assert "\n" not in refused(vector(1, 2))


@pytest.mark.parametrize("names", ["a,b,label", "0,1,2"])
def test_an_index_that_nobody_asked_for_is_no_column(
    build: Any, put: Put, tmp_path: Path, names: str
) -> None:
    rows = [(str(i), *row) for i, row in enumerate(GOOD)]
    put("data/t.csv", table(f",{names}", rows))
    version = build(vector(2, 2))
    assert version.inputs[:].tolist() == [[1, 2], [3, 4], [5, 6], [7, 8], [9, 0.5]]
    assert version.facts.classes == ("no", "yes")
    assert "left out" in version.facts.converted["data/t.csv:index"]
    request = tmp_path / "request"
    request.mkdir()
    (request / "q.csv").write_text(table(f",{names}", rows[2:3]))
    inputs = read_inputs(request, facts=version.facts, limits=Limits(), staging=tmp_path / "staging")
    assert inputs.inputs[:].tolist() == [[5, 6]]


def test_classes_that_look_alike_are_a_warning(build: Any, put: Put) -> None:
    put("data/t.csv", table("a,label", [(str(i), ["Cat", "cat", "dog"][i % 3]) for i in range(12)]))
    warned = "classes that differ in capitals or blanks only: 'Cat' and 'cat'"
    assert warned in build(vector(1, 3)).facts.warnings


@pytest.mark.parametrize("value", ["NaN", "inf", "-inf", "", "NA", "two"])
def test_values_to_predict_that_are_none_are_named_by_row(refused: Any, put: Put, value: str) -> None:
    rows = [(str(i), str(i)) for i in range(10)]
    rows[3] = rows[7] = ("1", value)
    put("data/t.csv", table("a,target", rows))
    text = refused(vector(1, 1))
    assert "data/t.csv: rows 4, 8: the value to predict is" in text
    assert (value or "empty") in text


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "has no rows in it"),
        ("a,b,label\n", "data/t.csv: has no rows below its header"),
        ("a,b,label\n1,2,\n3,4,x\n5,6,y\n", "row 1: the label is empty"),
        ("a,b,c,label\n1,2,3,x\n", "has 3 columns beside label (delimiter ','); the program wants 2"),
        ("a b label\n1 2 x\n", "the program wants 2; it seems to be delimited by spaces"),
        ("a:b:label\n1:2:x\n", "it seems to be delimited by colons \u2192 delimit it by comma, semicolon"),
        ("a,a,label\n1,2,x\n", "two columns are called 'a'"),
        ("a,b,label,\n1,2,x,\n", "data/t.csv: column 4 of 4 has no name"),
        (",a,,label\n0,1,2,x\n", "data/t.csv: column 2 of 3 has no name"),
        ("id,a,b,label\np,1,2,x\np,2,3,y\n", "the id 'p' is given twice"),
        ("id,a,b,label\n,1,2,x\nq,2,3,y\n", "row 1: the id is empty"),
        (
            b"a,b,label\n1,2,caf\xe9\n",
            "data/t.csv:2: is not UTF-8 text (byte 0xe9, which is é in Windows-1252)",
        ),
        ("a,b,label\n1,2,x\n".encode("utf-16-le"), "data/t.csv:1: looks like UTF-16-LE without its mark"),
        ("a,b,label\n1,2,x\n".encode("utf-16-be"), "looks like UTF-16-BE without its mark"),
        ("a,b,метка\n1,2,кот\n".encode("cp1251"), "data/t.csv:1: is not UTF-8 text (byte 0xec"),
        ("a,b,label\n1,2,ä\n".encode("utf-16-le"), "looks like UTF-16-LE without its mark"),
        (b"a,b,label\n1,2,\x00\n3,4,y\n", "data/t.csv:2: is binary, not text"),
        ("a,b,label\n1,2,é".encode()[:-1], "data/t.csv:2: is not UTF-8 text (byte 0xc3"),
        ("a,b,label\n1,2,x\n".encode("utf-16")[:-1], "data/t.csv:2: is not UTF-16 text"),
        (b"PK\x03\x04" + bytes(60), "data/t.csv: is an Excel file or a zip archive, not text"),
        (gzip.compress(b"a,b,label\n1,2,x\n"), "data/t.csv: is compressed by gzip, not text"),
        ("a,b,label\n1,2,x\n3,4,x\n", "all examples have the one class 'x'"),
        ("a,b,label\n1,2,x\n3,4,x\n5,6,y\n", "the class 'y' has only one example in use; at least 2"),
        ("a,b,label\n1,2,x\n3,4,y\n5,6,z\n7,8,z\n", "has 3 classes, the program's output has 2"),
        (
            "a,b,label\n1,2,x\n1,2,x\n3,4,y\n5,6,y\n",
            "the class 'x' has 2 times the same example in use",
        ),
    ],
)
def test_tables_that_are_refused(refused: Any, put: Put, content: bytes | str, words: str) -> None:
    put("data/t.csv", content)
    assert words in refused(vector(2, 2))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("changed", "text", "line"),
    [
        (0, 'a,b,"label', 3),
        (0, '"a\nunit",b,label', 3),
        (30, '"30,60,p', 33),
        (30, '30,"60,p', 33),
        (30, '30,60,"p\nq"', 33),
        (100, '100,200,"p', 103),
    ],
)
@pytest.mark.parametrize("closed_later", [False, True])
def test_an_open_quote_is_refused_where_it_opens(
    refused: Any, put: Put, changed: int, text: str, line: int, end: str, closed_later: bool
) -> None:
    lines = ["a,b,label", *(f"{i},{2 * i},{'pq'[i % 2]}" for i in range(1, 101))]
    lines[60] = '60,120,"p"' if closed_later else lines[60]
    lines[changed] = text
    put("data/t.csv", end.join(["", "", *lines]))
    said = refused(vector(2, 2))
    assert f"data/t.csv:{line}: a quote opens a cell that does not end on this line" in said
    assert "close the quote" in said


def test_an_open_quote_in_a_table_of_file_names(refused: Any, upload: Path, put: Put) -> None:
    save_images(upload, "images", 10)
    rows = [f"0-{i}.png,{'pq'[i % 2]}" for i in range(10)]
    rows[4] = '"' + rows[4]
    put("data/images/labels.csv", "filename,label\n" + "\n".join(rows) + "\n")
    assert "data/images/labels.csv:6: a quote opens a cell" in refused(image(8, 8, 1, 2))


def test_an_open_quote_in_what_is_to_be_predicted(build: Any, put: Put, tmp_path: Path) -> None:
    put("data/t.csv", table("a,b,label", GOOD))
    facts = build(vector(2, 2)).facts
    asked = tmp_path / "asked"
    asked.mkdir()
    (asked / "q.csv").write_text('id,a,b\nz1,1,2\n"z2,3,4\nz3,5,6\n')
    read = read_inputs(asked, facts=facts, limits=Limits(), staging=tmp_path / "read")
    assert read.ids == ["z1"]
    assert [(p.file, p.line) for p in read.problems] == [("q.csv", 3)]


def test_all_problems_come_at_once(refused: Any, put: Put) -> None:
    put("data/1.csv", "a,b,label\n1,2,\n3,4,x\n5,6,y\n7,8,z\n9,9,z\n8,8,\n")
    put("data/2.csv", b"\xff\xffgarbage")
    text = refused(vector(2, 2))
    for words in ("rows 1, 6: the label is empty", "data/2.csv", "has 3 classes"):
        assert words in text
    assert "the class 'x' has only one" not in text, "there may be more in what cannot be read"


def test_nothing_usable_is_told_with_what_was_found(refused: Any, put: Put) -> None:
    put("data/notes.pdf", "x")
    text = refused(vector(2, 2))
    assert "found notes.pdf" in text
    assert "upload .csv, .parquet, .npz" in text


def test_other_files_are_left_out_with_a_warning(build: Any, put: Put) -> None:
    put("data/t.csv", table("a,b,label", GOOD))
    put("data/README", "x")
    version = build(vector(2, 2))
    assert version.facts.dropped == ["README"]
    assert "README" in version.facts.warnings[-1]


def test_images_and_series_from_rows(build: Any, put: Put, upload: Path) -> None:
    put("data/t.csv", table(None, [(*map(str, range(i, i + 6)), "ab"[i % 2]) for i in range(6)]))
    pictures = build(image(2, 3, 1, 2))
    assert pictures.inputs[1, :, :, 0].tolist() == [[1, 2, 3], [4, 5, 6]]
    put("data/t.csv", "s1,s2,s3,label\n1,2,3,a\n4,5,,a\n6,7,8,b\n9,,,b\n")
    curves = build(series(1, 2))
    assert np.diff(curves.offsets).tolist() == [3, 2, 3, 1]
    assert curves.values[:, 0].tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9]
