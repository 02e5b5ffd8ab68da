"""The warm standby of a host: `python -m training.standby`.

One process with torch, MLflow and scikit-learn imported, which forks a child per order. A fresh
interpreter spends seconds on those imports before each training; a fork spends milliseconds.

They take half a gigabyte, so it is warm only while there is work: it imports them when it is told that an
upload has come, or with the first order, and after `COOL_SECONDS` without a child it starts anew in its own
process, with the same listening socket, so that nobody who calls meanwhile is refused.

What makes the fork safe: this process has a single thread (no parallel region was ever entered, one
thread per native library) and has never touched CUDA, which does not survive a fork. Each child leads a
session of its own, gets SIGTERM should the standby die, closes standard input, logs to its order's
`log.txt` and seeds its own generators.

Protocol, one JSON object per line over a Unix socket that only its owner may open:
`{"op": "start", "kind": "train", "order": "/…/order.json"}` → `{"ok": true, "pid": 42}`;
`{"op": "ping"}` → `{"ok": true, "pid": 7, "warm": true, "children": [42]}`;
`{"op": "warm"}` → `{"ok": true}`; anything else → `{"ok": false, "error": …}`.
"""

from __future__ import annotations

from training.child import prepare_environment

prepare_environment()

import argparse  # noqa: E402 - the environment is read by the imports below
import json  # noqa: E402
import logging  # noqa: E402
import os  # noqa: E402
import selectors  # noqa: E402
import signal  # noqa: E402
import socket  # noqa: E402
import sys  # noqa: E402
import time  # noqa: E402
from contextlib import suppress  # noqa: E402
from dataclasses import dataclass, field  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

from easeml_core.naming import CandidateName  # noqa: E402
from easeml_core.service.trainer import SOCKET_FILE, open_socket_folder  # noqa: E402
from easeml_core.settings import Settings  # noqa: E402
from training import child  # noqa: E402

log = logging.getLogger("training.standby")

COOL_SECONDS = 300.0
_LINE_BYTES = 64 * 1024
_CLIENT_SECONDS = 5.0
_STOP_SECONDS = 8.0


@dataclass
class _Child:
    folder: Path
    kills_before: int


@dataclass
class _Client:
    connection: socket.socket
    received: bytes = b""
    since: float = field(default_factory=time.monotonic)


