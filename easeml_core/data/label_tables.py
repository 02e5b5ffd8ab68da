"""Reads tables that give labels to images: a column `file` (or `filename`, `image`, `path`) and a label.

Names are relative to the table's folder, to `data/` or to the task's folder, with any slashes. The last part
of a path will do where only one image has it, as that within an archive, and so will a name without its
ending.
"""

from __future__ import annotations

from collections.abc import Sequence

from easeml_core.data.classes import Place
from easeml_core.data.findings import Findings, listed
from easeml_core.data.header import FILE_NAMES, read_header
from easeml_core.data.rows import read_rows
from easeml_core.data.text import open_text, plain
from easeml_core.data.tree import SourceFile
from easeml_core.errors import TenantError
from easeml_core.naming import DATA_DIR


def place_by_tables(
    tables: Sequence[SourceFile], images: Sequence[SourceFile], findings: Findings
) -> tuple[dict[str, Place], list[str]]:
    """Class and split of each of `images`, by name, and the names of those `tables` that say them.

    The split is what the table's name or folder says, else the image's folder. An image that two rows give
    different labels is a problem, and so is one without any, where there is such a table.
    """
    if not tables:
        return {}, []
    places: dict[str, Place] = {}
    said_by: dict[str, str] = {}
    conflicts: dict[tuple[str, str], list[str]] = {}
    by_name = {file.name: file for file in images}
    short: dict[str, list[str]] = {}
    for file in images:
        ending = file.name.rpartition("/")[2].rpartition(".")[2]
        parts = file.name.split("/")
        for name in ("/".join(parts[start:]) for start in range(len(parts))):
            for written in {name, name.removesuffix(f".{ending}")}:
                short.setdefault(written, []).append(file.name)
    whole = True
    for table in tables:
        told = len(findings.problems)
        labels = file_labels(table, findings)
        if labels is None:
            continue
        if len(findings.problems) > told:
            whole = False
        said_by.setdefault(table.name, table.name)
        missing: list[str] = []
        vague: list[str] = []
        for name, label in labels.items():
            found = _find(name, table, by_name, short)
            if len(found) != 1:
                (vague if found else missing).append(name)
                continue
            (image,) = found
            split = table.split or by_name[image].split_by_folders()
            before = places.get(image)
            if before is not None and before[0] != label:
                conflicts.setdefault((said_by[image], table.name), []).append(
                    f"{image} ({before[0]!r} and {label!r})"
                )
            # Of an example in both parts, learning keeps it: validation must be of what was not seen.
            places[image] = (label, "train" if before is not None and before[1] == "train" else split)
            said_by[image] = table.name
        if missing:
            text = f"names files that are not there: {listed(missing)}"
            findings.problem(f"data/{table.name}", text, fix="upload them or remove their rows")
        if vague:
            text = f"names files of which there are several: {listed(vague)}"
            findings.problem(f"data/{table.name}", text, fix="write their folders too")
    for (first, second), odd in conflicts.items():
        text = f"gives another label than {first} to {len(odd)} files: {listed(odd)}"
        findings.problem(f"data/{second}", text, fix="keep one label for each")
    tables_used = [table.name for table in tables if said_by.get(table.name) == table.name]
    if whole and tables_used and (unlabelled := [name for name in by_name if name not in places]):
        text = f"gives no label to {listed(unlabelled)}"
        findings.problem(f"data/{tables_used[0]}", text, fix="add their rows or remove the files")
    return places, tables_used


def _find(
    name: str, table: SourceFile, by_name: dict[str, SourceFile], short: dict[str, list[str]]
) -> list[str]:
    folder = table.name.rpartition("/")[0]
    tries = [f"{folder}/{name}" if folder else name, name, name.removeprefix(f"{DATA_DIR}/")]
    found = [[full] for full in tries if full in by_name]
    return next((names for names in (*found, *map(short.get, tries)) if names), [])


def file_labels(file: SourceFile, findings: Findings) -> dict[str, str] | None:
    """Labels by file name of a table with a column `file` (or `filename`, `image`, `path`) and a label.

    None where the table is not of this kind.
    """
    where = f"data/{file.name}"
    labels: dict[str, str] = {}
    try:
        with open_text(file.path, where) as stream:
            header = read_header(stream, file, None, Findings(), labelled=True)
            lower = [name.lower() for name in header.names] if header is not None else []
            column = next((lower.index(name) for name in FILE_NAMES if name in lower), None)
            if header is None or column is None:
                return None
            rows = read_rows(stream, header.delimiter, where, above=header.line)
            for row, cells in enumerate(rows, 1):
                if not any(cell.strip() for cell in cells):
                    continue
                if len(cells) != header.width:
                    text = f"it has {len(cells)} cells, the first row has {header.width}"
                    findings.row(where, row, text)
                    continue
                cells = cells[header.index :]
                name, label = plain(cells[column]).replace("\\", "/"), plain(cells[header.labels[0]])
                name = name.removeprefix("./")
                if not label:
                    findings.row(where, row, "the label is empty", fix="fill it in or remove the row")
                elif labels.setdefault(name, label) != label:
                    findings.row(where, row, f"{name!r} already has the label {labels[name]!r}")
    except TenantError as error:
        findings.problems.extend(error.problems)
    return labels
