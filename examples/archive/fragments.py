"""What kind of file a fragment of 128 bytes is from, as files of any type in a folder per class.

Source: files of installed packages: Python's own modules (text), a photograph (JPEG), the same photograph
unpacked (pixels), and measurements as floating-point numbers, all as scikit-learn and Python ship them.
"""

from __future__ import annotations

import importlib.resources
import statistics
from pathlib import Path

import numpy as np

from easeml_core.naming import TaskName
from examples.layout import SEED, Example, Layout, hold_back

SPEC = """\
# No other row takes it, so it is read as bytes: a fragment is 8 lines of 16 of them.
program: "{input: {[Tensor[8, 16]], []}, output: {[Tensor[4]], []}}"
description: what kind of file a fragment is from
budget: {trials: 1}
"""

_BYTES = 128
_EACH = 100


def _sources() -> dict[str, bytes]:
    from sklearn.datasets import load_breast_cancer, load_sample_image

    photo = importlib.resources.files("sklearn.datasets.images") / "flower.jpg"
    return {
        "numbers": load_breast_cancer().data.astype("<f8").tobytes(),
        "photo": photo.read_bytes(),
        "pixels": load_sample_image("flower.jpg").tobytes(),
        "text": Path(str(statistics.__file__)).read_bytes(),
    }


def build(layout: Layout) -> None:
    """Write data/<kind>/<number>.bin, and one fragment in five to the held-back folder."""
    random = np.random.default_rng(SEED)
    fragments = []
    for kind, content in _sources().items():
        # Where a file begins says too much of its type.
        places = 1 + random.permutation(len(content) // _BYTES - 1)
        unique = dict.fromkeys(content[at * _BYTES :][:_BYTES] for at in places)
        fragments += [(kind, fragment) for fragment in list(unique)[:_EACH]]
    kept, held = hold_back(np.array([kind for kind, _ in fragments]), 0.2)
    data = layout.fresh(SPEC)
    for number in kept:
        kind, fragment = fragments[number]
        (data / kind).mkdir(exist_ok=True)
        (data / kind / f"{number:03d}.bin").write_bytes(fragment)
    for number in held:
        (layout.inputs / f"{number:03d}.bin").write_bytes(fragments[number][1])
    layout.write_labels((f"{number:03d}.bin", fragments[number][0]) for number in held)


EXAMPLE = Example(
    TaskName("archive", "fragments"), "fragments of files: bytes", "the most frequent class", build
)

if __name__ == "__main__":
    EXAMPLE.main()
