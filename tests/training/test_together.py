"""Two CPU processes train one network: as one process would, and they end together however it ends."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from easeml_core.service import trainer
from easeml_core.settings import Settings
from easeml_core.tracking import Tracking
from easeml_core.workorder import Outcome, WorkOrder
from training.trial import run_attempt

MakeOrder = Callable[..., Path]

GROUP = """
import sys
import numpy as np, torch, torch.distributed as dist
from torch import nn
from training.group import Group
rank, folder = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
group, alone = Group(rank, 2), Group()
torch.manual_seed(0)
x, y = torch.randn(7, 3), torch.randn(7, 1)
for size in (7, 3, 1):  # of the batch: of 3 and of 1, the second process has nothing
    whole, shared = nn.Linear(3, 1), nn.Linear(3, 1)
    shared.load_state_dict(whole.state_dict())
    dist.broadcast(whole.weight.data, 0); dist.broadcast(whole.bias.data, 0)
    shared.load_state_dict(whole.state_dict())
    batch = np.arange(size)
    for network, members in ((whole, alone), (shared, group)):
        mine = members.share(batch)
        if len(mine):
            ((network(x[mine]) - y[mine]) ** 2).sum().backward()
        members.add_gradients([*network.parameters()])
    torch.testing.assert_close(shared.weight.grad, whole.weight.grad)
    torch.testing.assert_close(shared.bias.grad, whole.bias.grad)
norm = nn.BatchNorm1d(1)
norm.running_mean += 1 + 2 * rank
group.average_statistics(norm)
assert float(norm.running_mean) == 2, norm.running_mean
assert group.gather(np.arange(2 - rank)).tolist() == [0, 1, 0]
assert float(group.add(torch.tensor(1.0 + rank))) == 3
group.wait()
dist.destroy_process_group()  # else its threads may outlive what they use, and abort
"""


def test_gradients_of_shares_add_up_to_those_of_the_batch(tmp_path: Path) -> None:
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    both = [
        subprocess.Popen([sys.executable, "-c", GROUP, str(rank), str(tmp_path)], env=environment)
        for rank in range(2)
    ]
    assert [process.wait(200) for process in both] == [0, 0]


def _epochs(folder: Path) -> list[dict[str, float]]:
    """The metrics of each epoch, as the log has them."""
    log, _ = trainer.read_log(folder)
    lines = [line.partition(": ")[2] for line in log.splitlines() if ", epoch " in line]
    return [{name: float(value) for name, value in re.findall(r"(\S+) (\S+)", line)} for line in lines]


def _members(ref: trainer.TrainerRef) -> list[psutil.Process]:
    """The processes that compute, not the agent that started them."""
    started = psutil.Process(ref.pid).children(recursive=True)
    return [process for process in started if "training.together" in process.cmdline()]


def _until(condition: Callable[[], Any], seconds: float = 200.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_two_processes_train_as_one(
    make_order: MakeOrder, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(home=tmp_path / "home")
    fields: dict[str, Any] = {"max_epochs": 3, "search": {"learning_rate": 0.003}}
    path = make_order("GRU", "series", processes=2, leash_seconds=600.0, **fields)
    ref = trainer.start(path, settings)
    assert trainer.wait(ref, 300)
    result = trainer.collect(path.parent)
    assert result.outcome is Outcome.SUCCEEDED, trainer.read_log(path.parent)[0]
    with caplog.at_level("INFO", "training"):
        alone = run_attempt(make_order("GRU", "series", **fields).parent)
    log = "\n".join(f"{record.getMessage()}" for record in caplog.records)
    one = [float(loss) for loss in re.findall(r"train_loss (\S+)", log)]
    rates = [float(rate) for rate in re.findall(r"learning_rate (\S+)", log)]
    two = _epochs(path.parent)
    assert [epoch["learning_rate"] for epoch in two] == rates, "as many steps, each at the same rate"
    assert [epoch["train_loss"] for epoch in two] == pytest.approx(one, rel=0.05)
    assert result.quality == pytest.approx(alone.quality, abs=0.15)

    tracking = Tracking(WorkOrder.read(path).mlflow_url)
    assert tracking.verify_files(str(result.model_uri), result.model_files) == []
    run = tracking.client.get_run(str(result.mlflow_run_id))
    runs = tracking.client.search_runs(
        [run.info.experiment_id], f"tags.`easeml.trial` = '{WorkOrder.read(path).trial_id}'"
    )
    assert len(runs) == 2, "the first process alone logs: the attempt and its setting"
    assert {run.info.status for run in runs} == {"FINISHED"}


def test_a_group_ends_whole_and_the_next_attempt_goes_on(make_order: MakeOrder, tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    fields: dict[str, Any] = {"n": 480, "batch_size": 4, "max_epochs": 100_000, "patience": 100_000}
    fields |= {"search": {"learning_rate": 1e-4}, "processes": 2}
    first = make_order("MLP", "vector", **fields)
    order = WorkOrder.read(first)
    ref = trainer.start(first, settings)
    checkpoint = Path(order.checkpoint_dir) / "setting-0.pt"
    _until(lambda: trainer.touch_leash(first.parent) or checkpoint.exists() or not trainer.is_running(ref))
    group = _members(ref)
    heartbeat = trainer.heartbeat(first.parent)
    assert heartbeat is not None
    followers = [process for process in group if process.pid != heartbeat.pid]
    assert len(followers) == 1
    listening = {
        connection.laddr.ip
        for process in [psutil.Process(group[0].ppid()), *group]
        for connection in process.net_connections()
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening <= {"127.0.0.1"}
    followers[0].send_signal(signal.SIGKILL)
    assert trainer.wait(ref, 60)
    result = trainer.collect(first.parent)
    assert (result.outcome, result.reason) == (Outcome.INTERRUPTED, "process 2 of 2 was killed")
    _until(lambda: not any(process.is_running() for process in group))

    second = make_order("MLP", "vector", trial_id=order.trial_id, attempt=2, leash_seconds=8.0, **fields)
    ref = trainer.start(second, settings)
    _until(lambda: trainer.touch_leash(second.parent) or len(_epochs(second.parent)) > 1)
    group = _members(ref)
    assert len(group) == 2
    assert trainer.wait(ref, 100), "nobody holds its leash"
    log, _ = trainer.read_log(second.parent)
    taken_up = int(re.findall(r", epoch (\d+) of", log)[0])
    assert taken_up > 1
    result = trainer.collect(second.parent)
    assert result.outcome is Outcome.INTERRUPTED
    assert "leash" in result.reason
    _until(lambda: not any(process.is_running() for process in group))
