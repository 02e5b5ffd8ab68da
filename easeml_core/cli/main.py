"""`easeml`: the root of all commands. Nothing heavy is imported before a command runs."""

from __future__ import annotations

import typer

from easeml_core.cli import author, match, operator, refine, results, simulate, stack, tenant
from easeml_core.cli.output import Commands

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Multi-tenant model selection: upload data and a spec, get the best model that was found.",
    epilog="Exit codes: 0 done, 1 problem found, 2 called wrongly, 3 something is away, 4 misconfigured.",
)
for part in (author, match, tenant, refine, results, operator, simulate, stack):
    app.add_typer(part.app)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"easeml {version('easeml')}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Multi-tenant model selection: upload data and a spec, get the best model that was found."""
