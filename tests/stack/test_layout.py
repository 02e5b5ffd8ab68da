from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from easeml_core.errors import OperatorError
from easeml_core.stack.layout import SOCKET_PATH_BYTES, Layout, fits_socket, short_folder


def test_private_folders_are_closed_to_others(layout: Layout) -> None:
    for folder in (layout.run, layout.logs, layout.airflow, layout.artifacts):
        assert folder.stat().st_mode & 0o777 == 0o700


def test_the_limit_is_the_kernels(tmp_path: Path) -> None:
    os.chdir("/")
    with socket.socket(socket.AF_UNIX) as probe, pytest.raises(OSError, match="too long"):
        probe.bind("/tmp/" + "x" * (SOCKET_PATH_BYTES + 1))
    assert fits_socket(Path("/" + "x" * (SOCKET_PATH_BYTES - 1)))
    assert not fits_socket(Path("/" + "x" * SOCKET_PATH_BYTES))


def test_a_deep_home_gets_a_short_socket_of_its_own() -> None:
    deep = Path("/tmp/" + "/".join(["folder"] * 20))
    one, other = Layout(deep).supervisor_socket, Layout(deep / "x").supervisor_socket
    try:
        assert fits_socket(one, suffix=9)
        assert one != other
        assert one.parent.stat().st_mode & 0o777 == 0o700
    finally:
        one.parent.rmdir()
        other.parent.rmdir()


def test_a_short_folder_that_others_could_write_to_is_refused() -> None:
    folder = short_folder(Path("/some/home"), "test")
    try:
        folder.chmod(0o777)
        with pytest.raises(OperatorError, match="not a private folder"):
            short_folder(Path("/some/home"), "test")
    finally:
        folder.rmdir()


@pytest.mark.parametrize("name", ["a\nb", "a ;b", "a #b", "a%b"])
def test_a_home_that_the_configuration_cannot_hold_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(OperatorError, match="home folder"):
        Layout.of(tmp_path / name)
