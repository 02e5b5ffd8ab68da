"""Whether a data version on disk is what it was when it was staged: disks fill up, and people tidy."""

from __future__ import annotations

import filecmp
from pathlib import Path

import numpy as np

from easeml_core.data.version import FACTS, MANIFEST, Version, open_version
from easeml_core.errors import OperatorError


def is_copy(staged: Path, there: Path) -> bool:
    """Whether the folder `there` has all that `staged`, a version of the same digest, has."""
    try:
        open_version(there)
        # Facts tell how a version came about, too, which is not part of its digest.
        names = [path.name for path in staged.iterdir() if path.name != FACTS]
        return all(filecmp.cmp(staged / name, there / name, shallow=False) for name in names)
    except (OperatorError, OSError):
        return False


def splits_of(version: Version) -> dict[str, str] | None:
    """The split of each content of `version`, whatever else of it is damaged; None where that is lost."""
    import pyarrow as pa

    try:
        columns = version.manifest
        return dict(zip(columns["content"], columns["split"], strict=True))
    except (OSError, ValueError, KeyError, pa.ArrowException):
        return None


def is_intact(version: Version) -> bool:
    """Whether arrays and manifest can be opened and are as long as the facts say; no value is read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    facts, folder = version.facts, version.folder
    try:
        arrays = {path.stem: np.load(path, mmap_mode="r") for path in folder.glob("*.npy")}
        rows = pq.read_metadata(folder / MANIFEST).num_rows
        lengths = {name: len(array) for name, array in arrays.items()}
        if "offsets" in arrays:
            lengths["inputs"] = len(arrays["offsets"]) - 1
            if lengths["values"] != arrays["offsets"][-1]:
                return False
    except (OSError, ValueError, KeyError, EOFError, pa.ArrowException):
        return False
    wanted = {"inputs": facts.n, "train": facts.n_train, "val": facts.n_val}
    if facts.task_kind in ("classification", "regression"):
        wanted["targets"] = facts.n
    return rows == facts.n and wanted.items() <= lengths.items()
