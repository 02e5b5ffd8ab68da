"""What a tenant does about single examples: switch them on or off, correct labels, look for wrong ones."""

from __future__ import annotations

import csv
import io
import tempfile
from dataclasses import replace
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
    WaitOption,
    open_bucket,
    settings_for,
    task_name,
)
from easeml_core.cli.output import console, emit, say, table
from easeml_core.cli.tenant import PANEL, finish
from easeml_core.errors import Problem, TenantError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from easeml_core.bucket import Bucket
    from easeml_core.data.refine import Refinement
    from easeml_core.data.suspects import Suspicion
    from easeml_core.naming import TaskName

app = typer.Typer()
SHOWN = 20


@app.command(
    rich_help_panel=PANEL,
    epilog="Example: easeml refine vision/digits --off cat/7.png --label cat/9.png=dog --wait",
)
def refine(
    task: TaskArgument,
    file: Annotated[
        Path | None,
        typer.Option("--file", "-f", metavar="FILE", help="A table with the columns of refine.csv."),
    ] = None,
    off: Annotated[
        list[str] | None, typer.Option("--off", metavar="ID", help="Leave this example out.")
    ] = None,
    on: Annotated[list[str] | None, typer.Option("--on", metavar="ID", help="Use it again.")] = None,
    label: Annotated[
        list[str] | None, typer.Option("--label", metavar="ID=LABEL", help="Correct its label.")
    ] = None,
    tenant: TenantOption = "",
    bucket: BucketOption = "",
    wait: WaitOption = False,
    timeout: TimeoutOption = 120.0,
    as_json: JsonOption = False,
) -> None:
    """Switch examples off or on and correct labels; what was refined before stays so. A new data version."""
    from easeml_core.cli import upload, waiting
    from easeml_core.data.refine import refinements_text

    name, where = task_name(task, tenant), open_bucket(bucket)
    if not (file or off or on or label):
        raise typer.BadParameter("say what to refine: --file, --off, --on or --label")
    waiting.need_task(where, name)
    content = where.read_if_there(name.key(naming.REFINE_FILE))
    wishes = {} if content is None else _read(content)
    wishes |= {} if file is None else _read(file.read_bytes())
    _apply(wishes, off or (), on or (), label or ())
    _check_ids(where, name, wishes)
    with tempfile.TemporaryDirectory(prefix="easeml-refine-") as scratch:
        path = Path(scratch, naming.REFINE_FILE)
        path.write_text(refinements_text(wishes), encoding="utf-8")
        pushed = upload.push(where, name.prefix, upload.gather([path]))
    # What else the task has is meant to stay.
    finish(where, name, replace(pushed, extra=()), wait, timeout, as_json)


@app.command(
    rich_help_panel=PANEL, epilog="Example: easeml suspects vision/digits -o odd.csv, then edit odd.csv"
)
def suspects(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A task's folder, or tenant/task.")],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the rows there. Default: print them."),
    ] = None,
    most: Annotated[
        int | None, typer.Option("--most", min=1, help="So many, worst first, however little suspect.")
    ] = None,
    relabel: Annotated[
        bool, typer.Option("--relabel", help="Propose the likely label instead of leaving the example out.")
    ] = False,
    tenant: TenantOption = "",
    bucket: BucketOption = "",
    as_json: JsonOption = False,
) -> None:
    """List examples that are likely mislabelled, as a ready refine.csv: look through it, then refine with it.

    Each example is judged by models that have not seen it. Nothing is changed.
    """
    from easeml_core.service.suspects import COLUMNS, rows

    with console(stderr=True).status("judging each example by models that have not seen it"):
        found = _judge(source, tenant, bucket, most)
    listed = rows(found, relabel=relabel)
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows([COLUMNS, *listed])
    if output is not None:
        output.write_text(stream.getvalue(), encoding="utf-8")
    if as_json:
        answer: dict[str, Any] = {
            "suspects": [dict(zip(COLUMNS, row, strict=True)) for row in listed],
            "judged": found.judged,
            "not_judged": found.not_judged,
            "file": None if output is None else str(output),
        }
        emit(answer, True, str)
    elif output is None:
        print(stream.getvalue(), end="")
    else:
        emit(listed, False, lambda _: table(("id", "label", "likely", "margin"), [
            (row[0], *row[3:]) for row in listed[:SHOWN]
        ]))  # fmt: skip
    if not as_json:
        _summarise(found, output)


def _summarise(found: Suspicion, output: Path | None) -> None:
    written = f", written to {output}" if output is not None else ""
    say(f"{len(found.suspects)} suspects among {found.judged} examples{written}")
    for name, count in found.not_judged.items():
        say(f"not judged: {count} of class {name}, which has too few different examples")


def _judge(source: str, tenant: str, bucket: str, most: int | None) -> Suspicion:
    from easeml_core.data import Limits
    from easeml_core.service.suspects import suspects_of

    limits = Limits.of(settings_for(bucket))
    if Path(source).is_dir():
        return suspects_of(Path(source), limits, most=most)
    name, where = task_name(source, tenant), open_bucket(bucket)
    listing = where.listing(name.prefix)
    if listing is None:
        raise TenantError([Problem(str(name), "has nothing in the bucket, and is no folder here")])
    with tempfile.TemporaryDirectory(prefix="easeml-suspects-") as scratch:
        folder = Path(scratch, "task")
        where.fetch(
            listing,
            folder,
            max_files=limits.max_files,
            max_file=limits.max_file_bytes,
            max_total=limits.max_upload_bytes,
        )
        return suspects_of(folder, limits, most=most)


def _read(content: bytes) -> dict[str, Refinement]:
    """The rows of a `refine.csv`. Raises `TenantError` with everything wrong with them."""
    from easeml_core.data.findings import Findings
    from easeml_core.data.refine import read_refinements

    findings = Findings()
    with tempfile.TemporaryDirectory(prefix="easeml-refine-") as scratch:
        path = Path(scratch, naming.REFINE_FILE)
        path.write_bytes(content)
        found = read_refinements(path, findings)
    findings.check()
    return found


def _apply(
    wishes: dict[str, Refinement], off: Iterable[str], on: Iterable[str], labels: Iterable[str]
) -> None:
    from easeml_core.data.refine import Refinement

    for ident in off:
        wishes[ident] = replace(wishes.get(ident, Refinement(0, True, None)), keep=False)
    for ident in on:
        wishes[ident] = replace(wishes.get(ident, Refinement(0, True, None)), keep=True)
    for text in labels:
        # Of an id with `=` in it the label is what follows the last one.
        ident, equals, value = text.rpartition("=")
        if not equals or not ident or not value.strip():
            raise typer.BadParameter(f"--label takes ID=LABEL; got {text!r}")
        wishes[ident] = Refinement(0, True, value.strip())


def _check_ids(bucket: Bucket, name: TaskName, wishes: dict[str, Refinement]) -> None:
    """Name ids that the accepted data does not have, where it is known which those are."""
    content = bucket.read_if_there(name.key(naming.EXAMPLES_CSV))
    if content is None:
        return
    known = {row["id"] for row in csv.DictReader(io.StringIO(content.decode()))}
    fix = f"take ids from {naming.EXAMPLES_CSV}"
    problems = [
        Problem(repr(ident), "is no example of the task", fix=fix) for ident in wishes if ident not in known
    ]
    if problems:
        raise TenantError(problems)