class Standby:
    """Serves the socket in `run_dir` until SIGTERM; children get SIGTERM too and time to checkpoint.

    `listener` is the listening socket of the process that this one continues.
    """

    def __init__(
        self, run_dir: Path, listener: socket.socket | None = None, cool_seconds: float = COOL_SECONDS
    ) -> None:
        self.run_dir = run_dir
        self.children: dict[int, _Child] = {}
        self._cool_seconds = cool_seconds
        self._warm = self._wanted = False
        self._last_used = time.monotonic()
        self._stopping = False
        self._saw_network = self._knows_networks = False
        self._selector = selectors.DefaultSelector()
        self._listener = self._listen() if listener is None else listener
        # Signals wake the selector through this pair, so none is lost between looking and waiting.
        self._wake_read, self._wake_write = socket.socketpair()
        for end in (self._wake_read, self._wake_write, self._listener):
            end.setblocking(False)

    def serve(self) -> None:
        """Fork children for requests and reap them, until asked to stop or cool for long enough."""
        signal.set_wakeup_fd(self._wake_write.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_stop)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake_read, selectors.EVENT_READ)
        log.info("listening, pid %d", os.getpid())
        while not self._stopping and not self._is_idle():
            for key, _ in self._selector.select(timeout=1.0):
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj is self._wake_read:
                    with suppress(BlockingIOError):
                        self._wake_read.recv(4096)
                else:
                    self._receive(key.data)
            self._reap()
            self._drop_silent_clients()
            if self._wanted:
                self._warm_up()
            if self._saw_network and not self._knows_networks:
                self._learn_networks()
        if self._stopping:
            self._stop()
        else:
            self._start_anew()

    def _listen(self) -> socket.socket:
        self.run_dir.mkdir(parents=True, exist_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with open_socket_folder(self.run_dir) as folder:
            path = f"{folder}/{SOCKET_FILE}"
            with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                probe.connect(path)
                raise SystemExit(f"a standby already serves {self.run_dir / SOCKET_FILE}")
            Path(path).unlink(missing_ok=True)
            before = os.umask(0o177)
            try:
                listener.bind(path)
            finally:
                os.umask(before)
        listener.listen(64)
        return listener

    def _accept(self) -> None:
        with suppress(OSError):
            connection, _ = self._listener.accept()
            connection.setblocking(False)
            self._selector.register(connection, selectors.EVENT_READ, _Client(connection))

    def _receive(self, client: _Client) -> None:
        try:
            data = client.connection.recv(_LINE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        client.received += data
        line, newline, client.received = client.received.partition(b"\n")
        if newline:
            answer = self._handle(line)
            with suppress(OSError):
                client.connection.send(json.dumps(answer).encode() + b"\n")
            client.since = time.monotonic()
        elif not data or len(line) > _LINE_BYTES:
            self._drop(client)
        else:
            client.received = line

    def _handle(self, line: bytes) -> dict[str, Any]:
        try:
            request = json.loads(line)
            if request["op"] == "ping":
                children = sorted(self.children)
                return {"ok": True, "pid": os.getpid(), "warm": self._warm, "children": children}
            if request["op"] == "warm":
                self._wanted = True  # after the answer: nobody waits for it
                return {"ok": True}
            if request["op"] == "start":
                return {"ok": True, "pid": self._start(str(request["kind"]), Path(request["order"]))}
            return {"ok": False, "error": f"there is no operation {request['op']!r}"}
        except (ValueError, KeyError, TypeError, OSError) as error:
            return {"ok": False, "error": f"{type(error).__name__}: {error}"}

    def _start(self, kind: str, order: Path) -> int:
        if not order.is_file():
            raise FileNotFoundError(f"there is no order {order}")
        self._warm_up()
        if self._stopping:
            raise OSError("this standby cannot fork and is about to end")
        kills = child.out_of_memory_kills()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            child.run_and_exit(lambda: self._become(kind, order, parent))
        self.children[pid] = _Child(order.parent, kills)
        self._saw_network |= kind == "train" and _is_network(order)
        return pid

    def _warm_up(self) -> None:
        self._wanted = False
        if not self._warm:
            from training import rehearsal

            begun = time.monotonic()
            rehearsal.rehearse()
            self._settle()
            self._warm = True
            log.info("warm after %.1f s", time.monotonic() - begun)
        self._last_used = time.monotonic()

    def _learn_networks(self) -> None:
        """After the first network: what its trainer imports for itself, the next one finds here.

        A service that trains none saves 110 MB; the first network's trainer takes two seconds longer.
        """
        from training import rehearsal

        self._knows_networks = True
        rehearsal.rehearse_network()
        self._settle()

    def _settle(self) -> None:
        from training import rehearsal

        rehearsal.settle_memory()
        if (threads := rehearsal.thread_count()) > 1:
            log.error("the libraries started %d threads: forking would not be safe", threads - 1)
            self._stopping = True

    def _is_idle(self) -> bool:
        if self.children:
            self._last_used = time.monotonic()
        if not self._warm or time.monotonic() - self._last_used < self._cool_seconds:
            return False
        # Whoever is connected is answered first; who connects from now on waits in the socket's queue.
        return not any(isinstance(key.data, _Client) for key in self._selector.get_map().values())

    def _start_anew(self) -> None:
        """Continue as a fresh, cool process: same process id, same listening socket."""
        log.info("nothing to do: cooling down")
        os.set_inheritable(self._listener.fileno(), True)
        options = {
            "--run-dir": self.run_dir,
            "--cool-seconds": self._cool_seconds,
            "--listener": self._listener.fileno(),
        }
        sys.stdout.flush()
        os.execv(
            sys.executable,
            [
                sys.executable,
                "-m",
                "training.standby",
                *(str(word) for option in options.items() for word in option),
            ],
        )

    def _become(self, kind: str, order: Path, parent: int) -> int:
        """The child's life."""
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        child.die_with_parent(parent)
        for key in list(self._selector.get_map().values()):
            with suppress(OSError):
                os.close(key.fd)
        self._selector.close()
        child.redirect(order.parent)
        if not child.claim(order.parent):
            return child.SECOND
        from training.jobs import perform

        return perform(kind, order)

    def _reap(self) -> None:
        while self.children:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if (ended := self.children.pop(pid, None)) is not None:
                try:
                    child.note_exit(ended.folder, status, usage.ru_maxrss, ended.kills_before)
                except OSError as error:
                    log.warning("how %d ended could not be noted: %s", pid, error)

    def _drop_silent_clients(self) -> None:
        now = time.monotonic()
        for key in list(self._selector.get_map().values()):
            if isinstance(key.data, _Client) and now - key.data.since > _CLIENT_SECONDS:
                self._drop(key.data)

    def _drop(self, client: _Client) -> None:
        self._selector.unregister(client.connection)
        client.connection.close()

    def _on_stop(self, *_: object) -> None:
        self._stopping = True

    def _stop(self) -> None:
        self._selector.unregister(self._listener)
        self._listener.close()
        (self.run_dir / SOCKET_FILE).unlink(missing_ok=True)
        deadline = time.monotonic() + _STOP_SECONDS
        for pid in self.children:
            _signal_session(pid, signal.SIGTERM)
        while self.children and time.monotonic() < deadline:
            self._reap()
            time.sleep(0.02)
        for pid in self.children:
            _signal_session(pid, signal.SIGKILL)
        while self.children:
            pid, status, usage = os.wait4(-1, 0)
            if (ended := self.children.pop(pid, None)) is not None:
                child.note_exit(ended.folder, status, usage.ru_maxrss, ended.kills_before)
        log.info("stopped")


def _is_network(order: Path) -> bool:
    from training.models import is_network

    try:
        return is_network(CandidateName.parse(json.loads(order.read_text())["candidate"]))
    except (OSError, ValueError, KeyError):
        return False  # its trainer says what is wrong with it


def main(arguments: list[str] | None = None) -> int:
    """Run the standby of `$EASEML_HOME` until SIGTERM."""
    parser = argparse.ArgumentParser(prog="python -m training.standby", description=__doc__)
    parser.add_argument("--run-dir", type=Path, help="where the socket goes (default: <home>/run)")
    parser.add_argument("--listener", type=int, help=argparse.SUPPRESS)
    parser.add_argument(
        "--cool-seconds", type=float, default=COOL_SECONDS, help="idle time after which it cools"
    )
    options = parser.parse_args(arguments)
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(asctime)s %(message)s", force=True)
    run_dir: Path = options.run_dir or Settings().run_dir
    listener = None if options.listener is None else socket.socket(fileno=options.listener)
    Standby(run_dir, listener, options.cool_seconds).serve()
    return 0


def _signal_session(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


if __name__ == "__main__":
    sys.exit(main())
