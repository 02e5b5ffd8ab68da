"""Reads files of any type as what they are: their bytes, one example per file, a folder per class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from easeml_core.data.classes import place_by_folder
from easeml_core.data.findings import Findings
from easeml_core.data.forms import Example, Form
from easeml_core.data.tree import SourceFile, Tree
from easeml_core.spec.rules import MAX_OBJECT_BYTES


def read_objects(
    tree: Tree, files: Sequence[SourceFile], form: Form, findings: Findings, *, labelled: bool
) -> Iterator[Example]:
    """One example per file, in order of names; the folder is the class where there are classes."""
    by_folder = labelled and form.task_kind == "classification"
    places = place_by_folder(tree, files, findings) if by_folder else {}
    for file in files:
        if by_folder and file.name not in places:
            continue
        size = file.path.stat().st_size
        if not 0 < size <= MAX_OBJECT_BYTES:
            said = (
                f"it has {size:,} bytes; at most {MAX_OBJECT_BYTES:,} are read"
                if size
                else "the file is empty"
            )
            findings.quarantine(f"data/{file.name}", said)
            continue
        value = np.frombuffer(file.path.read_bytes(), dtype=np.uint8).reshape(-1, 1)
        label, split = places.get(file.name, (None, None))
        yield Example(file.name, f"data/{file.name}", value, label=label, split=split)
