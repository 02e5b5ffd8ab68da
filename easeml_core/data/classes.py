"""Reads class and split out of the folders that examples lie in."""

from __future__ import annotations

from collections.abc import Sequence

from easeml_core.data.findings import Findings, listed
from easeml_core.data.forms import split_hint
from easeml_core.data.tree import SourceFile, Tree

Place = tuple[str | None, str | None]  # class, split


def place_by_folder(tree: Tree, files: Sequence[SourceFile], findings: Findings) -> dict[str, Place]:
    """Class and split of each of `files`, by name, for a folder per class.

    Folders that wrap all others are skipped, in each archive by itself; a top level of only `train`,
    `val`, `test` … is the split and the next one the class. A class folder without any file is a problem,
    and so are archives of one folder each of which nobody can tell the class.
    """
    places: dict[str, Place] = {}
    lost: list[str] = []
    groups: dict[str, list[SourceFile]] = {}
    for file in sorted(files):
        groups.setdefault(file.root, []).append(file)
    unclear = _unclear(groups)
    for root, group in sorted(groups.items()):
        if root in unclear:
            names = " or ".join(map(repr, group[0].folders))
            text = f"one cannot tell which folder is the class, {names}"
            fix = "let the folder of the files be the class, with no folder around it"
            findings.problem(f"data/{group[0].name}", text, fix=fix)
            continue
        empty = [parts for where, parts in tree.empty if where == root]
        lost += _place(group, empty, root, places, findings)
    if lost:
        more = f", nor do {len(lost) - 1} others: {listed(lost[1:])}" if len(lost) > 1 else ""
        text = f"lies in no class folder{more}"
        findings.problem(f"data/{lost[0]}", text, fix="use data/<class>/<file>")
    return places


def _unclear(groups: dict[str, list[SourceFile]]) -> set[str]:
    """Roots whose files lie in one folder within others, where the other roots do not say what those are.

    `cat.zip` with `cat/day1` beside `dog.zip` with `dog/day2` looks just as `pets.zip` with `pets/cat`
    beside `farm.zip` with `farm/hen`. A folder that all such roots share is around the classes, and one
    that is a class elsewhere is a class here.
    """
    alone: dict[str, tuple[str, ...]] = {}
    known: set[str] = set()
    for root, group in groups.items():
        paths = {file.folders for file in group}
        depth = _wrapping_folders([path for path in paths if path])
        if len(paths) == 1 and (path := next(iter(paths))) and not any(map(_names_split, path)):
            alone[root] = path
        if len(paths) > 1 or depth == 0:
            below = [[folder for folder in path[depth:] if not _names_split(folder)] for path in paths]
            known |= {folders[0] for folders in below if folders}
    around = _wrapping_folders(list(alone.values()))
    return {
        root
        for root, path in alone.items()
        if path[-1] not in known and (len(path) > around + 1 or known.intersection(path[:-1]))
    }


def _place(
    files: list[SourceFile],
    empty: list[tuple[str, ...]],
    root: str,
    places: dict[str, Place],
    findings: Findings,
) -> list[str]:
    """Fill `places`; returns the names of the files in no class folder."""
    lost = []
    depth = _wrapping_folders([file.folders for file in files if file.folders])
    tops = {file.folders[depth] for file in files if len(file.folders) > depth}
    split_level = bool(tops) and all(_names_split(top) for top in tops)
    level = depth + 1 if split_level else depth
    filled: set[tuple[str, ...]] = set()
    for file in files:
        if len(file.folders) <= level:
            lost.append(file.name)
            continue
        filled.add(file.folders[: level + 1])
        split = split_hint(file.folders[depth]) if split_level else None
        places[file.name] = (file.folders[level], split)
    for path in empty:
        if len(path) > level and path[: level + 1] not in filled:
            name = "/".join((*root.split("/")[:-1], *path[: level + 1]))
            text = f"the class folder {path[level]!r} has no file in it"
            findings.problem(f"data/{name}", text, fix="add examples or delete the folder")
    return lost


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
