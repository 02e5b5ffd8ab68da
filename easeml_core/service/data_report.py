"""What a tenant is told of accepted data: `data-report.md`, and `examples.csv` with the id of every example.

`examples.csv` has the columns of `refine.csv`, and the split besides: a tenant deletes the rows that stay,
changes the others, and uploads the rest under that name.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from easeml_core import naming
from easeml_core.catalog.normalise import HIGH_DYNAMIC_RANGE
from easeml_core.service.data_picture import draw
from easeml_core.service.status_text import plain, table

if TYPE_CHECKING:
    from easeml_core.data import Version, VersionFacts
    from easeml_core.naming import TaskName
    from easeml_core.service.context import Service

_SAMPLE = 5
_LINES = "of a line `file.jsonl#line` (from 1) unless it has an `id`"
_IDS = {
    "image": "Of an image it is the path below `data/`, in an archive `archive.zip/path`; in a table of "
    "labels the column `file`; of a pair the path of its input.",
    "vector": "Of a row of a table it is the column `id`, else `file.csv#row` (rows count from 1), "
    f"{_LINES}.",
    "series": "Of a series it is `file.ts#number` (from 1), of a row of a table the column `id`, else "
    f"`file.csv#row`, {_LINES}.",
    "tree": f"Of a tree it is {_LINES.removeprefix('of a line ')}.",
    "bytes": f"Of a file it is the path below `data/`, {_LINES}.",
}
_ARRAYS = "Of an array it is the array `ids`, else `file.npz[position]` (from 0)."
_SAMPLES = "Of a sample of an ease.ml directory it is the path of its folder, without `input`."
_UNITS = {
    "image": "images of",
    "vector": "vectors of",
    "series": "series with steps of",
    "tree": "trees with nodes of",
    "bytes": "objects as bytes, of a width of",
}


def write_report(service: Service, name: TaskName, version: Version, left_out: Sequence[str] = ()) -> bool:
    """Write report, picture and list of examples into the task's folder; returns whether anything changed.

    `left_out` are files of the upload that were no data, beside those that the version knows of.
    """
    contents: dict[str, bytes | str] = {
        naming.EXAMPLES_CSV: examples_text(version),
        naming.REPORT_MD: report_text(name, version, left_out),
        naming.REPORT_PNG: draw(version),
    }
    changed = [service.bucket.write_if_changed(name.key(file), content) for file, content in contents.items()]
    return any(changed)


def examples_text(version: Version) -> str:
    """CSV: id, keep (1 or 0), label, split; what several values are to predict is called `values` instead,
    for `refine.csv` cannot correct those."""
    facts, columns = version.facts, version.manifest
    several = facts.task_kind == "regression" and facts.outputs > 1
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(("id", "keep", "values" if several else "label", "split"))
    for ident, kept, label, split in zip(
        *(columns[key] for key in ("id", "kept", "label", "split")), strict=True
    ):
        rows.writerow((ident, int(kept), "" if label is None else label, split if kept else ""))
    return out.getvalue()


def report_text(name: TaskName, version: Version, left_out: Sequence[str] = ()) -> str:
    """Markdown: how many examples of which class in which split, what was changed or left out, and why."""
    facts = version.facts
    parts = [
        f"# Data of {name}\n\nVersion `{facts.digest[:16]}`: {_size(facts)}.\n",
        table(
            ("examples", "number"),
            [
                ("read", facts.n),
                ("to train on", facts.n_train),
                ("to validate on", facts.n_val),
                ("switched off by refine.csv", facts.n_switched_off),
                ("broken and left out", facts.n_quarantined),
            ],
        ),
        _split(facts),
        *filter(None, [_range(facts)]),
    ]
    if facts.classes is not None:
        parts.append("## Classes\n\n" + table(("class", "train", "validation"), _classes(version)))
    parts.append(f"![a look at the data]({naming.REPORT_PNG})\n")
    parts.append(_sizes(version))
    parts.append(_ids(version))
    if facts.warnings:
        parts.append("## Warnings\n\n" + "".join(f"- {plain(text)}\n" for text in facts.warnings))
    if facts.n_quarantined:
        rows = [(item["file"], item["reason"]) for item in facts.quarantined]
        more = facts.n_quarantined - len(rows)
        parts.append("## Broken and left out\n\n" + table(("file", "why"), list(rows)))
        parts += [f"and {more} more\n"] if more else []
    if pairs := facts.near_duplicates:
        text = (
            "These validation examples are nearly the same as one to train on, so that results may look "
            f"better than they are. If they are copies, switch one of each off in `{naming.REFINE_FILE}`.\n\n"
        )
        found = [(first, second) for first, second in pairs]
        parts.append("## Near duplicates\n\n" + text + table(("validation", "train"), found))
    if dropped := [*facts.dropped, *left_out]:
        listed = "".join(f"- {plain(file)}\n" for file in dropped)
        parts.append(f"## No data\n\nFiles that were not read:\n\n{listed}")
    told_elsewhere = ("columns", "targets", "split")
    changed = [(key, value) for key, value in facts.converted.items() if key not in told_elsewhere]
    if changed:
        parts.append("## Converted\n\n" + table(("what", "examples"), list(changed)))
    if columns := facts.converted.get("columns"):
        parts.append(f"## Columns\n\nIn this order: {', '.join(plain(str(column)) for column in columns)}\n")
    return "\n".join(parts)


def _size(facts: VersionFacts) -> str:
    shape = " × ".join(map(str, facts.shape))
    text = f"{facts.n} {_UNITS[facts.kind]} {shape}, values from {facts.low:g} to {facts.high:g}"
    if facts.max_length is not None:
        text += f", {facts.mean_length:.4g} long on average and {facts.max_length} at most"
    if facts.target_shape is None:
        return text
    shape = " × ".join(map(str, facts.target_shape))
    text += (
        f"; each is to be answered with {shape}, values from {facts.target_low:g} to {facts.target_high:g}"
    )
    return text if facts.target_max_length is None else f"{text}, {facts.target_max_length} long at most"


def _range(facts: VersionFacts) -> str:
    """How far magnitudes lie apart, where that makes a difference."""
    if facts.kind != "image" or facts.dynamic_range < HIGH_DYNAMIC_RANGE:
        return ""
    return (
        f"The largest magnitude is {facts.dynamic_range:.3g} times the 1st percentile of those that are not "
        f"zero. From {HIGH_DYNAMIC_RANGE:g} times on, each model is also tried behind four normalisers. In "
        "the picture below each order of magnitude counts the same.\n"
    )


def _sizes(version: Version) -> str:
    """How large examples came: of images height × width, else shortest, median and longest."""
    facts = version.facts
    if facts.sizes:
        rows: list[tuple[object, ...]] = list(facts.sizes.items())
        if more := facts.n - sum(facts.sizes.values()):
            rows.append(("others, or from arrays and tables", max(0, more)))
        return "## Sizes\n\n" + table(("as it came", "images"), rows)
    if facts.max_length is None:
        return ""
    lengths = np.diff(version.offsets)
    row = (int(lengths.min()), f"{float(np.median(lengths)):g}", int(lengths.max()))
    return "## Sizes\n\n" + table(("shortest", "median", "longest"), [row])


def _split(facts: VersionFacts) -> str:
    if said := facts.converted.get("split"):
        return f"The split was {plain(str(said))}.\n"
    return (
        f"The split was drawn here: {facts.validation_fraction:g} to validate on, "
        f"seed {facts.validation_seed}; identical examples are on one side, and those of an earlier "
        "version stay where they were.\n"
    )


def _classes(version: Version) -> list[tuple[object, ...]]:
    columns = version.manifest
    counts = Counter(
        (label, split)
        for label, split, kept in zip(columns["label"], columns["split"], columns["kept"], strict=True)
        if kept
    )
    return [(name, counts[name, "train"], counts[name, "val"]) for name in version.facts.classes or ()]


def _how(facts: VersionFacts) -> str:
    arrays = _ARRAYS if facts.kind in ("image", "vector", "series") else ""
    return " ".join(filter(None, (_IDS[facts.kind], arrays, _SAMPLES)))


def _ids(version: Version) -> str:
    shown = ", ".join(plain(ident) for ident in version.ids[:_SAMPLE])
    return (
        f"## Ids\n\n`{naming.EXAMPLES_CSV}` lists the id of every example, with its label and split. "
        f"`{naming.REFINE_FILE}` and predictions use the same ids. {_how(version.facts)}\n\n"
        f"The first ones: {shown}\n"
    )
