"""supervisord's configuration: rendered from the programs, free of secrets."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence

from easeml_core.stack.layout import Layout
from easeml_core.stack.programs import Program

# A program that lived shorter than this (seconds) failed to start.
START_SECONDS = 1
# The n-th failure in a row waits n seconds: about four minutes until supervisord gives up.
START_RETRIES = 20


def render(layout: Layout, programs: Sequence[Program]) -> str:
    """The configuration. Nothing starts by itself: `up` starts each program when what it needs is there."""
    lines = [
        "[unix_http_server]",
        f"file={layout.supervisor_socket}",
        "chmod=0700",
        "",
        "[supervisord]",
        f"pidfile={layout.pid}",
        f"logfile={layout.log('supervisord')}",
        "logfile_maxbytes=1MB",
        "logfile_backups=1",
        f"directory={layout.run}",
        f"childlogdir={layout.logs}",
        "umask=022",
        # As root it warns at each start unless told that this is meant.
        *(["user=root"] if os.geteuid() == 0 else []),
        "",
        "[rpcinterface:supervisor]",
        "supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface",
    ]
    for program in programs:
        # A percent sign starts an expansion.
        command = shlex.join((sys.executable, "-m", "easeml_core.stack.launch", program.name)).replace(
            "%", "%%"
        )
        lines += [
            "",
            f"[program:{program.name}]",
            f"command={command}",
            f"priority={program.priority}",
            "autostart=false",
            "autorestart=true",
            f"startsecs={START_SECONDS}",
            f"startretries={START_RETRIES}",
            f"stopsignal={program.stop_signal.name.removeprefix('SIG')}",
            f"stopwaitsecs={program.patience}",
            # TERM goes to the main process only: to the whole group it wedges Airflow's scheduler.
            "stopasgroup=false",
            "killasgroup=true",
            "redirect_stderr=true",
            f"stdout_logfile={layout.log(program.name)}",
            "stdout_logfile_maxbytes=10MB",
            "stdout_logfile_backups=2",
        ]
    return "\n".join(lines) + "\n"
