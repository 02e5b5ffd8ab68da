"""supervisord, and the memory its Airflow programs share: `python -m easeml_core.stack.supervisord -c FILE`.

Four Airflow programs import the same 1,900 modules: 130 MB and two seconds of work each. Here they are
imported once, before anything runs, and such a program is a fork of this process instead of a fresh
interpreter: it starts at once and pays only for the pages it writes to. This process owns one thread, no
connection and no file of theirs; what they are configured by comes from `layout.preload`.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path

from supervisor import supervisord
from supervisor.options import ServerOptions

from easeml_core.stack import launch
from easeml_core.stack.layout import STACK_VARIABLE, Layout

# What all of them load while they start, by what they load it for.
PRELOADED = (
    "airflow.__main__",
    "airflow.jobs.scheduler_job_runner",
    "airflow.jobs.triggerer_job_runner",
    "airflow.jobs.dag_processor_job_runner",
    "airflow.executors.local_executor",
    "airflow.sdk.execution_time.supervisor",
    "airflow.sdk.execution_time.task_runner",
    "airflow.api_fastapi.execution_api.app",
)


class _Options(ServerOptions):  # type: ignore[misc]
    """supervisord's seam to the operating system, of which we change how a child becomes its program."""

    def execve(self, filename: str, argv: list[str], env: Mapping[str, str]) -> None:
        program = launch.read(argv[-1])
        if not program["preloaded"]:
            super().execve(filename, argv, env)
        _exit_with(lambda: launch.become(argv[-1], _run_module))


def main(arguments: list[str]) -> None:
    """Preload, then be supervisord until it is told to stop."""
    layout = Layout(Path(os.environ[STACK_VARIABLE]))
    _preload(json.loads(layout.preload.read_text()))
    options = _Options()
    options.realize(arguments)
    options.first = True
    options.test = False
    supervisord.go(options)


def _preload(environment: Mapping[str, str]) -> None:
    """Import what the programs share as they would, with their environment; ours is as before afterwards."""
    before = dict(os.environ)
    os.environ.update(environment)
    # A title has to find its place in memory before the environment is touched.
    importlib.import_module("setproctitle").getproctitle()
    gc.disable()
    try:
        for name in PRELOADED:
            importlib.import_module(name)
        _rehearse()
    finally:
        os.environ.clear()
        os.environ.update(before)
    if len(os.listdir("/proc/self/task")) > 1:
        sys.exit("the preloaded modules started a thread: forking would not be safe")
    # A collector that looks at shared objects would write to them, and so copy them.
    gc.collect()
    gc.freeze()
    gc.enable()


def _rehearse() -> None:
    """What each of them would otherwise work out, and then hold, for itself."""
    load = importlib.import_module
    load("sqlalchemy.orm").configure_mappers()
    load("airflow.cli.cli_parser").get_parser()
    load("airflow.providers_manager").ProvidersManager().initialize_providers_configuration()
    # The dag-processor and the triggerer answer their children's questions with this app.
    _ = load("airflow.api_fastapi.execution_api.app").InProcessExecutionAPI().app


def _run_module(program: launch.Description) -> None:
    """Run `python -m MODULE …` in this forked process."""
    _, _, module, *arguments = program["command"]
    os.environ.clear()
    os.environ.update(program["environment"])
    sys.path[:0] = [
        path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path and path not in sys.path
    ]
    importlib.import_module("setproctitle").setproctitle(" ".join((module, *arguments)))
    sys.argv[:] = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _exit_with(work: Callable[[], None]) -> None:
    """Run `work` in a forked child as an interpreter runs its main module, and end the process."""
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(write_through=True)  # type: ignore[union-attr]
    code = 0
    try:
        work()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if ended.code is not None and not isinstance(ended.code, int):
            print(ended.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        # What the interpreter does at its end; to return would go on as supervisord.
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        os._exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
