"""What a tenant gets for a request: `predictions/<request>.csv` for classes and values, else `.npz`.

The table has the columns `id`, `class` and one `probability_<class>` per class, or for a regression `value`
(`value_1`, `value_2` … of several), and `model_version`.

The arrays are `id` (N,), `model_version` and `prediction`: images (N, D, E, F) in the units of the data, or
all series or bytes one after the other, (total, D) or (total,), of which example i has
`prediction[offsets[i]:offsets[i + 1]]`. Images of 8 bits are also PNGs in `predictions/<request>.zip`.
"""

from __future__ import annotations

import csv
import io
import os
import zipfile
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy.typing as npt

    from easeml_core.data import VersionFacts

_PNG_CHANNELS = (1, 3, 4)
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


def pictures(ids: Sequence[str], outputs: npt.NDArray[Any], facts: VersionFacts) -> bytes | None:
    """A zip with a PNG of each image, called as its input; None where PNG cannot hold them as they are.

    `outputs` (N, D, E, F) as for `predictions_file`, which is to be called first.
    """
    import numpy as np
    from PIL import Image

    shape = facts.target_shape
    if facts.kind != "image" or facts.dtype != "uint8" or shape is None or shape[2] not in _PNG_CHANNELS:
        return None
    images = np.clip(np.rint(outputs.reshape(len(ids), *shape)), 0, 255).astype(np.uint8)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as packed:
        for name, pixels in zip(_picture_names(ids), images, strict=True):
            png = io.BytesIO()
            Image.fromarray(pixels.squeeze(2) if shape[2] == 1 else pixels).save(png, "PNG")
            # Of no date, so that the same answers are the same bytes.
            packed.writestr(zipfile.ZipInfo(name), png.getvalue())
    return stream.getvalue()


def _picture_names(ids: Sequence[str]) -> list[str]:
    """A name in a zip for each id, with numbers where ids are no names of files or differ in endings only."""
    from easeml_core.bucket.leftovers import unsafe_reason
    from easeml_core.data.sources import IMAGE_ENDS

    stems = [os.path.splitext(text)[0] if text.lower().endswith(IMAGE_ENDS) else text for text in ids]
    count = Counter(stem.casefold() for stem in stems)
    return [
        f"{stem if count[stem.casefold()] == 1 and unsafe_reason(stem) is None else f'input {number}'}.png"
        for number, stem in enumerate(stems, 1)
    ]


def _misfit(ids: Sequence[str], outputs: npt.NDArray[Any]) -> ValueError:
    text = f"the model answered {len(ids)} inputs with {outputs.shape}, or not with numbers"
    return ValueError(text)
