"""Becoming the process of one order, and noting how such a process ended. Imports nothing heavy."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from easeml_core.service.processes import start_time
from easeml_core.service.trainer import TRAINER_FILE
from easeml_core.service.trainer_end import EXIT_FILE
from easeml_core.workorder import LOG_FILE, write_atomically

LOCK_FILE = "attempt.lock"
SECOND = 75  # exit status (EX_TEMPFAIL) of a process that found the order taken
_PR_SET_PDEATHSIG = 1
_OUT_OF_MEMORY_COUNTS = ("/proc/vmstat", "/sys/fs/cgroup/memory.events")


def prepare_environment() -> None:
    """Set what numpy, torch and MLflow read on import. A forking process must own one thread only."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"  # the order says how many threads its trainer gets
    defaults = {
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",  # asks whether there is a GPU without touching CUDA
        # Idle threads of OpenBLAS spin for 2^26 clock ticks otherwise: 0.1 s of a core each time, which the
        # steps between two trials need. 2^20 still spans the pause between two products.
        "OPENBLAS_THREAD_TIMEOUT": "20",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # deterministic products on a GPU
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
        # Our own retries wait for a restarting server; MLflow's would block an epoch for minutes.
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
        "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
        "GIT_PYTHON_REFRESH": "quiet",
        # pyarrow's allocator would otherwise start a thread on import, and a forking process must have one.
        "JE_ARROW_MALLOC_CONF": "background_thread:false",
    }
    for name, value in defaults.items():
        os.environ.setdefault(name, value)


def claim(folder: Path) -> bool:
    """Take the order in `folder` for this process, for as long as it lives; False when it is taken.

    Says in `trainer.json` who we are, so that a caller that died in between finds us.
    """
    descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return False
    if (folder / TRAINER_FILE).exists():  # it was taken, and has ended since: an order runs once
        os.close(descriptor)
        return False
    identity = {"pid": os.getpid(), "started": start_time(os.getpid())}
    write_atomically(folder / TRAINER_FILE, json.dumps(identity))
    return True


def die_with_parent(parent: int, number: signal.Signals = signal.SIGTERM) -> None:
    """Get a signal when the parent process dies, also when it just has."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:
        os.kill(os.getpid(), number)


def redirect(folder: Path) -> None:
    """Close standard input and send both outputs to the order's log."""
    null = os.open(os.devnull, os.O_RDONLY)
    log = os.open(folder / LOG_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.close(null)
    os.close(log)


def run_and_exit(work: Callable[[], int]) -> None:
    """Run `work` in a forked child and end the process with its status, whatever it raises.

    Without the interpreter's own clean-up: exit handlers are the parent's, and would run twice.
    """
    code = 1
    try:
        code = work()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def out_of_memory_kills() -> int:
    """How many processes the kernel has ended for lack of memory, on this host and in this cgroup."""
    total = 0
    for source in _OUT_OF_MEMORY_COUNTS:
        with contextlib.suppress(OSError):
            for line in Path(source).read_text().splitlines():
                name, _, value = line.partition(" ")
                if name in ("oom_kill", "oom_group_kill"):
                    total += int(value)
    return total


def note_exit(folder: Path, status: int, peak_kilobytes: int, kills_before: int) -> None:
    """Write `exit.json` for a reaped child: `status` and peak memory are what `os.wait4` gave."""
    killed = os.WIFSIGNALED(status)
    if not killed and os.waitstatus_to_exitcode(status) == SECOND:
        return  # it never had the order; whoever has it is somebody else's child
    with contextlib.suppress(FileNotFoundError):  # a job's folder goes with its answer
        write_atomically(
            folder / EXIT_FILE,
            json.dumps(
                {
                    "code": None if killed else os.waitstatus_to_exitcode(status),
                    "signal": os.WTERMSIG(status) if killed else None,
                    "out_of_memory": killed
                    and os.WTERMSIG(status) == signal.SIGKILL
                    and out_of_memory_kills() > kills_before,
                    "peak_memory_bytes": peak_kilobytes * 1024,
                }
            ),
        )
