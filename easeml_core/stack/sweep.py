"""Ends the workers that a killed scheduler left behind, each when its task has ended, then ends itself."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from easeml_core.stack import leftovers
from easeml_core.stack.layout import STACK_VARIABLE, Layout

_POLL_SECONDS = 2.0


def main() -> None:
    """Sweep the home in `EASEML_STACK` until only the newest scheduler's processes are left."""
    layout = Layout(Path(os.environ[STACK_VARIABLE]))
    while True:
        *earlier, _newest = map(int, layout.started(leftovers.SCHEDULER).read_text().split())
        left = leftovers.group(layout, earlier)
        if not left:
            return
        leftovers.signal_all(leftovers.idle_workers(left), signal.SIGKILL)
        time.sleep(_POLL_SECONDS)


if __name__ == "__main__":
    main()
