"""The one file that goes into a trainer and the one that comes out.

`decide` writes `order.json`; the trainer, which has no database credentials, reads it, and leaves
`result.json`, written aside and renamed. Beside them in the attempt's folder:

* `log.txt`         what the trainer printed (the operator streams it to the Airflow task log)
* `heartbeat.json`  a `Heartbeat`, rewritten about once a second by the trainer
* `leash`           touched by whoever waits for the trainer; a trainer whose leash is older than
                    `WorkOrder.leash_seconds` checkpoints and stops, so none runs on unattended
* `run.json`        `{"mlflow_run_id": …}`, written as soon as the run exists
"""

from __future__ import annotations

import json
import math
import os
import tempfile
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator

ORDER_FILE = "order.json"
RESULT_FILE = "result.json"
HEARTBEAT_FILE = "heartbeat.json"
LEASH_FILE = "leash"
RUN_FILE = "run.json"
LOG_FILE = "log.txt"


class Outcome(StrEnum):
    """How an attempt ended, as the trainer itself saw it."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"  # the candidate raised on this data
    DIVERGED = "diverged"  # loss or score became NaN or infinite
    OUT_OF_MEMORY = "out_of_memory"  # also with each batch computed in small pieces
    DEADLINE = "deadline"  # computed longer than its limit
    INTERRUPTED = "interrupted"  # asked to stop (SIGTERM, leash); checkpointed, may resume


class _File(BaseModel):
    """A model kept as one JSON file, written aside and renamed so that no reader sees half of it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def write(self, path: Path) -> None:
        """Write atomically; the folder must exist."""
        write_atomically(path, self.model_dump_json(indent=2))

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read and validate; raises FileNotFoundError or pydantic's ValidationError."""
        return cls.model_validate_json(path.read_bytes())


def write_atomically(path: Path, text: str) -> None:
    """Write `text` to `path` so that a reader sees the old content or the new, never a part."""
    descriptor, aside = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(aside, path)
    except BaseException:
        Path(aside).unlink(missing_ok=True)
        raise


class WorkOrder(_File):
    """All that a trainer needs to run one attempt of one trial."""

    trial_id: int
    attempt: int = Field(ge=1, description="fencing token: every write of the trainer carries it")
    tenant: str
    task: str
    template: str = Field(description="template row, e.g. image-classification")
    candidate: str = Field(description="a CandidateName, e.g. ResNet-18 or ResNet-18+f0.2")
    version_dir: str = Field(description="folder of the staged data version")
    version_digest: str
    objective: str
    device: str = Field(description="cpu0, gpu0, gpu0_hosta, …; see `naming.cuda_index`")
    processes: int = Field(
        1, ge=1, description="processes that train a network together, one for each GPU of the device"
    )
    threads: int = Field(1, ge=1, description="CPU threads the trainer may use, all processes together")
    seed: int
    search: dict[str, Any] = Field(
        default_factory=dict,
        description="hyper-parameter space (`easeml_core.catalog.space`), "
        'e.g. {"learning_rate": {".choice": [0.1, 0.01]}}',
    )
    max_settings: int = Field(9, ge=1, description="settings that are tried of a space that has more")
    max_epochs: int = Field(20, ge=1)
    batch_size: int = Field(64, ge=1)
    patience: int = Field(4, ge=1, description="epochs without a better score before stopping early")
    precision: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        "auto", description="what networks compute in; auto: half precision on a GPU"
    )
    compiled: bool = Field(False, description="compile networks (torch.compile) before they train")
    limit_seconds: float = Field(gt=0, description="compute time after which it ends as `deadline`")
    leash_seconds: float = Field(gt=0)
    memory_limit_bytes: int | None = Field(
        None, gt=0, description="bytes of its own that training may add to what the process has at the start"
    )
    checkpoint_dir: str
    mlflow_url: str
    experiment: str
    tags: dict[str, str] = Field(default_factory=dict)
    note: str = Field("", description="the decision's reason, shown as the run's description")


class TrialResult(_File):
    """What a trainer leaves. `quality` is in [0, 1], higher is better, and finite; only set on success."""

    trial_id: int
    attempt: int
    outcome: Outcome
    reason: str = Field("", description="one line for people; empty on success")
    quality: float | None = Field(None, ge=0, le=1, description="validation quality, what the allocator sees")
    score: float | None = Field(None, description="validation score in the objective's own unit")
    train_score: float | None = None
    fault: bool = Field(
        False, description="interrupted by the installation (no such GPU, a wrong address), at nobody's cost"
    )
    cost_seconds: float = Field(0.0, ge=0, description="compute time of this attempt")
    epochs: int = 0
    hyperparameters: dict[str, Any] = Field(default_factory=dict, description="the best of the search")
    mlflow_run_id: str | None = None
    model_uri: str | None = Field(None, description="models:/m-…, the logged model")
    model_files: dict[str, str] = Field(
        default_factory=dict, description="relative path → SHA-256 of every file of the logged model"
    )
    peak_memory_bytes: int | None = None
    timings: dict[str, float] = Field(
        default_factory=dict, description="seconds: imports, data, train, log …"
    )

    @field_validator("quality", "score", "train_score", "cost_seconds")
    @classmethod
    def _finite(cls, value: float | None) -> float | None:
        if value is not None and not math.isfinite(value):
            raise ValueError("must be finite; a non-finite score is the outcome `diverged`")
        return value


class Heartbeat(_File):
    """That a trainer lives, and how far it is."""

    pid: int
    time: float = Field(description="seconds since the epoch")
    phase: str = Field(description="starting, data, training, logging, done")
    epoch: int = 0
    compute_seconds: float = 0.0
    message: str = ""


def read_json(path: Path) -> Any | None:
    """The JSON in `path`, or None where the file is not there (yet)."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
