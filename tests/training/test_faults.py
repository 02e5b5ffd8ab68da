"""A trainer that is killed, stopped, forgotten, starved or fed nonsense ends as what it is."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from easeml_core.errors import TemporaryError
from easeml_core.service import processes, trainer
from easeml_core.settings import Settings
from easeml_core.tracking import Tracking
from easeml_core.workorder import Outcome, TrialResult, WorkOrder, read_json
from training import memory, watch
from training.trial import run_attempt

MakeOrder = Callable[..., Path]
ENDLESS: dict[str, Any] = {
    "n": 480,
    "batch_size": 4,
    "max_epochs": 100_000,
    "patience": 100_000,
    "search": {"learning_rate": 1e-4},
}


def _until(condition: Callable[[], Any], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture(scope="module")
def standby(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Settings, psutil.Popen]]:
    settings = Settings(home=tmp_path_factory.mktemp("home"))
    process = _start_standby(settings)
    yield settings, process
    if process.is_running():
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert not (settings.run_dir / "standby.sock").exists()


def _start_standby(settings: Settings) -> psutil.Popen:
    process = psutil.Popen(
        [sys.executable, "-m", "training.standby", "--run-dir", str(settings.run_dir)],
        stdout=subprocess.DEVNULL,
    )
    _until(lambda: (settings.run_dir / "standby.sock").exists() or process.poll() is not None)
    assert process.poll() is None
    return process


def test_a_standby_has_one_thread_and_survives_bad_requests(standby: tuple[Settings, psutil.Popen]) -> None:
    import socket

    settings, process = standby
    assert process.num_threads() == 1

    def ask(line: bytes) -> Any:
        with (
            socket.socket(socket.AF_UNIX) as connection,
            trainer.open_socket_folder(settings.run_dir) as folder,
        ):
            connection.settimeout(30)
            connection.connect(f"{folder}/standby.sock")
            connection.sendall(line)
            return json.loads(connection.makefile().readline() or "null")

    for line in (
        b"{}\n",
        b"nonsense\n",
        b"[]\n",
        b'{"op": "start", "kind": "train", "order": "/no"}\n',
        b"\xff\n",
    ):
        assert ask(line)["ok"] is False
    with suppress(OSError):  # it hangs up on a line without end, perhaps while we still send
        assert ask(b"x" * 2_000_000) is None
    assert ask(b'{"op": "ping"}\n')["pid"] == process.pid
    assert (settings.run_dir / "standby.sock").stat().st_mode & 0o077 == 0


def test_a_killed_trainer_resumes_in_the_next_attempt(
    make_order: MakeOrder, standby: tuple[Settings, psutil.Popen]
) -> None:
    settings, process = standby
    first = make_order("SmallCNN", "image", **ENDLESS)
    ref = trainer.start(first, settings)
    assert trainer.start(first, settings) == ref  # never a second one
    assert psutil.Process(ref.pid).ppid() == process.pid
    order = WorkOrder.read(first)
    checkpoint, run = Path(order.checkpoint_dir) / "setting-0.pt", first.parent / "run.json"
    _until(lambda: checkpoint.exists() and run.exists())  # the run is opened beside the training
    with pytest.raises(TemporaryError):
        trainer.collect(first.parent)
    os.kill(ref.pid, signal.SIGKILL)
    assert trainer.wait(ref, 30)
    result = trainer.collect(first.parent)
    assert result.outcome is Outcome.INTERRUPTED
    assert "SIGKILL" in result.reason
    assert result.cost_seconds > 0

    fields = {**ENDLESS, "max_epochs": 100_000, "limit_seconds": 4.0}
    second = make_order("SmallCNN", "image", trial_id=order.trial_id, attempt=2, **fields)
    ref = trainer.start(second, settings)
    assert trainer.wait(ref, 120)
    log, _ = trainer.read_log(second.parent)
    assert "resuming" in log
    epochs = [int(line.split("epoch ")[1].split(" ")[0]) for line in log.splitlines() if ", epoch " in line]
    assert epochs[0] > 1
    assert epochs == list(range(epochs[0], epochs[0] + len(epochs)))
    result = trainer.collect(second.parent)
    assert (result.outcome, result.epochs) == (
        Outcome.SUCCEEDED,
        epochs[-1],
    )  # by the limit, with what it had
    assert "its limit of 4 s" in result.reason

    tracking = Tracking(order.mlflow_url)
    experiment = tracking.get_or_create_experiment(order.experiment)
    runs = tracking.client.search_runs([experiment], f"tags.`easeml.trial` = '{order.trial_id}'")
    assert len([run for run in runs if "mlflow.parentRunId" not in run.data.tags]) == 2
    assert all(run.info.status != "RUNNING" for run in runs)


def test_a_stopped_trainer_checkpoints_and_says_so(
    make_order: MakeOrder, standby: tuple[Settings, psutil.Popen]
) -> None:
    settings, _ = standby
    path = make_order("LSTM", "series", **ENDLESS)
    ref = trainer.start(path, settings)
    _until(lambda: (beat := trainer.heartbeat(path.parent)) is not None and beat.epoch > 1)
    trainer.stop(ref, grace=60.0)
    assert not trainer.is_running(ref)
    result = TrialResult.read(path.parent / "result.json")
    assert result.outcome is Outcome.INTERRUPTED
    assert (Path(WorkOrder.read(path).checkpoint_dir) / "setting-0.pt").exists()
    run = Tracking(WorkOrder.read(path).mlflow_url).client.get_run(str(result.mlflow_run_id))
    assert run.info.status == "KILLED"


def test_a_trainer_nobody_waits_for_ends(
    make_order: MakeOrder, standby: tuple[Settings, psutil.Popen]
) -> None:
    settings, _ = standby
    path = make_order("MLP", "vector", leash_seconds=3.0, **ENDLESS)
    ref = trainer.start(path, settings)
    assert trainer.wait(ref, 120)
    result = trainer.collect(path.parent)
    assert result.outcome is Outcome.INTERRUPTED
    assert "leash" in result.reason


def test_children_die_with_their_standby_and_a_fresh_interpreter_takes_over(
    make_order: MakeOrder, tmp_path: Path
) -> None:
    settings = Settings(home=tmp_path / "home")
    process = _start_standby(settings)
    path = make_order("SmallCNN", "image", **ENDLESS)
    ref = trainer.start(path, settings)
    _until(lambda: (beat := trainer.heartbeat(path.parent)) is not None and beat.epoch > 1)
    process.kill()
    process.wait()
    assert trainer.wait(ref, 60)
    assert trainer.collect(path.parent).outcome is Outcome.INTERRUPTED

    path = make_order("KNN", "vector")
    ref = trainer.start(path, settings)  # the socket is there, but nobody listens
    assert trainer.wait(ref, 200)
    result = trainer.collect(path.parent)
    assert result.outcome is Outcome.SUCCEEDED, result.reason
    assert read_json(path.parent / "exit.json")["code"] == 0


def test_a_fresh_trainer_that_leaves_no_result_has_failed(make_order: MakeOrder) -> None:
    path = make_order("KNN", "vector")
    command = [sys.executable, "-m", "training.run", "--kind", "nonsense", str(path)]
    subprocess.run(command, check=False, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    result = trainer.collect(path.parent)
    assert (result.outcome, result.quality) == (Outcome.FAILED, None), "not interrupted: it would come again"
    assert "exit status 2" in result.reason


def test_a_trainer_that_ignores_sigterm_is_killed_with_all_it_started(tmp_path: Path) -> None:
    script = "import signal, subprocess, time; signal.signal(15, signal.SIG_IGN)\n"
    script += "subprocess.Popen(['sleep', '600']); print('up', flush=True); time.sleep(600)"
    process = subprocess.Popen([sys.executable, "-c", script], start_new_session=True, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"up\n"
    started = processes.start_time(process.pid)
    assert started is not None
    assert len(processes.session_members(process.pid)) == 2
    trainer.stop(trainer.TrainerRef(process.pid, started, str(tmp_path)), grace=0.2)
    assert processes.session_members(process.pid) == []
    process.stdout.close()
    process.returncode = -signal.SIGKILL  # reaped by `stop`


@pytest.mark.parametrize(
    ("ended", "stopped", "outcome", "words"),
    [
        ({"code": 0, "signal": None}, None, Outcome.FAILED, "without a result"),
        ({"code": 1, "signal": None}, None, Outcome.FAILED, "exit status 1"),
        ({"code": None, "signal": 11}, None, Outcome.FAILED, "SIGSEGV"),
        ({"code": None, "signal": 9, "out_of_memory": False}, None, Outcome.INTERRUPTED, "SIGKILL"),
        (
            {"code": None, "signal": 9, "out_of_memory": True, "peak_memory_bytes": 3_200_000_000},
            None,
            Outcome.OUT_OF_MEMORY,
            "peak 3.2 GB",
        ),
        (
            {"code": None, "signal": 9},
            {"outcome": "deadline", "reason": "hung past its limit"},
            Outcome.DEADLINE,
            "hung",
        ),
        (None, None, Outcome.INTERRUPTED, "vanished"),
    ],
)
def test_what_a_missing_result_means(
    make_order: MakeOrder, ended: Any, stopped: Any, outcome: Outcome, words: str
) -> None:
    folder = make_order("KNN", "vector").parent
    if ended is not None:
        (folder / "exit.json").write_text(json.dumps(ended))
    if stopped is not None:
        (folder / "stop.json").write_text(json.dumps(stopped))
    result = trainer.collect(folder)
    assert (result.outcome, result.quality) == (outcome, None)
    assert words in result.reason


def test_a_hopeless_learning_rate_is_a_bad_setting_and_alone_means_diverged(make_order: MakeOrder) -> None:
    alone = run_attempt(make_order("MLP", "vector", "regression", search={"learning_rate": 1e6}).parent)
    assert alone.outcome is Outcome.DIVERGED
    assert alone.quality is None
    both = run_attempt(
        make_order("MLP", "vector", "regression", search={"learning_rate": {".choice": [1e6, 0.01]}}).parent
    )
    assert both.outcome is Outcome.SUCCEEDED, both.reason
    assert both.hyperparameters == {"learning_rate": 0.01}


def test_not_a_number_in_the_data_diverges(
    make_order: MakeOrder, versions: Callable[..., Path], tmp_path: Path
) -> None:
    import shutil

    folder = tmp_path / "broken"
    shutil.copytree(versions("vector"), folder)
    inputs = np.load(folder / "inputs.npy")
    inputs[:, 2] = np.nan
    np.save(folder / "inputs.npy", inputs)
    path = make_order("MLP", "vector", version_dir=folder, search={"learning_rate": 0.01})
    assert run_attempt(path.parent).outcome is Outcome.DIVERGED


def test_memory_is_tried_again_with_ever_smaller_pieces(
    make_order: MakeOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from training.models.network import Network

    original, sizes = Network.raw, []

    def hungry(self: Network, x: Any) -> Any:
        if self.training:
            sizes.append(len(x))
            if len(x) > limit:
                raise MemoryError("fake")
        return original(self, x)

    monkeypatch.setattr(Network, "raw", hungry)
    limit = 4
    result = run_attempt(make_order("MLP", "vector", search={"learning_rate": 0.01}).parent)
    assert result.outcome is Outcome.SUCCEEDED, result.reason
    assert sizes[:3] == [16, 8, 4]
    assert max(sizes[2:]) == 4
    limit = 1
    sizes.clear()
    result = run_attempt(make_order("MLP", "vector", search={"learning_rate": 0.01}).parent)
    assert result.outcome is Outcome.OUT_OF_MEMORY
    assert sizes == [16, 8, 4, 2], "batch normalisation cannot train on one"
    assert "peak" in result.reason


def test_more_memory_than_the_limit_ends_that_trial_alone(
    make_order: MakeOrder, standby: tuple[Settings, psutil.Popen]
) -> None:
    """VGG-16's weights, gradients and moments are 240 MB; a perceptron needs next to nothing."""
    settings, process = standby
    limit = 200_000_000
    search = {"learning_rate": 0.01}
    large = make_order("VGG-16", "image", search=search, memory_limit_bytes=limit, max_epochs=1)
    small = make_order("MLP", "vector", search=search, memory_limit_bytes=limit, max_epochs=1)
    results = []
    for path in (large, small):
        ref = trainer.start(path, settings)
        assert trainer.wait(ref, 200)
        results.append(trainer.collect(path.parent))
    assert process.is_running()
    hungry, modest = results
    assert hungry.outcome is Outcome.OUT_OF_MEMORY, hungry.reason
    assert re.fullmatch(r"out of memory \(peak \d\.\d GB, limit 0\.2 GB\)", hungry.reason)
    assert "computing each batch in 2 pieces" in trainer.read_log(large.parent)[0]
    run = Tracking(WorkOrder.read(large).mlflow_url).client.get_run(str(hungry.mlflow_run_id))
    assert run.info.status == "FAILED"
    assert run.data.tags["easeml.reason"] == hungry.reason
    assert modest.outcome is Outcome.SUCCEEDED, modest.reason


