"""Reads class and split out of the folders that examples lie in."""

from __future__ import annotations

from collections.abc import Sequence

from easeml_core.data.findings import Findings, listed
from easeml_core.data.forms import names_split
from easeml_core.data.tree import SourceFile, Tree

Place = tuple[str | None, str | None]  # class, split


def place_by_folder(tree: Tree, files: Sequence[SourceFile], findings: Findings) -> dict[str, Place]:
    """Class and split of each of `files`, by name, for a folder per class.

    Folders that wrap all others are skipped, in each archive by itself; a top level of only `train`,
    `val`, `test` … is the split and the next one the class. An archive's name may say the split too. A class
    folder without any file is a problem, and so are archives of which nobody can tell what is the class.
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
    """Roots whose class folders lie in a folder that the other roots do not have around theirs.

    `cat.zip` with `cat/day1` and `cat/day2` beside `dog.zip` with `dog/day1` looks just as `pets.zip` with
    `pets/cat` and `pets/dog` beside `farm.zip` with `farm/cat`. A folder that is around the classes in all
    roots is none, and one that is a class where nothing is around it is a class here.
    """
    wrappers: dict[str, tuple[str, ...]] = {}
    classes: dict[str, set[str]] = {}
    for root, group in groups.items():
        paths = {_unsplit(file.folders) for file in group} - {()}
        if paths:
            depth = _wrapping_folders(list(paths))
            wrappers[root] = min(paths)[:depth]
            classes[root] = {path[depth] for path in paths}
    shared = _shared(list(wrappers.values()))
    known = {name for root, names in classes.items() if not wrappers[root] for name in names}
    return {
        root
        for root, around in wrappers.items()
        if (len(around) > shared or known.intersection(around)) and not known & classes[root]
    }


def _unsplit(folders: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(folder for folder in folders if not names_split(folder))


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
    split_level = bool(tops) and all(names_split(top) for top in tops)
    level = depth + 1 if split_level else depth
    filled: set[tuple[str, ...]] = set()
    for file in files:
        if len(file.folders) <= level:
            lost.append(file.name)
            continue
        filled.add(file.folders[: level + 1])
        places[file.name] = (file.folders[level], file.split_by_folders(level))
    for path in empty:
        if len(path) > level and path[: level + 1] not in filled:
            name = "/".join((*root.split("/")[:-1], *path[: level + 1]))
            text = f"the class folder {path[level]!r} has no file in it"
            findings.problem(f"data/{name}", text, fix="add examples or delete the folder")
    return lost


def _wrapping_folders(paths: Sequence[tuple[str, ...]]) -> int:
    """How many leading folders everything shares, one level being left for the class."""
    return min(_shared(paths), min(map(len, paths)) - 1) if paths else 0


def _shared(paths: Sequence[tuple[str, ...]]) -> int:
    """How many leading folders are the same in all `paths`."""
    first, last = min(paths, default=()), max(paths, default=())
    shared = 0
    while shared < min(len(first), len(last)) and first[shared] == last[shared]:
        shared += 1
    return shared
