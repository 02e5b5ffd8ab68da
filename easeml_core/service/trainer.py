"""Client of the trainer: start, watch, stop and collect one attempt, without importing torch or MLflow.

A trainer is forked by the warm standby of this host (`training.standby`) or, where none answers, started
in a fresh interpreter (`training.run`). Either way it leads its own session, holds a lock in its
attempt's folder for as long as it lives, and says in `trainer.json` who it is. So a caller that died may
call `start` again and gets the same trainer, never a second one.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from easeml_core import errors
from easeml_core.errors import OperatorError, Problem, TemporaryError, TenantError
from easeml_core.service import processes
from easeml_core.service.trainer_end import EXIT_FILE, STOP_FILE, heartbeat, infer_result
from easeml_core.settings import Settings
from easeml_core.workorder import (
    LEASH_FILE,
    LOG_FILE,
    ORDER_FILE,
    RESULT_FILE,
    Outcome,
    TrialResult,
    WorkOrder,
    read_json,
    write_atomically,
)

__all__ = [
    "TrainerRef",
    "collect",
    "heartbeat",
    "is_running",
    "read_log",
    "run_job",
    "start",
    "start_job",
    "stop",
    "touch_leash",
    "wait",
    "warm",
]

TRAINER_FILE = "trainer.json"  # {"pid", "started"}, written by the trainer itself
SOCKET_FILE = "standby.sock"
_SECRET_VARIABLES = frozenset({"EASEML_DATABASE_URL", "EASEML_BUCKET_OPTIONS"})
_ANSWER_SECONDS = 1.0
_WARM_SECONDS = 30.0  # a cool standby imports first; a fresh interpreter would take as long
# A champion is scored anew on one core. That is one pass over a validation split, of which its trial made one
# in every epoch, perhaps on a GPU; a job that takes longer than this has gone wrong.
RESCORE_SECONDS = 1800.0
_START_SECONDS = 60.0  # a fresh interpreter on a busy machine says who it is well within this


@dataclass(frozen=True, slots=True)
class TrainerRef:
    """A trainer, known by pid and start time; `as_dict()` is JSON-ready for Airflow's state."""

    pid: int
    started: float  # seconds since the epoch
    folder: str

    def as_dict(self) -> dict[str, Any]:
        """The fields as JSON-ready values; `TrainerRef(**d)` reads them back."""
        return asdict(self)


def start(order_path: Path, settings: Settings, *, ahead: float = 0.0) -> TrainerRef:
    """Start the attempt whose work order is at `order_path`, or find the trainer that already has it.

    `ahead` is how many seconds it may run before the one who will wait for it comes. Raises TemporaryError
    where no trainer came up; calling again is safe.
    """
    return _start("train", order_path, settings, ahead)


def is_running(ref: TrainerRef) -> bool:
    """Whether that trainer still runs."""
    return processes.is_alive(ref.pid, ref.started)


def wait(ref: TrainerRef, timeout: float) -> bool:
    """Wait at most `timeout` seconds for the trainer's end (woken at once by it); says whether it ended."""
    return processes.wait(ref.pid, ref.started, timeout)


def stop(
    ref: TrainerRef,
    grace: float = 5.0,
    *,
    outcome: Outcome = Outcome.INTERRUPTED,
    reason: str = "stopped by the service",
) -> None:
    """End the trainer and all it started: SIGTERM, `grace` seconds to checkpoint, SIGKILL.

    `outcome` and `reason` are what `collect` says of an attempt that had to be stopped, `deadline` for one
    that hung past its limit.
    """
    folder = Path(ref.folder)
    if folder.is_dir() and not (folder / RESULT_FILE).exists():
        write_atomically(folder / STOP_FILE, json.dumps({"outcome": outcome, "reason": reason}))
    processes.end_session(ref.pid, ref.started, grace)


def touch_leash(folder: Path, ahead: float = 0.0) -> None:
    """Tell the trainer that somebody still waits for it, or will within `ahead` seconds."""
    leash = folder / LEASH_FILE
    leash.touch()
    if ahead:
        until = time.time() + ahead
        os.utime(leash, (until, until))


