"""Names that operating systems, editors and upload tools leave behind, and names that are not safe.

One rule for the bucket and for the inside of archives.
"""

from __future__ import annotations

import re

_LEFTOVER_NAMES = frozenset({"__macosx", "thumbs.db", "desktop.ini", "__pycache__", "$recycle.bin", "@eadir"})
_LEFTOVER_ENDS = ("~", ".swp", ".swo", ".bak", ".pyc")
_UNFINISHED_ENDS = (".part", ".partial", ".filepart", ".crdownload", ".download", ".tmp", ".uploading")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def is_leftover(name: str) -> bool:
    """Whether one path component is a hidden, editor or system file that nobody meant to upload.

    >>> is_leftover(".DS_Store"), is_leftover("__MACOSX"), is_leftover("cat.png")
    (True, True, False)
    """
    low = name.lower()
    return (
        # The engine of ease.ml hides the links of its data set directories.
        (name.startswith((".", "~$")) and name != ".links.csv")
        or low in _LEFTOVER_NAMES
        or low.endswith(_LEFTOVER_ENDS)
        or (len(name) > 1 and name.startswith("#") and name.endswith("#"))
    )


def is_unfinished(name: str) -> bool:
    """Whether an upload tool gives this name to a file it is still writing.

    >>> is_unfinished("data.zip.part")
    True
    """
    return name.lower().endswith(_UNFINISHED_ENDS)


def unsafe_reason(path: str) -> str | None:
    """Why the relative path `path` (with `/`) may not become a file here, or None where it may.

    >>> unsafe_reason("a/../../b")
    "it has '..' in it"
    """
    if path.startswith("/") or re.match(r"[A-Za-z]:", path):
        return "it is an absolute path"
    if "\\" in path:
        return "it has a backslash in it"
    if _CONTROL.search(path):
        return "it has a control character in it"
    parts = path.split("/")
    if ".." in parts:
        return "it has '..' in it"
    if "" in parts or "." in parts:
        return "it has an empty component in it"
    try:
        sizes = [len(part.encode()) for part in parts]
    except UnicodeEncodeError:
        return "it is not valid UTF-8"
    if max(sizes) > 255 or sum(sizes) + len(sizes) > 2000:
        return "it is too long"
    if len(parts) > 40:
        return "it is nested more than 40 folders deep"
    return None
