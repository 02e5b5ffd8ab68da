from __future__ import annotations

import base64
import socket

import pytest

from easeml_core.errors import OperatorError
from easeml_core.stack.files import read_json, write_private
from easeml_core.stack.keys import load_keys
from easeml_core.stack.layout import Layout
from easeml_core.stack.ports import choose_ports


def test_keys_are_made_once_and_private(layout: Layout) -> None:
    keys = load_keys(layout.secrets)
    assert load_keys(layout.secrets) == keys
    assert layout.secrets.stat().st_mode & 0o777 == 0o600
    assert len(base64.urlsafe_b64decode(keys.fernet_key)) == 32
    assert len(keys.jwt_secret) >= 64
    assert keys.airflow_password not in repr(keys)


def test_a_missing_key_is_added_without_touching_the_others(layout: Layout) -> None:
    keys = load_keys(layout.secrets)
    values = read_json(layout.secrets)
    del values["jwt_secret"]
    write_private(layout.secrets, values)
    again = load_keys(layout.secrets)
    assert again.fernet_key == keys.fernet_key
    assert again.jwt_secret not in ("", keys.jwt_secret)


def test_free_ports_differ_and_are_kept(layout: Layout) -> None:
    first = choose_ports(layout, {"airflow": 0, "mlflow": 0}, running=False)
    assert len({*first.values()}) == 2
    assert choose_ports(layout, {"airflow": 0, "mlflow": 0}, running=False) == first


def test_a_kept_port_that_somebody_took_is_replaced_unless_it_is_ours(layout: Layout) -> None:
    port = choose_ports(layout, {"airflow": 0}, running=False)["airflow"]
    with socket.create_server(("127.0.0.1", port)):
        assert choose_ports(layout, {"airflow": 0}, running=True)["airflow"] == port
        assert choose_ports(layout, {"airflow": 0}, running=False)["airflow"] != port


def test_a_port_asked_for_that_is_taken_is_an_error_that_says_what_to_do(layout: Layout) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(OperatorError, match=f"port {port} for mlflow is taken.*EASEML_MLFLOW_PORT"):
            choose_ports(layout, {"airflow": 0, "mlflow": port}, running=False)
