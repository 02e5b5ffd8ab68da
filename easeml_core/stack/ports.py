"""Ports of the stack, on loopback: the ones set, else free ones that are kept from then on."""

from __future__ import annotations

import socket
from collections.abc import Mapping

from easeml_core.errors import OperatorError
from easeml_core.stack.files import read_json, write_private
from easeml_core.stack.layout import Layout

HOST = "127.0.0.1"


def is_free(port: int) -> bool:
    """Whether a server of ours could listen on this port of the loopback address."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the servers do: connections of an earlier server in TIME_WAIT do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def free_port(avoid: frozenset[int]) -> int:
    """A free port that is none of `avoid`."""
    while True:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind((HOST, 0))
            port = int(probe.getsockname()[1])
        if port not in avoid:
            return port


def choose_ports(layout: Layout, wanted: Mapping[str, int], *, running: bool) -> dict[str, int]:
    """A port per program of `wanted` (0: any free one, the same as last time where possible).

    With `running` the stack is up, so a kept port in use is in use by us. Raises OperatorError when a
    port that was asked for is taken by somebody else.
    """
    kept: dict[str, int] = read_json(layout.ports, {})
    chosen: dict[str, int] = {}
    for name, port in wanted.items():
        ours = running and kept.get(name) is not None and port in (0, kept[name])
        if ours:
            chosen[name] = kept[name]
        elif port:
            if not is_free(port):
                raise OperatorError(
                    f"port {port} for {name} is taken on {HOST}: set EASEML_{name.upper()}_PORT to another "
                    "one, or to 0 for a free one"
                )
            chosen[name] = port
        else:
            last = kept.get(name, 0)
            usable = last and last not in chosen.values() and is_free(last)
            chosen[name] = last if usable else free_port(frozenset({*chosen.values(), *wanted.values()}))
    if chosen != kept:
        write_private(layout.ports, {**kept, **chosen})
    return chosen
