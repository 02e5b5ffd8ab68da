"""What a trainer that left no result died of.

`exit.json`, written by whoever reaped the trainer, says how the process ended; `stop.json`, written by
whoever stopped it, says why. Neither is there when everything was killed at once.
"""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from easeml_core.workorder import HEARTBEAT_FILE, Heartbeat, Outcome, TrialResult, WorkOrder, read_json

EXIT_FILE = "exit.json"  # {"code", "signal", "out_of_memory", "peak_memory_bytes"}
STOP_FILE = "stop.json"  # {"outcome", "reason"}

_CRASHES = frozenset(
    {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP}
)


def infer_result(folder: Path, order: WorkOrder) -> TrialResult:
    """The result of an attempt whose trainer is gone and wrote none.

    * stopped on purpose → what the stopper said (`deadline`, `interrupted`);
    * ended by the kernel for lack of memory → `out_of_memory`;
    * crashed (SIGSEGV, SIGABRT, …), or exited without a result → `failed`;
    * killed by another signal, or vanished with its whole machine → `interrupted`: it may resume.
    """
    ended: dict[str, Any] = read_json(folder / EXIT_FILE) or {}
    stopped: dict[str, Any] | None = read_json(folder / STOP_FILE)
    beat = heartbeat(folder)
    peak = ended.get("peak_memory_bytes")
    outcome, reason = _read_end(ended, order)
    if stopped is not None and outcome is not Outcome.OUT_OF_MEMORY:
        outcome, reason = Outcome(stopped["outcome"]), str(stopped["reason"])
    run = read_json(folder / "run.json") or {}
    return TrialResult(
        trial_id=order.trial_id,
        attempt=order.attempt,
        outcome=outcome,
        reason=reason,
        cost_seconds=beat.compute_seconds if beat else 0.0,
        epochs=beat.epoch if beat else 0,
        mlflow_run_id=run.get("mlflow_run_id"),
        peak_memory_bytes=peak,
    )


def heartbeat(folder: Path) -> Heartbeat | None:
    """The last sign of life of an attempt, or None before its first."""
    data = read_json(folder / HEARTBEAT_FILE)
    return None if data is None else Heartbeat.model_validate(data)


def memory_reason(peak: int | None, limit: int | None) -> str:
    """`out of memory (peak 3.1 GB, limit 4.0 GB)`, as far as the figures are known."""
    known = []
    if peak is not None:
        known.append(f"peak {_size(peak)}")
    if limit is not None:
        known.append(f"limit {_size(limit)}")
    return "out of memory" + (f" ({', '.join(known)})" if known else "")


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 100_000_000 else f"{count / 1e6:.1f} MB"


def _read_end(ended: dict[str, Any], order: WorkOrder) -> tuple[Outcome, str]:
    number, code = ended.get("signal"), ended.get("code")
    if number is not None:
        name = signal.Signals(number).name
        if ended.get("out_of_memory"):
            return Outcome.OUT_OF_MEMORY, memory_reason(
                ended.get("peak_memory_bytes"), order.memory_limit_bytes
            )
        if number in _CRASHES:
            return Outcome.FAILED, f"the trainer crashed with {name}"
        return Outcome.INTERRUPTED, f"the trainer was killed with {name}"
    if code is not None:
        return Outcome.FAILED, f"the trainer ended without a result (exit status {code})"
    return Outcome.INTERRUPTED, "the trainer vanished, nobody saw it end"
