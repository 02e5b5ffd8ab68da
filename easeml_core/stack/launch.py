"""Becomes one program of the stack: `python -m easeml_core.stack.launch NAME`, run by supervisord.

It clears what an earlier run of the program left behind, gives up root where the program must not have
it, asks the kernel for the program's stop signal should supervisord die (so that nothing is orphaned for
ever), and replaces itself by the program.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypedDict

from easeml_core.stack import leftovers
from easeml_core.stack.layout import STACK_VARIABLE, Layout

_PR_SET_PDEATHSIG = 1


class Description(TypedDict):
    """A program as `Program.as_dict` writes it."""

    command: list[str]
    environment: dict[str, str]
    stop_signal: int
    uid: int | None
    gid: int | None
    folder: str
    preloaded: bool


def read(name: str) -> Description:
    """The program `name` of the home in `EASEML_STACK`."""
    description: Description = json.loads(_layout().program(name).read_text())
    return description


def become(name: str, run: Callable[[Description], None]) -> None:
    """Make this process fit to be the program `name`, then `run` it."""
    program = read(name)
    parent = os.getppid()
    leftovers.clear_program(_layout(), name)
    if os.geteuid() == 0 and program["uid"] and program["gid"]:
        os.setgroups([])
        os.setgid(program["gid"])
        os.setuid(program["uid"])
    os.umask(0o022)
    os.chdir(program["folder"])
    # After giving up root, which would clear it again.
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, program["stop_signal"])
    if os.getppid() != parent:
        sys.exit("supervisord is gone")
    run(program)


def _layout() -> Layout:
    return Layout(Path(os.environ[STACK_VARIABLE]))


def _execute(program: Description) -> None:
    os.execve(program["command"][0], program["command"], program["environment"])


if __name__ == "__main__":
    become(sys.argv[1], _execute)
