from __future__ import annotations

from pathlib import Path

import pytest

from easeml_core import hardware, naming
from easeml_core.errors import OperatorError


def make_dev(folder: Path, *names: str) -> Path:
    for name in (*names, "null", "nvidiactl", "nvidia-uvm"):
        (folder / name).touch()
    return folder


@pytest.fixture(autouse=True)
def _all_visible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_a_device_may_name_its_host_after_its_number():
    wanted = {"gpu0": 0, "gpu12": 12, "gpu0_hosta": 0, "gpu1_host_b": 1}
    assert {device: naming.cuda_index(device) for device in wanted} == wanted
    assert [naming.cuda_index(name) for name in ("cpu0", "gpu", "gpus0", "gpu0hosta", "gpu0_")] == [None] * 5


def test_several_gpus_may_be_one_device(tmp_path: Path):
    counts = {"gpu0x4": 4, "cpu0x2": 2, "gpu2x2_hosta": 2, "gpu0_x2": 1, "gpux4": 1}
    assert {name: naming.process_count(name) for name in counts} == counts
    assert naming.cuda_index("gpu2x2") == 2
    assert naming.cuda_index("cpu0x2") is None
    dev = make_dev(tmp_path, "nvidia0", "nvidia1")
    hardware.check_devices(["gpu0x2", "cpu0x8"], dev)
    with pytest.raises(OperatorError, match="device gpu1x2, gpu0x4 is not there: this host has 2 GPUs"):
        hardware.check_devices(["gpu1x2", "gpu0x4"], dev)


def test_what_is_there_passes(tmp_path: Path):
    dev = make_dev(tmp_path, "nvidia0", "nvidia1")
    assert hardware.gpu_count(dev) == 2
    hardware.check_devices(["cpu0", "gpu0", "gpu1_hosta"], dev)


@pytest.mark.parametrize(
    ("nodes", "has"), [((), "no GPU"), (("nvidia0",), "1 GPU, gpu0"), (("nvidia0", "nvidia1"), "2 GPUs")]
)
def test_what_is_not_there_is_named(tmp_path: Path, nodes: tuple[str, ...], has: str):
    with pytest.raises(OperatorError, match=rf"device gpu7, gpu8_hosta is not there: this host has {has}"):
        hardware.check_devices(["cpu0", "gpu7", "gpu8_hosta"], make_dev(tmp_path, *nodes))


@pytest.mark.parametrize(("visible", "count"), [("", 0), ("-1", 0), ("1", 1), ("0,1,2", 2)])
def test_gpus_that_cuda_may_not_see_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visible: str, count: int
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert hardware.gpu_count(make_dev(tmp_path, "nvidia0", "nvidia1")) == count


def test_where_only_cuda_knows_nothing_is_refused(tmp_path: Path):
    hardware.check_devices(["gpu3"], make_dev(tmp_path, "dxg"))
