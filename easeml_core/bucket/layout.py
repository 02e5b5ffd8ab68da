"""Sorts the files of a bucket into listings, by the layout that tenants are told.

Pure: `sort_contents` looks at names, sizes and times only. The layout is in `naming`.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from operator import attrgetter

from easeml_core import naming
from easeml_core.bucket.entries import Entry, Kind, Listing, Scan, Stray
from easeml_core.bucket.leftovers import is_unfinished, unsafe_reason
from easeml_core.bucket.store import Contents
from easeml_core.errors import Problem

_FIX_PLACE = "put files under <tenant>/<task>/data/, beside task.yaml"
_LINK = "is a link, and links are not followed"
_FIX_LINK = "upload the file itself"


@dataclass
class _Draft:
    kind: Kind
    entries: list[Entry] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    unanswered: set[str] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)
    marker: float | None = None

    def finish(self, prefix: str) -> Listing:
        entries = tuple(sorted(self.entries, key=attrgetter("key")))
        # A marker left over from an earlier upload must not vouch for files that came later.
        newest = max((entry.modified for entry in entries), default=0.0)
        marked = self.marker is not None and self.marker >= newest
        return Listing(
            prefix,
            self.kind,
            entries,
            tuple(sorted(self.folders)),
            tuple(sorted(self.unfinished)),
            tuple(sorted(self.ignored)),
            tuple(sorted(self.unanswered)),
            tuple(sorted(self.problems, key=str)),
            marked,
        )


def sort_contents(contents: Contents) -> Scan:
    """The listings of all tasks, requests and control files, and what fits nowhere."""
    drafts: dict[str, _Draft] = {}
    lost: defaultdict[tuple[str, str], list[str]] = defaultdict(list)

    def draft(prefix: str, kind: Kind) -> _Draft:
        return drafts.setdefault(prefix, _Draft(kind))

    def place(key: str) -> tuple[_Draft, str] | None:
        """The draft a key belongs to and its path in there, or None after noting why there is none."""
        tenant, *rest = key.split("/")
        if not rest:
            lost["", f"is at the top of the bucket; {_FIX_PLACE}"].append(key)
        elif not naming.is_id(tenant):
            lost[tenant, f"{tenant!r} is not a tenant id: it must be {naming.ID_RULE}"].append(key)
        elif len(rest) == 1:
            lost[tenant, f"is in no task's folder; {_FIX_PLACE}"].append(key)
        elif not naming.is_id(rest[0]):
            lost[f"{tenant}/{rest[0]}", f"{rest[0]!r} is not a task id: it must be {naming.ID_RULE}"].append(
                key
            )
        elif rest[1] == naming.INFER_DIR and len(rest) > 3:
            if naming.is_request_id(rest[2]):
                return draft("/".join((tenant, *rest[:3])), Kind.INFER), "/".join(rest[3:])
            found = draft(f"{tenant}/{rest[0]}", Kind.TASK)
            found.ignored.append("/".join(rest[1:]))
            found.unanswered.add("/".join(rest[1:3]))
        elif rest[1:] == [naming.CONTROL_FILE]:
            return draft(key, Kind.CONTROL), naming.CONTROL_FILE
        else:
            return draft(f"{tenant}/{rest[0]}", Kind.TASK), "/".join(rest[1:])
        return None

    for entry in contents.entries:
        name = entry.key.rpartition("/")[2]
        if name in naming.SERVICE_FILES and entry.key.count("/") <= 2:
            continue
        if (where := place(entry.key)) is not None:
            _sort_file(*where, entry)
    for link in contents.links:
        if (where := place(link)) is not None and not _is_predictions(where[1]):
            where[0].problems.append(Problem(where[1], _LINK, fix=_FIX_LINK))
    for folder in contents.folders:
        parts = folder.split("/")
        if len(parts) > 3 and parts[2] == naming.DATA_DIR and (where := place(folder)) is not None:
            where[0].folders.append(where[1])
    for leftover in contents.leftovers:
        parts = leftover.split("/")
        # Where no task is, nobody is waiting to hear of it.
        if len(parts) > 2 and (task := drafts.get("/".join(parts[:2]))) is not None:
            name = "/".join(parts[2:])
            task.ignored.append(name if name.isprintable() else ascii(name))
            if parts[2] == naming.INFER_DIR and len(parts) == 4:
                task.unanswered.add(task.ignored[-1])

    listings = {prefix: found.finish(prefix) for prefix, found in sorted(drafts.items())}
    return Scan(listings, tuple(_stray(folder, why, keys) for (folder, why), keys in sorted(lost.items())))


def _sort_file(found: _Draft, path: str, entry: Entry) -> None:
    first, *rest = path.split("/")
    if _is_predictions(path):
        return
    markable = found.kind is Kind.INFER or first == naming.DATA_DIR or not rest
    if markable and path.rpartition("/")[2] == naming.READY_MARKER:
        found.marker = max(found.marker or 0.0, entry.modified)
        return
    known = (
        found.kind is not Kind.TASK
        or (first == naming.DATA_DIR and bool(rest))
        or path in (naming.SPEC_FILE, naming.REFINE_FILE)
    )
    if is_unfinished(path):
        found.unfinished.append(path)
    elif not known:
        found.ignored.append(path)
    elif (reason := unsafe_reason(path)) is not None:
        found.problems.append(Problem(ascii(path), f"the name cannot be used: {reason}", fix="rename it"))
    else:
        found.entries.append(entry)


def _is_predictions(path: str) -> bool:
    return path == naming.PREDICTIONS_DIR or path.startswith(f"{naming.PREDICTIONS_DIR}/")


def _stray(folder: str, why: str, keys: list[str]) -> Stray:
    more = f" (and {len(keys) - 1} more files)" if len(keys) > 1 else ""
    fix = "rename the folder" if "must be" in why else "move or delete it"
    first = min(keys)
    shown = first if first.isprintable() else ascii(first)
    # A name that cannot be shown cannot be written to either: then the folder above tells.
    while not (folder.isprintable() and unsafe_reason(folder or "-") is None):
        folder = folder.rpartition("/")[0]
    return Stray(folder, Problem(shown, why + more, fix=fix))