def read_log(folder: Path, offset: int = 0) -> tuple[str, int]:
    """The log's text from byte `offset` on, and the offset to go on from.

    A character that is only half written yet is left for the next call.
    """
    try:
        with (folder / LOG_FILE).open("rb") as stream:
            stream.seek(offset)
            data = stream.read()
    except FileNotFoundError:
        return "", offset
    whole = len(data)
    for back in range(1, min(4, whole + 1)):
        byte = data[-back]
        if byte >= 0xC0:  # the first byte of a character of 2, 3 or 4
            need = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            whole -= back if need > back else 0
            break
        if byte < 0x80:
            break
    return data[:whole].decode("utf-8", errors="replace"), offset + whole


def collect(folder: Path) -> TrialResult:
    """The attempt's result: its `result.json`, or what the trainer's disappearance without one means.

    Raises TemporaryError while the trainer still runs and has not left a result.
    """
    order = WorkOrder.read(folder / ORDER_FILE)
    result_path = folder / RESULT_FILE
    if not result_path.exists():
        known = read_json(folder / TRAINER_FILE)
        if known is not None:
            if processes.is_alive(known["pid"], known["started"]):
                raise TemporaryError(f"the trainer of {folder} still runs")
            # Whoever reaps the trainer notes how it ended a moment after its end.
            _poll(lambda: (folder / EXIT_FILE).exists() or result_path.exists(), 2.0)
    if not result_path.exists():
        return infer_result(folder, order)
    try:
        result = TrialResult.read(result_path)
    except ValueError as error:
        return _failed(order, f"the trainer left a result that cannot be read: {error}")
    if (result.trial_id, result.attempt) != (order.trial_id, order.attempt):
        return _failed(order, f"the result is of trial {result.trial_id}, attempt {result.attempt}")
    stopped = read_json(folder / STOP_FILE)
    if result.outcome is Outcome.INTERRUPTED and stopped is not None:
        # The trainer only knows that it was asked to stop; the one who asked knows why.
        update = {"outcome": Outcome(stopped["outcome"]), "reason": stopped["reason"]}
        return result.model_copy(update=update)
    return result


def run_job(kind: str, order: dict[str, Any], settings: Settings, timeout: float) -> dict[str, Any]:
    """Run a short job (`promote`, `predict`) beside the trainer's libraries and return its answer.

    Raises what the job raised, by class (`TenantError`, `OperatorError`, `TemporaryError`), and
    TemporaryError where it vanished or took longer than `timeout` seconds (then it is ended).
    """
    order_path = _write_job(kind, order, settings)
    folder = order_path.parent
    try:
        ref = _start(kind, order_path, settings)
        if not wait(ref, timeout):
            stop(ref, grace=1.0)
            raise TemporaryError(f"the {kind} job took longer than {timeout:g} s and was ended")
        answer = read_json(folder / RESULT_FILE)
        if answer is None:
            tail = read_log(folder)[0].strip().splitlines()[-3:]
            raise TemporaryError(f"the {kind} job ended without an answer: {' | '.join(tail)}")
        if answer["ok"]:
            value: dict[str, Any] = answer["value"]
            return value
        raise _error(answer)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def start_job(kind: str, order: dict[str, Any], settings: Settings, timeout: float) -> Path:
    """Start a short job and wait for nothing; returns its folder, where its log is.

    It ends itself after `timeout` seconds, and removes its folder unless it failed. Nobody is told of a
    failure: only for what is looked after and repeated elsewhere.
    """
    order_path = _write_job(kind, {**order, "unattended_seconds": timeout}, settings)
    try:
        _ask_standby(kind, order_path, settings) or _spawn_fresh(kind, order_path)
    except BaseException:
        shutil.rmtree(order_path.parent, ignore_errors=True)
        raise
    return order_path.parent


def _write_job(kind: str, order: dict[str, Any], settings: Settings) -> Path:
    """Path of the order in a folder of its own.

    `promote` also gets these settings, with the URLs they resolve to: a standby does not know the ledger.
    """
    folder = settings.work_dir / "jobs" / f"{kind}-{uuid.uuid4().hex}"
    folder.mkdir(parents=True)
    if kind == "promote":
        order = {**order, "settings": _resolved(settings)}
    write_atomically(folder / ORDER_FILE, json.dumps(order))  # readable by its owner only
    return folder / ORDER_FILE


