"""Splits examples into training and validation, stratified, seeded, and stable when data grows.

What decides is content, not name or position: identical examples always land in one split, so nothing
leaks. An example keeps the split it had in the parent version.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence

TRAIN, VAL = "train", "val"


def assign(
    hashes: Sequence[str],
    strata: Sequence[int],
    kept: Sequence[bool],
    *,
    fraction: float,
    seed: int,
    sticky: Mapping[str, str],
    hints: Sequence[str | None],
) -> list[str]:
    """The split of each example.

    `hashes` are content hashes, `strata` class numbers (all 0 for a regression), `kept` False for those
    switched off; `sticky` maps a content hash to its split in the parent version; `hints` are what the
    upload itself says. In each stratum new contents are ordered by a seeded hash and the first ones go to
    validation, as many as make its share `fraction` of the stratum. A stratum with two or more kept
    contents has at least one of them in each split, unless hints say otherwise. Hints count where some
    examples are for validation and others are not.
    """
    # Where all are called validation, that tells them apart from nothing.
    hinted = VAL in hints and any(hint != VAL for hint in hints)
    given: dict[str, str] = dict(sticky)
    if hinted:
        for content, hint in zip(hashes, hints, strict=True):
            # The same content in both: it stays out of validation.
            if hint is not None and given.get(content) != TRAIN:
                given[content] = hint
    groups: defaultdict[int, dict[str, bool]] = defaultdict(dict)
    stratum_of: dict[str, int] = {}
    for content, stratum, use in zip(hashes, strata, kept, strict=True):
        home = stratum_of.setdefault(content, stratum)
        groups[home][content] = groups[home].get(content, False) or use
    split: dict[str, str] = {}
    for contents in groups.values():
        split.update(_stratum(contents, given, fraction, seed))
        if not hinted:
            _both(contents, split, seed)
    return [split[content] for content in hashes]


def _order(content: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}:{content}".encode()).digest()


def _stratum(
    contents: Mapping[str, bool], given: Mapping[str, str], fraction: float, seed: int
) -> dict[str, str]:
    split = {content: given[content] for content in contents if content in given}
    new = sorted((content for content in contents if content not in given), key=lambda c: _order(c, seed))
    wanted = round(fraction * len(contents))
    if len(contents) > 1:
        wanted = min(max(wanted, 1), len(contents) - 1)
    missing = wanted - sum(part == VAL for part in split.values())
    for i, content in enumerate(new):
        split[content] = VAL if i < missing else TRAIN
    return split


def _both(contents: Mapping[str, bool], split: dict[str, str], seed: int) -> None:
    """Refining may have switched off a whole side of a small class: move one content over."""
    used = sorted((content for content, use in contents.items() if use), key=lambda c: _order(c, seed))
    if len(used) < 2:
        return
    for side, other in ((VAL, TRAIN), (TRAIN, VAL)):
        if all(split[content] == other for content in used):
            split[used[0]] = side
