"""Reads class and split out of the folders that examples lie in."""

from __future__ import annotations

from collections.abc import Sequence

from easeml_core.data.findings import Findings
from easeml_core.data.forms import split_hint
from easeml_core.data.tree import SourceFile, Tree

Place = tuple[str | None, str | None]  # class, split


def place_by_folder(tree: Tree, files: Sequence[SourceFile], findings: Findings) -> dict[str, Place]:
    """Class and split of each of `files`, by name, for a folder per class.

    Folders that wrap all others are skipped, in each archive by itself; a top level of only `train`,
    `val`, `test` … is the split and the next one the class. A class folder without any file is a problem.
    """
    places: dict[str, Place] = {}
    for root in sorted({file.root for file in files}):
        group = [file for file in files if file.root == root]
        empty = [parts for where, parts in tree.empty if where == root]
        _place(group, empty, root, places, findings)
    return places


def _place(
    files: list[SourceFile],
    empty: list[tuple[str, ...]],
    root: str,
    places: dict[str, Place],
    findings: Findings,
) -> None:
    depth = _wrapping_folders([file.folders for file in files if file.folders])
    tops = {file.folders[depth] for file in files if len(file.folders) > depth}
    split_level = bool(tops) and all(_names_split(top) for top in tops)
    level = depth + 1 if split_level else depth
    filled: set[tuple[str, ...]] = set()
    for file in files:
        if len(file.folders) <= level:
            text = "lies in no class folder"
            findings.problem(f"data/{file.name}", text, fix="use data/<class>/<file>")
            continue
        filled.add(file.folders[: level + 1])
        split = split_hint(file.folders[depth]) if split_level else None
        places[file.name] = (file.folders[level], split)
    for path in empty:
        if len(path) > level and path[: level + 1] not in filled:
            name = "/".join((*root.split("/")[:-1], *path[: level + 1]))
            text = f"the class folder {path[level]!r} has no file in it"
            findings.problem(f"data/{name}", text, fix="add examples or delete the folder")


def _names_split(folder: str) -> bool:
    """Whether a folder of exactly this name stands for a split; `my_test` is a class."""
    return split_hint(folder) is not None and folder.isalpha()


def _wrapping_folders(paths: Sequence[tuple[str, ...]]) -> int:
    """How many leading folders everything shares, one level being left for the class."""
    if not paths:
        return 0
    first, last = min(paths), max(paths)
    shared = 0
    while shared < min(len(first), len(last)) and first[shared] == last[shared]:
        shared += 1
    return min(shared, min(map(len, paths)) - 1)
