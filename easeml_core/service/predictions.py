"""What a tenant gets for a request: `predictions/<request>.csv` for classes and values, else `.npz`.

The table has the columns `id`, `class` and one `probability_<class>` per class, or for a regression `value`
(`value_1`, `value_2` … of several), and `model_version`.

The arrays are `id` (N,), `model_version` and `prediction`: images (N, D, E, F) in the units of the data, or
all series or bytes one after the other, (total, D) or (total,), of which example i has
`prediction[offsets[i]:offsets[i + 1]]`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy.typing as npt

    from easeml_core.data import VersionFacts

_ANSWERING = frozenset({"image-recovery", "series-translation", "general-autoencoder"})


def extension(template: str) -> str:
    """The kind of file that predictions of a task of this template row are written to."""
    from easeml_core import language

    try:
        row = language.template(template)
    except KeyError:  # not known yet, or of a plug-in that is gone
        return "csv"
    return "npz" if (row.reads_like or row.id) in _ANSWERING else "csv"


def predictions_file(
    ids: Sequence[str], outputs: npt.NDArray[Any], facts: VersionFacts, model_version: str
) -> tuple[str, bytes]:
    """Extension and content of the file that a tenant gets; `outputs` as the model gave them.

    Raises ValueError where the model's answers do not fit the ids, or are not finite.
    """
    if facts.target_shape is None:
        return "csv", predictions_csv(ids, outputs, facts, model_version).encode()
    return "npz", predictions_npz(ids, outputs, facts, model_version)


def predictions_csv(
    ids: Sequence[str], outputs: npt.NDArray[Any], facts: VersionFacts, model_version: str
) -> str:
    """The table of classes or values. `outputs` (N, K): probabilities per class, or values."""
    import numpy as np

    columns = outputs.reshape(len(ids), -1) if len(outputs) == len(ids) else None
    if columns is None or not np.isfinite(columns).all():
        raise _misfit(ids, outputs)
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    if facts.classes is not None:
        # Outputs beyond the classes seen in training belong to no class.
        columns = columns[:, : len(facts.classes)]
        writer.writerow(["id", "class", *(f"probability_{c}" for c in facts.classes), "model_version"])
        best = columns.argmax(axis=1)
        lead = [[facts.classes[int(i)]] for i in best]
    else:
        width = columns.shape[1]
        heads = ["value"] if width == 1 else [f"value_{i + 1}" for i in range(width)]
        writer.writerow(["id", *heads, "model_version"])
        lead = [[] for _ in ids]
    for ident, first, row in zip(ids, lead, columns, strict=True):
        writer.writerow([ident, *first, *(f"{float(value):.7g}" for value in row), model_version])
    return stream.getvalue()


def predictions_npz(
    ids: Sequence[str], outputs: npt.NDArray[Any], facts: VersionFacts, model_version: str
) -> bytes:
    """The arrays of images (N, D, E, F), series (N, T, D) or bytes (N, T); NaN follows where one ends."""
    import numpy as np

    if len(outputs) != len(ids) or facts.target_shape is None:
        raise _misfit(ids, outputs)
    arrays: dict[str, npt.NDArray[Any]] = {"id": np.array(ids, dtype=np.str_)}
    arrays["model_version"] = np.array(model_version)
    if facts.kind == "image":
        answers = outputs.reshape(len(ids), *facts.target_shape)
    else:
        padded = outputs.reshape(len(ids), -1, *facts.target_shape)
        ends = ~np.isnan(padded).any(axis=2)
        lengths = ends.sum(axis=1)
        # What has a gap is no answer: the steps up to the last one must all be there.
        if not all(row[:length].all() for row, length in zip(ends, lengths, strict=True)):
            raise _misfit(ids, outputs)
        answers = padded[ends]
        arrays["offsets"] = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    if not np.isfinite(answers).all():
        raise _misfit(ids, outputs)
    if facts.dtype == "uint8":
        answers = np.clip(np.rint(answers), 0, 255).astype(np.uint8)
    arrays["prediction"] = answers.reshape(-1) if facts.kind == "bytes" else answers
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]
    return stream.getvalue()


def _misfit(ids: Sequence[str], outputs: npt.NDArray[Any]) -> ValueError:
    text = f"the model answered {len(ids)} inputs with {outputs.shape}, or not with numbers"
    return ValueError(text)
