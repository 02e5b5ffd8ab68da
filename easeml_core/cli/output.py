"""How every command speaks: tables for people or JSON for programs, and one set of exit codes.

====  ==================================================================================
code  meaning
====  ==================================================================================
0     done; for `submit --wait`: accepted; for `validate`: no problem found
1     a problem was found in what the tenant gave: refused, rejected, not there
2     the command was called wrongly (unknown option, missing or malformed argument)
3     a server, bucket or file cannot be reached, or no answer came in time: try again
4     the installation is misconfigured (a setting, no stack under this home, a wrong version)
130   interrupted with Ctrl-C; what was done stays done, so the same command goes on from there
====  ==================================================================================

Results go to standard output, everything else (progress, errors) to standard error. With `--json`
standard output holds exactly one JSON value, also on failure: `{"error": …, "problems": […]}`.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from typer.core import TyperGroup

from easeml_core.errors import EasemlError, OperatorError, Problem, TemporaryError, TenantError

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


NO_TERMINAL_WIDTH = 200  # columns; a file or a pipe has no edge at which to fold a name


class Code(IntEnum):
    """Exit codes; the module's docstring says what each means."""

    OK = 0
    PROBLEM = 1
    USAGE = 2
    AWAY = 3
    MISCONFIGURED = 4


def emit(data: Any, as_json: bool, render: Callable[[Any], RenderableType | str]) -> None:
    """Print `data` as JSON, or what `render` makes of it for people."""
    if as_json:
        print_json(data)
    else:
        console().print(render(data), highlight=False, soft_wrap=True)


def print_json(data: Any) -> None:
    """Print one JSON value to standard output; refuses NaN and infinity, which are not JSON."""
    is_unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    print(json.dumps(data, indent=2, ensure_ascii=not is_unicode, allow_nan=False, default=str))


def console(*, stderr: bool = False) -> Console:
    """A rich console; plain text, and tables as wide as they are, without a terminal. Text given to it is
    never read as markup."""
    from rich.console import Console

    made = Console(stderr=stderr, markup=False, emoji=False)
    if not made.is_terminal and "COLUMNS" not in os.environ:
        made.width = NO_TERMINAL_WIDTH
    return made


def say(text: str) -> None:
    """One line of progress for people, on standard error."""
    print(printable(text), file=sys.stderr, flush=True)


def printable(text: str) -> str:
    """`text` with control characters escaped, so that a file's name cannot drive the terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str | None = None) -> RenderableType:
    """A plain table; numbers are set right, None is shown as `–`."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    cells = [[cell(value) for value in row] for row in rows]
    made = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for index, column in enumerate(columns):
        numeric = bool(cells) and all(row[index].lstrip("-").replace(".", "", 1).isdigit() for row in cells)
        made.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        made.add_row(*(Text(value) for value in row))
    return made


def cell(value: Any) -> str:
    """One value as people read it: four decimals for a fraction, `–` for nothing."""
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4f}" if abs(value) < 10 else f"{value:.1f}"
    return printable(str(value))


def seconds(value: float | None) -> str | None:
    """A duration as people read it.

    >>> seconds(3.21), seconds(75.0), seconds(7300.0)
    ('3.2 s', '1 min 15 s', '2 h 01 min')
    """
    if value is None:
        return None
    if value < 60:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def problems_text(problems: Iterable[Problem | Mapping[str, Any]]) -> str:
    """Problems one a line, as `file:line: field: message → fix`."""
    found = [p if isinstance(p, Problem) else Problem(**p) for p in problems]
    return "\n".join(printable(str(problem)) for problem in found)


def fail(code: Code, message: str, as_json: bool, problems: Iterable[Problem] = ()) -> NoReturn:
    """Report a failure once, in the form asked for, and end the command with `code`."""
    listed = tuple(problems)
    if as_json:
        print_json({"error": message, "problems": [problem.as_dict() for problem in listed]})
    else:
        print(f"easeml: {printable(message)}", file=sys.stderr)
        if listed:
            print(problems_text(listed), file=sys.stderr)
    raise typer.Exit(code)


@contextmanager
def reported(as_json: bool) -> Iterator[None]:
    """Turn every error that ease.ml raises into its message and exit code; see the module's table."""
    try:
        yield
    except TenantError as error:
        count = len(error.problems)
        fail(Code.PROBLEM, f"{count} problem{'s' * (count > 1)} found", as_json, error.problems)
    except OperatorError as error:
        fail(Code.MISCONFIGURED, str(error), as_json)
    except TemporaryError as error:
        fail(Code.AWAY, str(error), as_json)
    except EasemlError as error:
        fail(Code.PROBLEM, str(error), as_json)
    except BrokenPipeError:
        raise  # typer ends quietly when the reader of a pipe has gone
    except OSError as error:
        fail(Code.AWAY, f"cannot reach a file or server: {error}", as_json)


class Commands(TyperGroup):
    """The root of all commands: what any of them raises is `reported`, in one place."""

    def main(self, *args: Any, **options: Any) -> Any:
        """Run as a program; what the encoding of the output cannot write is shown as `?`."""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")
        return super().main(*args, **options)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was called."""
        as_json = "--json" in ctx.args  # looked up here, since parsing consumes it
        with reported(as_json):
            try:
                return super().invoke(ctx)
            except typer.TyperException as error:
                # Of these only wrong calls have a text; typer shows it to people, with the usage.
                if not as_json or not hasattr(error, "format_message"):
                    raise
                fail(Code.USAGE, error.format_message(), as_json)
