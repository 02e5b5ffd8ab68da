"""Which devices this host really has, asked without torch: what decides and starts must stay light."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from easeml_core.errors import OperatorError
from easeml_core.naming import cuda_index, process_count

# The NVIDIA driver makes /dev/nvidia0, /dev/nvidia1 …; in a container only those it was given.
_NODE = re.compile(r"nvidia[0-9]+")


def gpu_count(dev: Path = Path("/dev")) -> int | None:
    """How many GPUs CUDA may see on this host; None where only CUDA itself can tell (WSL)."""
    if (dev / "dxg").exists():
        return None
    nodes = sum(1 for path in dev.iterdir() if _NODE.fullmatch(path.name))
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return nodes
    named = [part for part in visible.split(",") if part.strip()]
    return 0 if named[:1] == ["-1"] else min(nodes, len(named)) if nodes else 0


def check_devices(devices: Iterable[str], dev: Path = Path("/dev")) -> None:
    """Raise OperatorError naming every one of `devices` that needs a GPU this host does not have."""
    needed = {
        device: first + process_count(device)
        for device in devices
        if (first := cuda_index(device)) is not None
    }
    count = gpu_count(dev) if needed else None
    if count is None:
        return
    missing = [device for device, gpus in needed.items() if gpus > count]
    if missing:
        has = {0: "no GPU", 1: "1 GPU, gpu0"}.get(count, f"{count} GPUs, gpu0 to gpu{count - 1}")
        raise OperatorError(
            f"device {', '.join(missing)} is not there: this host has {has}. "
            "Mend the driver, or name only devices that are there (EASEML_DEVICES)"
        )
