"""Options and arguments that several commands share, and what they are turned into."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from easeml_core.naming import TaskName

if TYPE_CHECKING:
    from easeml_core.bucket import Bucket
    from easeml_core.settings import Settings

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON value instead of text.")]
BucketOption = Annotated[
    str,
    typer.Option(
        "--bucket",
        metavar="URL",
        envvar="EASEML_BUCKET",
        help="The bucket: a folder or any fsspec URL (s3://…). Default: that of the stack on this machine.",
        show_default=False,
    ),
]
TenantOption = Annotated[
    str,
    typer.Option(
        "--tenant", envvar="EASEML_TENANT", help="Your tenant id; then TASK may be the task's id alone."
    ),
]
TaskArgument = Annotated[str, typer.Argument(metavar="TASK", help="The task, as tenant/task.")]
FolderArgument = Annotated[
    Path,
    typer.Argument(
        metavar="FOLDER", exists=True, file_okay=False, help="A task's folder: task.yaml and data/."
    ),
]
WaitOption = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the service's answer.")]
TimeoutOption = Annotated[
    float, typer.Option("--timeout", min=0, metavar="SECONDS", help="How long to wait at most.")
]


def task_name(task: str, tenant: str) -> TaskName:
    """The task meant by TASK and `--tenant`; a usage error where they do not name one."""
    full = task.strip("/")
    if tenant and "/" not in full:
        full = f"{tenant}/{full}"
    try:
        name = TaskName.parse(full)
    except ValueError as error:
        raise typer.BadParameter(f"{error} (or the task's id alone, with --tenant)") from None
    if tenant and name.tenant != tenant:
        raise typer.BadParameter(f"{name} is not a task of tenant {tenant}")
    return name


def settings_for(bucket: str = "") -> Settings:
    """The settings, with the bucket of the command line where one was given.

    Raises OperatorError where a setting is malformed.
    """
    from pydantic import ValidationError

    from easeml_core.errors import OperatorError
    from easeml_core.settings import Settings

    try:
        return Settings(bucket=bucket) if bucket else Settings()
    except ValidationError as error:
        lines = (f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise OperatorError("settings (EASEML_*, easeml.toml): " + "; ".join(lines)) from None


def open_bucket(url: str) -> Bucket:
    """The bucket that tenant commands write to and read from."""
    from easeml_core.bucket import Bucket

    settings = settings_for(url)
    return Bucket(settings.bucket_url, settings.bucket_options)
