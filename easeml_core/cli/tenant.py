"""What a tenant does to a task: submit, feed, pause, resume, cancel. All of it only touches the bucket."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace as replace_fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from easeml_core import naming
from easeml_core.cli.options import (
    BucketOption,
    FolderArgument,
    JsonOption,
    TaskArgument,
    TenantOption,
    TimeoutOption,
    WaitOption,
    open_bucket,
    task_name,
)
from easeml_core.cli.output import Code, console, emit
from easeml_core.naming import TaskName

if TYPE_CHECKING:
    from easeml_core.bucket import Bucket
    from easeml_core.cli.upload import Progress, Pushed

app = typer.Typer()
PANEL = "Tenant: tasks"


@app.command(rich_help_panel=PANEL, epilog="Example: easeml submit vision/digits ./digits --wait")
def submit(
    task: TaskArgument,
    folder: FolderArgument,
    tenant: TenantOption = "",
    bucket: BucketOption = "",
    wait: WaitOption = False,
    timeout: TimeoutOption = 120.0,
    replace: Annotated[
        bool, typer.Option("--replace", help="Remove from the bucket what FOLDER does not have.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check a task's folder and upload it; what is there already is not sent again."""
    from easeml_core.cli import upload

    name, where = task_name(task, tenant), open_bucket(bucket)
    total = sum(file.size for file in upload.task_files(folder))
    with progress_bar(f"uploading {name}", total, as_json) as progress:
        pushed = upload.submit(where, name, folder, replace=replace, progress=progress)
    finish(where, name, pushed, wait, timeout, as_json)


@app.command(rich_help_panel=PANEL, epilog="Example: easeml feed vision/digits ./more/*.csv --wait")
def feed(
    task: TaskArgument,
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="Files, or folders of class folders.")
    ],
    tenant: TenantOption = "",
    bucket: BucketOption = "",
    wait: WaitOption = False,
    timeout: TimeoutOption = 120.0,
    replace: Annotated[
        bool, typer.Option("--replace", help="Overwrite data files of the same name.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Add examples to a task: a new data version, on which its candidates are tried again."""
    from easeml_core.cli import upload, waiting

    name, where = task_name(task, tenant), open_bucket(bucket)
    waiting.need_task(where, name)
    files = upload.gather(paths, naming.DATA_DIR)
    if not replace:
        upload.refuse_overwriting(where, name.prefix, files)
    with progress_bar(f"feeding {name}", sum(file.size for file in files), as_json) as progress:
        pushed = upload.push(where, name.prefix, files, progress=progress)
    # What else the task has is meant to stay.
    pushed = replace_fields(pushed, extra=())
    finish(where, name, pushed, wait, timeout, as_json)


@app.command(rich_help_panel=PANEL, epilog="Example: easeml pause vision/digits")
def pause(
    task: TaskArgument, tenant: TenantOption = "", bucket: BucketOption = "", as_json: JsonOption = False
) -> None:
    """Stop starting new trials of a task; what runs now runs to its end."""
    control(task_name(task, tenant), open_bucket(bucket), "paused", as_json)


@app.command(rich_help_panel=PANEL, epilog="Example: easeml resume vision/digits")
def resume(
    task: TaskArgument, tenant: TenantOption = "", bucket: BucketOption = "", as_json: JsonOption = False
) -> None:
    """Go on with a task that was paused or cancelled."""
    control(task_name(task, tenant), open_bucket(bucket), "open", as_json)


@app.command(rich_help_panel=PANEL, epilog="Example: easeml cancel vision/digits")
def cancel(
    task: TaskArgument, tenant: TenantOption = "", bucket: BucketOption = "", as_json: JsonOption = False
) -> None:
    """End a task: running trials are stopped, its champion stays."""
    control(task_name(task, tenant), open_bucket(bucket), "cancelled", as_json)


def control(name: TaskName, bucket: Bucket, state: str, as_json: bool) -> None:
    """Ask the service for a state of the task, through `control.json`."""
    from easeml_core.cli import waiting

    waiting.need_task(bucket, name)
    # With its time, so that asking for the same again (after a feed has opened the task) is news.
    asked_at = datetime.now(UTC).isoformat(timespec="milliseconds")
    bucket.write(name.key(naming.CONTROL_FILE), json.dumps({"state": state, "asked_at": asked_at}))
    answer = {"task": str(name), "asked": state, "asked_at": asked_at}
    emit(answer, as_json, lambda _: f"{name}: asked to be {state}; see easeml status {name}")


def finish(bucket: Bucket, name: TaskName, pushed: Pushed, wait: bool, timeout: float, as_json: bool) -> None:
    """Say what was uploaded and, with `wait`, what the service answers; exits 1 where it rejects."""
    from easeml_core.cli import waiting

    answer: dict[str, Any] = {
        "task": str(name),
        "bucket": bucket.url,
        "sent": list(pushed.sent),
        "same": len(pushed.same),
        "removed": list(pushed.removed),
        "extra": list(pushed.extra),
    }
    status = None
    if wait:
        with console(stderr=True).status(f"waiting for the service's answer in {bucket.url}"):
            status = waiting.for_answer(bucket, name, timeout)
        answer |= {"state": status["state"], "problems": status["problems"]}
    emit(answer, as_json, lambda _: _text(answer))
    if status is not None and status["problems"]:
        raise typer.Exit(Code.PROBLEM)


def _text(answer: dict[str, Any]) -> str:
    from easeml_core.cli.output import problems_text

    sent = f"{len(answer['sent'])} files sent to {answer['bucket']}, {answer['same']} were there already"
    lines = [f"{answer['task']}: {sent}"]
    if answer["removed"]:
        lines.append(f"  removed from the bucket: {', '.join(answer['removed'])}")
    if answer["extra"] and not answer["removed"]:
        lines.append(f"  the bucket has {len(answer['extra'])} more files (--replace would remove them)")
    if answer.get("problems"):
        lines += ["rejected:", problems_text(answer["problems"])]
    elif "state" in answer:
        lines.append(f"accepted; the task is {answer['state']}")
    else:
        lines.append(f"see what becomes of it: easeml status {answer['task']}")
    return "\n".join(lines)


@contextmanager
def progress_bar(text: str, total: int, silent: bool) -> Iterator[Progress]:
    """A bar on standard error that counts bytes; nothing where there is no terminal to draw on."""
    screen = console(stderr=True)
    if silent or not screen.is_terminal:
        yield lambda size: None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=screen, transient=True) as bar:
        job = bar.add_task(text, total=total)
        yield lambda size: bar.advance(job, size)
