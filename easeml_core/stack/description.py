"""What a stack says of itself: to callers of `up`, to `ps`, and in `<home>/run/stack.json`."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from easeml_core.stack.files import read_json
from easeml_core.stack.layout import Layout


@dataclass(frozen=True, slots=True)
class StackInfo:
    """A running stack's URLs and sign-in; `repr` shows no password."""

    home: Path
    database_url: str = field(repr=False)
    mlflow_url: str
    airflow_url: str
    airflow_user: str
    airflow_password: str = field(repr=False)
    pids: dict[str, int]

    def as_dict(self, *, secrets: bool = False) -> dict[str, Any]:
        """JSON-ready; the password and the database's URL (it holds one) only with `secrets`."""
        values = {**asdict(self), "home": str(self.home)}
        if not secrets:
            del values["airflow_password"], values["database_url"]
        return values

    def for_file(self) -> dict[str, Any]:
        """What `stack.json` holds: readers need the database, nobody needs the sign-in."""
        values = self.as_dict(secrets=True)
        del values["airflow_password"]
        return values


@dataclass(frozen=True, slots=True)
class ProgramStatus:
    """One program: supervisor's word for its state, process id (0: none), seconds since its start,
    proportional memory in bytes with all its children, whether it does its work, and its log."""

    name: str
    state: str
    pid: int
    uptime_seconds: float
    pss_bytes: int
    healthy: bool
    log: str


@dataclass(frozen=True, slots=True)
class StackStatus:
    """The whole stack. `running`: supervisord is there; `healthy`: and every program does its work."""

    home: Path
    running: bool
    mlflow_url: str
    airflow_url: str
    airflow_user: str
    programs: tuple[ProgramStatus, ...]

    @property
    def healthy(self) -> bool:
        """Whether everything that belongs to the stack works."""
        return self.running and all(program.healthy for program in self.programs)

    @property
    def pss_bytes(self) -> int:
        """Memory of all programs together (supervisord included), in bytes."""
        return sum(program.pss_bytes for program in self.programs)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready; no secrets."""
        return {**asdict(self), "home": str(self.home), "healthy": self.healthy, "pss_bytes": self.pss_bytes}


def read_description(layout: Layout) -> dict[str, Any]:
    """What the last `up` wrote; empty when the stack is down."""
    description: dict[str, Any] = read_json(layout.stack, {})
    return description
