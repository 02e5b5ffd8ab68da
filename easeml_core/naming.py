"""The only place that builds or parses a name, a key or a path of ease.ml.

Convention: an *id* is one component (`tenant` id, `task` id); a *name* joins ids for another system
(an MLflow experiment `<tenant>/<task>`, a registered model `<tenant>.<task>`); a *key* is a path inside
the bucket, always with `/`, never starting with one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ID_RULE = "a lower-case letter, then up to 39 lower-case letters, digits or hyphens"
_ID = re.compile(r"[a-z][a-z0-9-]{0,39}")
_REQUEST = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_DEVICE = re.compile(r"[a-z][a-z0-9_]{0,39}")
_HARDWARE = re.compile(r"(gpu|cpu)([0-9]{1,3})(?:x([1-9][0-9]?))?(?:_[a-z0-9_]+)?")

SPEC_FILE = "task.yaml"
DATA_DIR = "data"
INFER_DIR = "infer"
PREDICTIONS_DIR = "predictions"
REFINE_FILE = "refine.csv"
CONTROL_FILE = "control.json"
READY_MARKER = "_READY"
STATUS_JSON = "status.json"
STATUS_MD = "status.md"
REPORT_MD = "data-report.md"
EXAMPLES_CSV = "examples.csv"
REPORT_PNG = "data-report.png"

# What the service writes: never part of an upload, so writing it never looks like a new upload.
SERVICE_FILES = frozenset({STATUS_JSON, STATUS_MD, REPORT_MD, REPORT_PNG, EXAMPLES_CSV})

CHAMPION_ALIAS = "champion"
# Behind a page of MLflow's UI: without it, pages about traces and prompts are shown, not runs and models.
MLFLOW_VIEW = "?workflowType=machine_learning"


def is_id(text: str) -> bool:
    """Whether `text` may be a tenant or task id (`ID_RULE`)."""
    return _ID.fullmatch(text) is not None


def is_request_id(text: str) -> bool:
    """Whether `text` may name a folder under `infer/`."""
    return _REQUEST.fullmatch(text) is not None and ".." not in text


def is_device(text: str) -> bool:
    """Whether `text` may name a device (`cpu0`, `gpu1`); it becomes part of a DAG id."""
    return _DEVICE.fullmatch(text) is not None


def cuda_index(device: str) -> int | None:
    """Number of the (first) CUDA device that a device is, on the host that serves it; None for the CPU.

    What follows the numbers tells devices of several hosts apart.

    >>> cuda_index("gpu1"), cuda_index("gpu0_hosta"), cuda_index("gpu2x2"), cuda_index("cpu0")
    (1, 0, 2, None)
    """
    found = _HARDWARE.fullmatch(device)
    return None if found is None or found[1] == "cpu" else int(found[2])


def process_count(device: str) -> int:
    """How many processes train a network on a device: one for each GPU of several that are one device.

    >>> process_count("gpu0x4"), process_count("gpu2x2_hosta"), process_count("cpu0x2"), process_count("gpu1")
    (4, 2, 2, 1)
    """
    found = _HARDWARE.fullmatch(device)
    return 1 if found is None else int(found[3] or 1)


@dataclass(frozen=True, slots=True, order=True)
class TaskName:
    """A tenant's task, and every name that other systems know it by.

    >>> TaskName("clinic", "tumours").experiment
    'clinic/tumours'
    >>> TaskName("clinic", "tumours").model
    'clinic.tumours'
    """

    tenant: str
    task: str

    def __post_init__(self) -> None:
        for kind, value in (("tenant", self.tenant), ("task", self.task)):
            if not is_id(value):
                raise ValueError(f"{kind} id must be {ID_RULE}; got {value!r}")

    @classmethod
    def parse(cls, text: str) -> TaskName:
        """Parse `tenant/task`; raises ValueError with what was allowed and what came."""
        parts = text.strip("/").split("/")
        if len(parts) != 2:
            raise ValueError(f"a task is written tenant/task; got {text!r}")
        return cls(*parts)

    def __str__(self) -> str:
        return f"{self.tenant}/{self.task}"

    @property
    def experiment(self) -> str:
        """Name of the MLflow experiment."""
        return f"{self.tenant}/{self.task}"

    @property
    def model(self) -> str:
        """Name of the MLflow registered model (MLflow refuses `/` and `:` there)."""
        return f"{self.tenant}.{self.task}"

    @property
    def champion_uri(self) -> str:
        """The URI that always loads the task's best model."""
        return f"models:/{self.model}@{CHAMPION_ALIAS}"

    @property
    def prefix(self) -> str:
        """Key of the task's folder in the bucket."""
        return f"{self.tenant}/{self.task}"

    def key(self, *parts: str) -> str:
        """Key of something inside the task's folder: `key(STATUS_JSON)`, `key(INFER_DIR, "r1")`."""
        return "/".join((self.prefix, *parts))

    def predictions_key(self, request: str, extension: str = "csv") -> str:
        """Key of the predictions of one inference request."""
        return self.key(PREDICTIONS_DIR, f"{request}.{extension}")


@dataclass(frozen=True, slots=True)
class CandidateName:
    """A candidate: a catalogue model, and the normaliser f_k put before it (None = identity).

    >>> str(CandidateName("ResNet-18", 0.2)), CandidateName.parse("ResNet-18+f0.2").normaliser
    ('ResNet-18+f0.2', 0.2)
    """

    model: str
    normaliser: float | None = None

    def __str__(self) -> str:
        return self.model if self.normaliser is None else f"{self.model}+f{self.normaliser:g}"

    @classmethod
    def parse(cls, text: str) -> CandidateName:
        """Parse what `str()` gives; raises ValueError on anything else."""
        model, plus, k = text.partition("+f")
        return cls(model, float(k) if plus else None)


def allocate_dag_id(device: str) -> str:
    """Id of the DAG that keeps one device busy."""
    if not is_device(device):
        raise ValueError(
            f"a device name is a lower-case letter, then letters, digits or underscores; got {device!r}"
        )
    return f"easeml_allocate_{device}"


def trial_label(trial_id: int) -> str:
    """How people read a trial id, everywhere: `trial-000042`."""
    return f"trial-{trial_id:06d}"


def attempt_dir(work: Path, trial_id: int, attempt: int) -> Path:
    """Folder of one attempt of one trial: work order, log, heartbeat, result."""
    return work / trial_label(trial_id) / f"attempt-{attempt}"


def checkpoint_dir(work: Path, trial_id: int) -> Path:
    """Folder of a trial's checkpoints, shared by its attempts so that a later one resumes."""
    return work / trial_label(trial_id) / "checkpoint"


def version_dir(versions: Path, name: TaskName, digest: str) -> Path:
    """Folder of one immutable data version; `digest` is its hexadecimal SHA-256."""
    return versions / name.tenant / name.task / digest[:16]
