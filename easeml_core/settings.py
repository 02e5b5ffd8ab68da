"""One settings object for the whole service.

Sources, strongest first: arguments (command-line flags), environment `EASEML_*`, the file
`$EASEML_HOME/easeml.toml`, the defaults below. Lists may be given as comma-separated text.
"""

from __future__ import annotations

import json
import os
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from easeml_core import naming
from easeml_core.errors import OperatorError

MIB = 1024**2
GIB = 1024**3


def find_home() -> Path:
    """Where everything lives: `EASEML_HOME`, else the nearest `.easeml` upwards, else a per-user folder.

    Root's own home is closed to other users, and PostgreSQL refuses to run as root, so root's default
    is under /var/lib.
    """
    if home := os.environ.get("EASEML_HOME"):
        return Path(home).expanduser().resolve()
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / ".easeml").is_dir():
            return folder / ".easeml"
    return Path("/var/lib/easeml") if os.geteuid() == 0 else Path.home() / ".easeml"


class Settings(BaseSettings):
    """Every setting of the service. Sizes are bytes, times are seconds, shares are in [0, 1]."""

    model_config = SettingsConfigDict(env_prefix="EASEML_", extra="forbid", frozen=True)

    home: Path = Field(default_factory=find_home)

    # Where things are
    bucket: str = Field("", description="any fsspec URL; empty: <home>/bucket")
    bucket_options: dict[str, Any] = Field(
        default_factory=dict, description="fsspec storage options, e.g. endpoint and keys of an S3 server"
    )
    database_url: str = Field("", description="PostgreSQL URL of the ledger; empty: the embedded server")
    mlflow_url: str = Field("", description="MLflow tracking server; empty: the one `easeml up` started")
    mlflow_public_url: str = Field(
        "", description="MLflow as people's browsers reach it, for links; empty: `mlflow_url`"
    )

    # Devices and allocation
    devices: Annotated[tuple[str, ...], NoDecode] = ("cpu0",)
    device_queues: dict[str, str] = Field(
        default_factory=dict,
        description="device → Airflow queue of its host (Celery, Kubernetes); unnamed: the default one",
    )
    policy: str = "easeml"
    fairness_rounds: float = Field(
        20.0,
        gt=0,
        description="a task that waited longer goes first, whatever the policy; a round is one decision for "
        "every task with work left",
    )
    seed: int = 20180827
    decide_wait_seconds: float = Field(30.0, ge=0, description="how long a free device waits for work")
    lease_seconds: float = Field(90.0, gt=5, description="a lease not renewed for so long has expired")
    max_attempts: int = Field(3, ge=1, description="attempts of one trial before it counts as lost")
    max_failures: int = Field(
        5, ge=1, description="consecutive trials failing the same way before their task stops as failed"
    )
    trial_limit_seconds: float = Field(3600.0, gt=0, description="a trial that computes longer is stopped")
    trial_memory_bytes: int | None = Field(
        None,
        gt=0,
        description="what a trial may take of the host's memory beyond its libraries; one that needs more "
        "ends as out of memory; unset: all there is",
    )
    precision: Literal["auto", "float32", "bfloat16", "float16"] = Field(
        "auto", description="what networks compute in; auto: half precision on a GPU, float32 on the CPU"
    )
    compile_networks: bool = Field(
        False, description="compile networks before training (torch.compile): long trials on a GPU only"
    )
    default_trials: int = Field(40, ge=1, description="budget of a task that names none")

    # Retention
    keep_days: float = Field(
        30.0, gt=0, description="days that logs of ended trials, Airflow's logs and unused data stay"
    )
    backups: int = Field(7, ge=0, description="daily dumps of the databases that are kept; 0: none are made")

    # Bucket
    poll_seconds: float = Field(1.0, gt=0)
    settle_seconds: float = Field(2.0, ge=0, description="an upload unchanged for so long is complete")

    # What a hostile upload may cost us
    max_files: int = Field(200_000, ge=1)
    max_file_bytes: int = 4 * GIB
    max_upload_bytes: int = 20 * GIB
    max_expansion_ratio: float = Field(200.0, gt=1, description="unpacked bytes per archived byte")
    max_pixels: int = 64_000_000
    max_broken_share: float = Field(0.1, ge=0, le=1, description="more broken examples reject the upload")

    # MLflow and Airflow of the local stack; 0 picks a free port, kept from then on
    airflow_port: int = Field(0, ge=0, le=65535)
    mlflow_port: int = Field(0, ge=0, le=65535)
    dags_folder: Path | None = Field(None, description="DAG files; empty: dags/ of the checkout")
    plugins_folder: Path | None = Field(None, description="Airflow plugins; empty: plugins/ of the checkout")

    @field_validator("devices", mode="before")
    @classmethod
    def _split_devices(cls, value: Any) -> Any:
        return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value

    @field_validator("devices")
    @classmethod
    def _check_devices(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value:
            raise ValueError("at least one device is needed")
        for device in value:
            naming.allocate_dag_id(device)
        if len(set(value)) != len(value):
            raise ValueError(f"device names must differ; got {', '.join(value)}")
        return value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments, then environment, then `<home>/easeml.toml` (pydantic-settings calls this)."""
        home = Path(init_settings.init_kwargs.get("home") or find_home())  # type: ignore[attr-defined]
        return (
            init_settings,
            env_settings,
            TomlConfigSettingsSource(settings_cls, toml_file=home / "easeml.toml"),
        )

    # Folders, all under `home`
    @property
    def versions_dir(self) -> Path:
        """Immutable, staged data versions."""
        return self.home / "versions"

    @property
    def work_dir(self) -> Path:
        """Work orders, checkpoints, logs and results of trials."""
        return self.home / "work"

    @property
    def run_dir(self) -> Path:
        """Sockets, process ids and what the running stack says of itself."""
        return self.home / "run"

    @property
    def logs_dir(self) -> Path:
        """Logs of the stack's processes."""
        return self.home / "logs"

    @property
    def bucket_url(self) -> str:
        """The bucket, with its default filled in."""
        return self.bucket or str(self.home / "bucket")

    @cached_property
    def _stack(self) -> dict[str, Any]:
        path = self.run_dir / "stack.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def resolved_database_url(self) -> str:
        """URL of the ledger: the setting, else that of the embedded server `easeml up` started."""
        return self._resolve("database_url")

    def resolved_mlflow_url(self) -> str:
        """URL of MLflow: the setting, else that of the server `easeml up` started."""
        return self._resolve("mlflow_url")

    def shown_mlflow_url(self) -> str:
        """URL of MLflow for links that people follow, without a final slash."""
        return (self.mlflow_public_url or self.resolved_mlflow_url()).rstrip("/")

    def _resolve(self, name: str) -> str:
        value = getattr(self, name) or self._stack.get(name)
        if not value:
            raise OperatorError(
                f"{name} is not set and no stack has been started under {self.home}: "
                f"run `easeml up` or set EASEML_{name.upper()}"
            )
        return str(value)