def _start(kind: str, order_path: Path, settings: Settings, ahead: float = 0.0) -> TrainerRef:
    order_path = order_path.resolve()
    folder = order_path.parent
    touch_leash(folder, ahead)
    if (known := _known(folder)) is not None:
        return known
    asked = _ask_standby(kind, order_path, settings) or _spawn_fresh(kind, order_path)
    # The process asked for says who it is once it holds the attempt's lock; one that came second has
    # nothing to say and ends, and the first has said it before.
    born = processes.start_time(asked) or 0.0
    _poll(lambda: (folder / TRAINER_FILE).exists() or not processes.is_alive(asked, born), _START_SECONDS)
    touch_leash(folder, ahead)  # the standby may have had to warm up first
    if (known := _known(folder)) is None:
        tail = read_log(folder)[0].strip().splitlines()[-3:]
        raise TemporaryError(f"no trainer came up for {order_path}: {' | '.join(tail)}")
    return known


def _resolved(settings: Settings) -> dict[str, Any]:
    urls = {"database_url": settings.resolved_database_url(), "mlflow_url": settings.resolved_mlflow_url()}
    return {**settings.model_dump(mode="json"), **urls}


def _known(folder: Path) -> TrainerRef | None:
    data = read_json(folder / TRAINER_FILE)
    return None if data is None else TrainerRef(data["pid"], data["started"], str(folder))


def warm(settings: Settings) -> None:
    """Tell the standby of this host, if there is one, that work is coming. Waits for nothing."""
    _say({"op": "warm"}, settings, _ANSWER_SECONDS)


def _ask_standby(kind: str, order_path: Path, settings: Settings) -> int | None:
    """Pid of the child the standby forked, or None where no standby answers."""
    request = {"op": "start", "kind": kind, "order": str(order_path)}
    answer = _say(request, settings, _WARM_SECONDS)
    return int(answer["pid"]) if answer.get("ok") else None


def _say(request: dict[str, str], settings: Settings, seconds: float) -> dict[str, Any]:
    """The standby's answer; empty where there is none within `seconds`."""
    try:
        with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as connection:
            connection.settimeout(seconds)
            with open_socket_folder(settings.run_dir) as folder:
                connection.connect(f"{folder}/{SOCKET_FILE}")
            connection.sendall(json.dumps(request).encode() + b"\n")
            with connection.makefile("r", encoding="utf-8") as stream:
                answer: dict[str, Any] = json.loads(stream.readline() or "{}")
                return answer
    except (OSError, ValueError):
        return {}


@contextmanager
def open_socket_folder(folder: Path) -> Iterator[str]:
    """A short name of a folder: a Unix socket's path may have 107 characters, a folder's many more."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _spawn_fresh(kind: str, order_path: Path) -> int:
    """Pid of a fresh interpreter for this order, in its own session, with closed standard input.

    It must outlive us when we are killed (the next task re-attaches), so no parent-death signal here: the
    leash ends a trainer that nobody came back for.
    """
    log = os.open(order_path.parent / LOG_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        return os.posix_spawn(
            sys.executable,
            [sys.executable, "-m", "training.run", "--kind", kind, str(order_path)],
            {**_without_secrets(os.environ), "PYTHONUNBUFFERED": "1"},
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, log, 1),
                (os.POSIX_SPAWN_DUP2, log, 2),
            ],
            setsid=True,
        )
    finally:
        os.close(log)


def _without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """What a trainer may know of our environment: not the ledger's URL, nor keys of bucket and Airflow."""
    return {
        name: value
        for name, value in environment.items()
        if name not in _SECRET_VARIABLES and not name.startswith("AIRFLOW__")
    }


def _poll(condition: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    pause = 0.002
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)
    return True


def _failed(order: WorkOrder, reason: str) -> TrialResult:
    return TrialResult(trial_id=order.trial_id, attempt=order.attempt, outcome=Outcome.FAILED, reason=reason)


def _error(answer: dict[str, Any]) -> Exception:
    if problems := answer.get("problems"):
        return TenantError(Problem(**problem) for problem in problems)
    known = getattr(errors, str(answer["error"]), None)
    if isinstance(known, type) and issubclass(known, errors.EasemlError) and known is not TenantError:
        return known(answer["message"])
    return OperatorError(f"{answer['error']}: {answer['message']}")
