"""What a tenant gets back: status, leaderboard, predictions. All of it comes from the bucket."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from easeml_core import naming
from easeml_core.cli.options import (
    BucketOption,
    JsonOption,
    TaskArgument,
    TenantOption,
    TimeoutOption,
    open_bucket,
    task_name,
)
from easeml_core.cli.output import (
    Code,
    console,
    emit,
    fail,
    print_json,
    problems_text,
    say,
    seconds,
    table,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

app = typer.Typer()
PANEL = "Tenant: results"


@app.command(rich_help_panel=PANEL, epilog="Example: easeml status vision/digits")
def status(
    task: TaskArgument, tenant: TenantOption = "", bucket: BucketOption = "", as_json: JsonOption = False
) -> None:
    """Where a task is: accepted or rejected and why, what is tried, the champion, what is left to spend."""
    from easeml_core.cli import waiting

    emit(waiting.need_status(open_bucket(bucket), task_name(task, tenant)), as_json, status_view)


@app.command(rich_help_panel=PANEL, epilog="Example: easeml leaderboard vision/digits")
def leaderboard(
    task: TaskArgument, tenant: TenantOption = "", bucket: BucketOption = "", as_json: JsonOption = False
) -> None:
    """The candidates tried on the current data, best first."""
    from easeml_core.cli import waiting

    found = waiting.need_status(open_bucket(bucket), task_name(task, tenant))
    emit(found["leaderboard"], as_json, lambda _: leaderboard_table(found))


@app.command(
    rich_help_panel=PANEL, epilog="Example: easeml infer vision/digits ./unknown/*.png --output answers.csv"
)
def infer(
    task: TaskArgument,
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="Inputs, in any form that data/ may have.")
    ],
    tenant: TenantOption = "",
    bucket: BucketOption = "",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the predictions there (.csv or .npz)."),
    ] = None,
    request: Annotated[
        str,
        typer.Option("--request", help="Name of the request. Default: one made of the inputs' content."),
    ] = "",
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the predictions.")] = True,
    timeout: TimeoutOption = 120.0,
    as_json: JsonOption = False,
) -> None:
    """Predict with the task's champion; the same inputs again give the predictions that are there."""
    import csv
    import io

    from easeml_core.bucket.leftovers import is_leftover
    from easeml_core.cli import waiting

    name, where = task_name(task, tenant), open_bucket(bucket)
    if request and not naming.is_request_id(request):
        raise typer.BadParameter(f"--request is letters, digits, '.', '_' and '-'; got {request!r}")
    if is_leftover(request):
        raise typer.BadParameter(
            f"--request {request!r} is a name of editors' and systems' leftovers; take another"
        )
    request = waiting.send_inputs(where, name, paths, request)
    if not wait:
        key = waiting.predictions_key(where, name, request)
        answer = {"task": str(name), "request": request, "predictions": key}
        emit(answer, as_json, lambda _: f"request {request}: predictions will be in {key}")
        return
    with console(stderr=True).status(f"waiting for the predictions of request {request}"):
        key, content = waiting.for_predictions(where, name, request, timeout)
    if output is not None:
        output.write_bytes(content)
        say(f"{output}: predictions of request {request}")
    if key.endswith(".npz"):
        # Images, series and bytes are for programs; nobody reads them in a terminal.
        answer = {"task": str(name), "request": request, "predictions": key}
        if as_json or output is None:
            emit(answer, as_json, lambda _: f"{key}: predictions of request {request}; --output saves them")
        return
    rows = list(csv.DictReader(io.StringIO(content.decode())))
    if as_json:
        print_json({"task": str(name), "request": request, "predictions": rows})
    elif output is None:
        print(content.decode(), end="")
    if not rows:
        fail(Code.PROBLEM, f"request {request} had no input that could be read", False)


def status_view(status: dict[str, Any]) -> RenderableType:
    """A task's status for people: state, problems, champion, budget, candidates."""
    from rich.console import Group

    from easeml_core.cli.operator import used
    from easeml_core.service.status_text import failed_trials, on_present_data

    lines = [f"{status['task']}: {status['state']}" + _because(status["state_reason"])]
    if status["problems"]:
        lines += ["problems of the latest upload:", problems_text(status["problems"])]
    data, champion, budget = status["data"], status["champion"], status["budget"]
    if data:
        lines.append(
            f"data: {data['n_train']} to train on, {data['n_val']} to validate on ({data['digest'][:8]})"
        )
    if champion:
        lines.append(
            f"champion: {champion['candidate']}, {champion['objective']} {champion['score']:.4f} "
            f"({champion['model_uri']}, version {champion['model_version']})"
        )
        if not champion["on_current_data"]:
            lines.append(on_present_data(champion))
    if data:
        spent = seconds(budget["charged_seconds"])
        limit = f" of {seconds(budget['seconds'])}" if budget["seconds"] is not None else ""
        lines.append(f"budget: {used(budget)} trials, {spent}{limit} of device time")
    parts: list[Any] = ["\n".join(lines)]
    if status["candidates"]:
        rows = ((c["candidate"], c["state"], c["quality"]) for c in status["candidates"])
        parts.append(table(("candidate", "state", "quality"), rows))
    parts += [f"{t['candidate']} {t['state']}: {t['reason']}" for t in failed_trials(status["trials"])]
    return Group(*parts)


def leaderboard_table(status: dict[str, Any]) -> RenderableType:
    """Succeeded trials on the present data, best first, and a champion of earlier data."""
    from rich.console import Group

    from easeml_core.service.status_text import on_present_data

    champion = status["champion"]
    older = []
    if champion and not champion["on_current_data"]:
        older = [f"champion: {champion['candidate']}. {on_present_data(champion)}"]
    if not status["leaderboard"]:
        return Group(f"{status['task']}: no trial has succeeded yet", *older)
    rows = (
        (place, t["candidate"], t["score"], t["quality"], seconds(t["cost_seconds"]), t["device"], t["trial"])
        for place, t in enumerate(status["leaderboard"], 1)
    )
    columns = ("", "candidate", status["objective"], "quality", "cost", "device", "trial")
    return Group(table(columns, rows), *older)


def _because(reason: str) -> str:
    return f" ({reason})" if reason else ""
