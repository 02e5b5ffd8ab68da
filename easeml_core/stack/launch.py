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
from pathlib import Path

from easeml_core.stack import leftovers
from easeml_core.stack.layout import STACK_VARIABLE, Layout

_PR_SET_PDEATHSIG = 1


def main(name: str) -> None:
    """Replace this process by the program `name` of the home in `EASEML_STACK`; does not return."""
    layout = Layout(Path(os.environ[STACK_VARIABLE]))
    program = json.loads(layout.program(name).read_text())
    parent = os.getppid()
    leftovers.clear_program(layout, name)
    if os.geteuid() == 0 and program["uid"]:
        os.setgroups([])
        os.setgid(program["gid"])
        os.setuid(program["uid"])
    os.umask(0o022)
    os.chdir(program["folder"])
    # After giving up root, which would clear it again.
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, program["stop_signal"])
    if os.getppid() != parent:
        sys.exit("supervisord is gone")
    os.execve(program["command"][0], program["command"], program["environment"])


if __name__ == "__main__":
    main(sys.argv[1])
