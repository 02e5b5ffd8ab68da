"""A real MLflow server, small data versions of every kind, and orders for them."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from easeml_core.data import VersionFacts
from easeml_core.workorder import ORDER_FILE, WorkOrder
from training.child import prepare_environment

CLASSES = ("ant", "bee", "cat")


@pytest.fixture(scope="session", autouse=True)
def _trainer_environment() -> None:
    """As in a trainer's own process: one thread per library, and MLflow does not retry for minutes."""
    prepare_environment()


def _save(folder: Path, facts: dict[str, Any], **arrays: np.ndarray) -> Path:
    folder.mkdir(parents=True)
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    n_train, n_val = len(arrays["train"]), len(arrays["val"])
    written = VersionFacts(
        n=n_train + n_val,
        n_train=n_train,
        n_val=n_val,
        validation_fraction=0.2,
        validation_seed=7,
        digest=(facts["kind"] + facts["task_kind"]).encode().hex().ljust(64, "0")[:64],
        dynamic_range=facts.pop("dynamic_range", 255.0),
        **facts,
    )
    (folder / "version.json").write_text(written.model_dump_json())
    return folder


def _split(n: int) -> dict[str, np.ndarray]:
    order = np.random.default_rng(0).permutation(n).astype(np.int64)
    return {"train": np.sort(order[n // 4 :]), "val": np.sort(order[: n // 4])}


def make_version(folder: Path, kind: str, task_kind: str = "classification", *, n: int = 96) -> Path:
    """Three well separated classes (a linear target, inputs to recover) in the layout of a data version."""
    rng = np.random.default_rng(1)
    classes = rng.integers(0, 3, n).astype(np.int64)
    common: dict[str, Any] = {"kind": kind, "task_kind": task_kind}
    if task_kind == "classification":
        common |= {"classes": CLASSES, "outputs": 3}
    if kind == "image" and task_kind == "recovery":
        targets = np.repeat(rng.integers(0, 255, (n, 8, 1, 1)), 8, 2).astype(np.uint8)
        facts = common | {"shape": (8, 8, 1), "dtype": "uint8", "outputs": 64, "low": 0.0, "high": 255.0}
        facts |= {"target_shape": (8, 8, 1), "target_low": 0.0, "target_high": 255.0}
        return _save(folder, facts, inputs=targets // 2 + 20, targets=targets, **_split(n))
    if kind in ("tree", "bytes"):
        return _long_version(folder, common, classes, rng)
    if kind == "image":
        bright = 40 * classes[:, None, None, None] + rng.integers(0, 60, (n, 8, 8, 1))
        facts = common | {"shape": (8, 8, 1), "dtype": "uint8"}
        inputs = bright.astype(np.uint8)
        return _save(folder, facts | {"low": 0.0, "high": 255.0}, inputs=inputs, targets=classes, **_split(n))
    if kind == "series":
        lengths = rng.integers(3, 9, n)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        values = (np.repeat(classes, lengths)[:, None] + rng.normal(0, 0.3, (offsets[-1], 2))).astype(
            np.float32
        )
        facts = common | {"shape": (2,), "dtype": "float32", "low": -2.0, "high": 4.0} | _lengths(lengths)
        series = {"values": values, "offsets": offsets}
        if task_kind == "translation":  # backwards
            answers = np.concatenate([values[a:b][::-1] for a, b in itertools.pairwise(offsets)])
            facts |= {"outputs": 2, "target_shape": (2,), "target_max_length": int(lengths.max())}
            return _save(folder, facts, **series, target_values=answers, target_offsets=offsets, **_split(n))
        if task_kind == "regression":
            facts |= {"outputs": 1, "reference": {"mse": 1.0}}
            return _save(folder, facts, **series, targets=classes[:, None].astype(np.float32), **_split(n))
        return _save(folder, facts, **series, targets=classes, **_split(n))
    inputs = rng.normal(0, 1, (n, 5)).astype(np.float32)
    facts = common | {"shape": (5,), "dtype": "float32", "low": -5.0, "high": 5.0}
    if task_kind == "regression":
        targets = (inputs[:, :1] * 30 + inputs[:, 1:2] * 5 + 100).astype(np.float32)
        facts |= {"outputs": 1, "reference": {"mse": float(targets.var()), "mae": 25.0}}
        return _save(folder, facts, inputs=inputs, targets=targets, **_split(n))
    inputs[:, 0] += 4 * classes
    return _save(folder, facts, inputs=inputs, targets=classes, **_split(n))


def _long_version(folder: Path, facts: dict[str, Any], classes: np.ndarray, rng: np.random.Generator) -> Path:
    """Trees, chains of nodes that say their class, or bytes that do."""
    n, lengths = len(classes), rng.integers(3, 9, len(classes))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    long = {"offsets": offsets, **_split(n)}
    if facts["kind"] == "tree":
        nodes = np.repeat(classes, lengths)
        values = np.stack([nodes == 1, nodes == 2], 1).astype(np.float32)
        children = np.full((offsets[-1], 2), -1, np.int64)
        children[:, 0] = np.arange(1, offsets[-1] + 1) - np.repeat(offsets[:-1], lengths)
        children[offsets[1:] - 1, 0] = -1
        facts |= {"shape": (2,), "dtype": "float32", "low": 0.0, "high": 1.0} | _lengths(lengths)
        return _save(folder, facts, values=values, children=children, targets=classes, **long)
    values = (np.repeat(classes, lengths)[:, None] * 60 + rng.integers(0, 9, (offsets[-1], 1))).astype(
        np.uint8
    )
    facts |= {"shape": (1,), "dtype": "uint8", "low": 0.0, "high": 255.0} | _lengths(lengths)
    if facts["task_kind"] == "classification":
        return _save(folder, facts, values=values, targets=classes, **long)
    facts |= {"outputs": 1, "target_shape": (1,), "target_low": 0.0, "target_high": 255.0}
    return _save(folder, facts | {"target_max_length": int(lengths.max())}, values=values, **long)


def _lengths(lengths: np.ndarray) -> dict[str, Any]:
    return {"max_length": int(lengths.max()), "mean_length": float(lengths.mean())}


@pytest.fixture(scope="session")
def save_version() -> Callable[..., Path]:
    """`save_version(folder, facts, inputs=…, targets=…, train=…, val=…)` writes a data version of its own."""
    return _save


@pytest.fixture(scope="session")
def versions(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """`versions("image")`, `versions("vector", "regression")`, …: folders, made once."""
    root = tmp_path_factory.mktemp("versions")

    def get(kind: str, task_kind: str = "classification", n: int = 96) -> Path:
        folder = root / f"{kind}-{task_kind}-{n}"
        return folder if folder.exists() else make_version(folder, kind, task_kind, n=n)

    return get


@pytest.fixture(scope="session")
def mlflow_url() -> Iterator[str]:
    """A real MLflow server on loopback, its database and artifacts in a temporary folder."""
    folder = Path(tempfile.mkdtemp(prefix="easeml-mlflow-"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    server = subprocess.Popen(
        [
            sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port),
            "--workers", "1", "--backend-store-uri", f"sqlite:///{folder}/mlflow.db",
            "--artifacts-destination", f"{folder}/artifacts",
        ],
        env={
            **os.environ,
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            "MLFLOW_DISABLE_TELEMETRY": "true",
        },
        stdout=(folder / "log.txt").open("w"),
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 90
        while True:
            try:
                if httpx.get(f"{url}/health", timeout=2).status_code == 200:
                    break
            except httpx.HTTPError:
                pass
            assert server.poll() is None, (folder / "log.txt").read_text()
            assert time.monotonic() < deadline, "MLflow did not come up"
            time.sleep(0.1)
        yield url
    finally:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def artifacts(mlflow_url: str) -> Path:
    """Where that server keeps its artifacts."""
    import re

    import psutil

    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or [])
        if f"--port {mlflow_url.rsplit(':', 1)[1]}" in line and (
            found := re.search(r"destination (\S+)", line)
        ):
            return Path(found[1])
    raise AssertionError("the server is not there")


@pytest.fixture(scope="session")
def order_maker(versions: Callable[..., Path], mlflow_url: str) -> Callable[[Path], Callable[..., Path]]:
    """`order_maker(folder)` gives a function that writes orders below `folder`; see `make_order`."""
    numbers = iter(range(1, 1000))

    def maker(root: Path) -> Callable[..., Path]:
        def make(
            candidate: str, kind: str, task_kind: str = "classification", *, n: int = 96, **fields: Any
        ) -> Path:
            trial = fields.pop("trial_id", None) or (os.getpid() % 10**6) * 1000 + next(numbers)
            attempt = fields.get("attempt", 1)
            folder = root / f"trial-{trial}" / f"attempt-{attempt}"
            folder.mkdir(parents=True)
            version = fields.pop("version_dir", None) or versions(kind, task_kind, n)
            order = WorkOrder(
                **{
                    "trial_id": trial,
                    "attempt": 1,
                    "tenant": "clinic",
                    "task": f"t-{root.name.replace('_', '-').lower()}"[:40].strip("-"),
                    "template": f"{kind}-{task_kind}",
                    "candidate": candidate,
                    "version_dir": str(version),
                    "version_digest": "0" * 64,
                    "objective": {"classification": "accuracy", "recovery": "psnr"}.get(task_kind, "mse"),
                    "device": "cpu0",
                    "seed": 11,
                    "max_epochs": 2,
                    "batch_size": 16,
                    "limit_seconds": 300.0,
                    "leash_seconds": 60.0,
                    "checkpoint_dir": str(folder.parent / "checkpoint"),
                    "mlflow_url": mlflow_url,
                    "experiment": "clinic/" + root.name,
                    **fields,
                }
            )
            order.write(folder / ORDER_FILE)
            return folder / ORDER_FILE

        return make

    return maker


@pytest.fixture
def make_order(tmp_path: Path, order_maker: Callable[[Path], Callable[..., Path]]) -> Callable[..., Path]:
    """Writes an order; `make_order("MLP", "vector")` gives the path of its `order.json`."""
    return order_maker(tmp_path)