def test_the_memory_limit_counts_what_is_written_and_is_lifted_again() -> None:
    script = (
        "import mmap; from training.memory import limited_memory\n"
        "def take(n):\n"
        "    try: return len(bytearray(n))\n"
        "    except MemoryError: return 0\n"
        "with limited_memory(100 << 20):\n"
        "    reserved = mmap.mmap(-1, 8 << 30, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ)\n"
        "    print(take(50 << 20), take(200 << 20))\n"
        "print(take(200 << 20))\n"
        "with limited_memory(None): print(take(200 << 20))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(50 << 20), "0", str(200 << 20), str(200 << 20)]


def test_a_candidate_that_raises_fails_with_its_reason(
    make_order: MakeOrder, versions: Callable[..., Path]
) -> None:
    path = make_order("SVM", "vector", search={"C": -1.0})
    result = run_attempt(path.parent)
    assert result.outcome is Outcome.FAILED
    assert "C" in result.reason
    run = Tracking(WorkOrder.read(path).mlflow_url).client.get_run(str(result.mlflow_run_id))
    assert run.info.status == "FAILED"


def test_a_fault_of_the_machinery_is_not_the_candidates(
    make_order: MakeOrder, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run_attempt(make_order("MLP", "vector", device="gpu7").parent)
    assert result.outcome is Outcome.INTERRUPTED
    assert "gpu7" in result.reason
    assert (result.fault, result.cost_seconds) == (True, 0.0)
    result = run_attempt(make_order("MLP", "vector", version_dir="/nowhere").parent)
    assert result.outcome is Outcome.INTERRUPTED
    assert "no data version" in result.reason
    assert (result.fault, result.cost_seconds) == (False, 0.0), "one task's loss pauses no device"
    monkeypatch.setattr("training.run_log.INSIST_SECONDS", 0.5)
    result = run_attempt(make_order("KNN", "vector", mlflow_url="http://127.0.0.1:9").parent)
    assert result.outcome is Outcome.INTERRUPTED
    assert "MLflow does not answer" in result.reason


def test_an_earlier_attempt_is_fenced(make_order: MakeOrder) -> None:
    path = make_order("MLP", "vector", trial_id=4242)
    from training.checkpoint import Checkpoint

    Checkpoint(WorkOrder.read(path).model_copy(update={"attempt": 2}))
    result = run_attempt(path.parent)
    assert result.outcome is Outcome.INTERRUPTED
    assert "taken over" in result.reason


def test_a_fit_that_lets_nothing_through_is_ended_by_force(make_order: MakeOrder, mlflow_url: str) -> None:
    """Native code holds the main thread; the watching thread leaves the result, closes the run and ends the
    process."""
    path = make_order("MLP", "vector", search={"learning_rate": 0.01}, limit_seconds=1000.0)
    script = (
        "import sys, ctypes; from pathlib import Path\n"
        "from training import watch, trial\n"
        "watch.HARD_SECONDS, trial._FORCED_SECONDS = 1.0, 60.0\n"
        "def fit(self, *_):\n"
        "    self.watch._begun -= 1000.0\n"  # its time is over now, however slow the start was
        "    ctypes.CDLL(None).usleep(90_000_000)\n"
        "trial.NetworkTrainee.fit = fit\n"
        "trial.run_attempt(Path(sys.argv[1]))\n"
    )
    code = subprocess.run(
        [sys.executable, "-c", script, str(path.parent)], start_new_session=True, check=False
    )
    assert code.returncode == -signal.SIGKILL
    result = trainer.collect(path.parent)
    assert result.outcome is Outcome.DEADLINE
    assert "by force" in result.reason
    assert result.mlflow_run_id
    assert Tracking(mlflow_url).client.get_run(result.mlflow_run_id).info.status == "FAILED"


def test_a_log_is_read_by_whole_characters(tmp_path: Path) -> None:
    data = "a €\n".encode()
    (tmp_path / "log.txt").write_bytes(data[:3])
    text, offset = trainer.read_log(tmp_path, 0)
    assert (text, offset) == ("a ", 2)
    (tmp_path / "log.txt").write_bytes(data)
    assert trainer.read_log(tmp_path, offset) == ("€\n", len(data))


def test_memory_signs() -> None:
    assert memory.is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory"))
    assert not memory.is_out_of_memory(RuntimeError("shapes"))
    assert watch.BEAT_SECONDS <= 1.0
