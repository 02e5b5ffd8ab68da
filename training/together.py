"""One trial on several devices of a host as one: `torchrun` starts a process for each.

The trainer that the service knows becomes torchrun's agent and computes nothing itself. The first process
(rank 0) is the attempt: it alone watches leash and limit, logs, checkpoints and leaves the result. The others
follow: they make the same decisions from the same numbers. They ignore SIGTERM, for it is rank 0 that stops a
trial, and are ended with it; a follower that fails says why in `follower-<rank>.json`.

Nothing listens beyond this host: the processes meet through files, and talk over loopback or on the GPUs.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from training import child

if TYPE_CHECKING:
    from easeml_core.workorder import Outcome, TrialResult, WorkOrder
    from training.group import Group

log = logging.getLogger("training")

_STOP_SECONDS = 5  # from SIGTERM to SIGKILL, for rank 0 to leave its result
_NOTE_SECONDS = 1.0  # in which a follower that failed has said why
_MEETING = "meeting"
_ON_THIS_HOST = {
    "GLOO_SOCKET_IFNAME": "lo",
    "NCCL_SOCKET_IFNAME": "lo",
    "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",  # the agent's store would listen on every address
}


def launch(order: WorkOrder, folder: Path) -> TrialResult:
    """Run the attempt in `order.processes` processes; gives its result, which is in `folder` too."""
    from torch.distributed.elastic.multiprocessing.api import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    os.environ |= _ON_THIS_HOST
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=order.processes,
        logs_specs=DefaultLogsSpecs(log_dir=str(folder / "torchrun")),
        run_id=f"{order.trial_id}.{order.attempt}",
        rdzv_backend="c10d",
        rdzv_endpoint=str(folder / f"{_MEETING}.agent"),
        rdzv_configs={"store_type": "file"},
        max_restarts=0,
        local_addr="127.0.0.1",
        shutdown_timeout=_STOP_SECONDS,
    )
    try:
        elastic_launch(config, sys.executable)("-m", "training.together", str(folder))
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        return _result(order, folder, rank, failure.exitcode)
    except SignalException:
        log.info("asked to stop")
    return _result(order, folder)


def main() -> int:
    """One process of the group, started by torchrun: `python -m training.together ATTEMPT_FOLDER`."""
    child.prepare_environment()
    _die_with_agent()
    import torch
    import torch.distributed as dist

    from easeml_core.workorder import ORDER_FILE, WorkOrder
    from training import device as devices
    from training.group import Group
    from training.trial import run_attempt, setup_logging

    setup_logging()
    folder = Path(sys.argv[1])
    order = WorkOrder.read(folder / ORDER_FILE)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = devices.resolve(order.device, rank)
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo",
        init_method=f"file://{folder / _MEETING}",
        rank=rank,
        world_size=size,
    )
    group = Group(rank, size, _pids(size))
    if group.leads:
        run_attempt(folder, group)
        group.end_others()
        return 0
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    logging.getLogger("training").setLevel(logging.WARNING)
    return _follow(order, folder, group)


def _follow(order: WorkOrder, folder: Path, group: Group) -> int:
    from easeml_core.workorder import Outcome, write_atomically
    from training.memory import is_out_of_memory
    from training.search import NoMemoryError
    from training.trial import follow

    try:
        follow(order, group)
    except Exception as error:
        short = isinstance(error, NoMemoryError) or is_out_of_memory(error)
        outcome = Outcome.OUT_OF_MEMORY if short else Outcome.FAILED
        note = {"outcome": outcome, "reason": f"{type(error).__name__}: {error}"[:500]}
        write_atomically(_note(folder, group.rank), json.dumps(note))
        log.exception("process %d of %d failed", group.rank + 1, group.size)
        return 1
    return 0


def failure_of_others(folder: Path, group: Group) -> tuple[Outcome, str] | None:
    """How the trial ended where it was a follower that ended it, as rank 0 finds it; None else.

    Called once rank 0 itself has failed or was asked to stop, which a follower's end brings about.
    """
    from easeml_core.service.processes import is_alive, start_time
    from easeml_core.workorder import Outcome, read_json

    until = time.monotonic() + _NOTE_SECONDS
    while group.size > 1:
        for rank in range(1, group.size):
            if (note := read_json(_note(folder, rank))) is not None:
                return Outcome(note["outcome"]), str(note["reason"])
            pid = group.pids[rank]
            if not is_alive(pid, start_time(pid) or 0.0):
                return Outcome.INTERRUPTED, f"process {rank + 1} of {group.size} was killed"
        if time.monotonic() > until:
            break
        time.sleep(0.02)
    return None


def _note(folder: Path, rank: int) -> Path:
    return folder / f"follower-{rank}.json"


def _pids(size: int) -> tuple[int, ...]:
    import torch.distributed as dist

    pids: list[Any] = [None] * size
    dist.all_gather_object(pids, os.getpid())
    return tuple(pids)


def _die_with_agent() -> None:
    """SIGKILL with the agent: it may be killed itself, and what is lost is less than an epoch or so."""
    agent = os.getppid()
    child.die_with_parent(agent, signal.SIGKILL)


def _result(order: WorkOrder, folder: Path, rank: int | None = None, code: int | None = None) -> TrialResult:
    """What rank 0 left, or what it means that it left nothing: process `rank` ended first, with `code`."""
    from easeml_core.service.trainer_end import EXIT_FILE, infer_result
    from easeml_core.workorder import RESULT_FILE, TrialResult, write_atomically

    path = folder / RESULT_FILE
    if not path.exists():
        if code is not None:
            ended = {"code": code if code >= 0 else None, "signal": -code if code < 0 else None}
            write_atomically(folder / EXIT_FILE, json.dumps(ended))
        result = infer_result(folder, order)
        if rank is not None:
            reason = f"process {rank + 1} of {order.processes}: {result.reason}"
            result = result.model_copy(update={"reason": reason})
        result.write(path)
    return TrialResult.read(path)


if __name__ == "__main__":
    sys.exit(main())
