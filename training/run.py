"""Run one order in a fresh interpreter: `python -m training.run ORDER.json`.

Works alone, without service or standby. This process stays small: it forks the one that trains before
anything heavy is imported, waits for it, and notes in `exit.json` how it ended.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

from training import child


def main(arguments: list[str] | None = None) -> int:
    """Run the order named on the command line; gives the exit status of the process that ran it."""
    parser = argparse.ArgumentParser(prog="python -m training.run", description=__doc__)
    parser.add_argument("order", type=Path, help="a work order; its folder gets log, heartbeat and result")
    parser.add_argument("--kind", default="train", help="train (default), promote or predict")
    options = parser.parse_args(arguments)
    order: Path = options.order.resolve()
    folder = order.parent

    if not child.claim(folder):
        print(f"{order} has been taken by another process", file=sys.stderr)
        return child.SECOND
    child.prepare_environment()
    kills = child.out_of_memory_kills()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        child.die_with_parent(parent)
        child.run_and_exit(lambda: _work(options.kind, order))

    signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGTERM))
    signal.signal(signal.SIGINT, lambda *_: os.kill(pid, signal.SIGTERM))
    _, status, usage = os.wait4(pid, 0)
    child.note_exit(folder, status, usage.ru_maxrss, kills)
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _work(kind: str, order: Path) -> int:
    from training.jobs import perform

    return perform(kind, order)


if __name__ == "__main__":
    sys.exit(main())
