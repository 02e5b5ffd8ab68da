"""What a later attempt of the same trial needs to go on, kept in the trial's checkpoint folder.

A file for the search as a whole and one for each setting that has begun. Each is written aside and renamed,
so that a kill at any moment leaves the old file or the new one, and each is complete in itself. They hold
tensors and plain values only and are read with `weights_only=True`: no code runs on load.
"""

from __future__ import annotations

import json
import logging
import os
import time
from pathlib import Path
from typing import Any

import torch

from easeml_core.errors import FencedError
from easeml_core.workorder import WorkOrder, read_json, write_atomically

log = logging.getLogger("training")

_SEARCH = "search.pt"
_OWNER = "owner.json"
_SHARE = 0.01  # of the time, at most, goes into writing a setting's checkpoints
_BYTES_PER_SECOND = 4e8  # that the first one is expected to be written with


class Checkpoint:
    """The checkpoint folder of one trial, owned by its latest attempt.

    An attempt that finds a later one in possession raises FencedError and must stop: it is a zombie. Of the
    processes of one attempt only the first `writes`.
    """

    def __init__(self, order: WorkOrder, *, writes: bool = True) -> None:
        self.folder = Path(order.checkpoint_dir)
        self.attempt = order.attempt
        self.writes = writes
        # A checkpoint of other data, another candidate or another search is of no use.
        self.identity = json.dumps(
            [
                order.version_digest, order.candidate, order.objective, order.seed,
                order.search, order.max_settings, order.max_epochs,
            ]
        )  # fmt: skip
        self._saved_at = time.monotonic()
        self._took: float | None = None
        if writes:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._check_owner()
            write_atomically(self.folder / _OWNER, json.dumps({"attempt": self.attempt}))

    def load(self) -> dict[str, Any] | None:
        """What was saved of the search, or None where there is nothing of use."""
        return self._read(_SEARCH)

    def save(self, state: dict[str, Any]) -> None:
        """Save the search. Raises FencedError where a later attempt has taken over."""
        self._write(_SEARCH, state)

    def load_setting(self, index: int) -> dict[str, Any] | None:
        """What was saved of a setting, or None where there is nothing of use."""
        return self._read(_setting_file(index))

    def save_setting(self, index: int, state: dict[str, Any]) -> None:
        """Save a setting. Raises as `save`."""
        begun = time.monotonic()
        self._write(_setting_file(index), state)
        self._saved_at = time.monotonic()
        self._took = self._saved_at - begun

    def is_due(self, size: int) -> bool:
        """Whether saving a setting of `size` bytes now would keep writing within its share of the time."""
        took = size / _BYTES_PER_SECOND if self._took is None else self._took
        return took <= (time.monotonic() - self._saved_at) * _SHARE

    def clear(self) -> None:
        """The trial has its result: nothing will resume it."""
        if self.writes:
            for path in self.folder.glob("*.pt"):
                path.unlink(missing_ok=True)

    def _read(self, name: str) -> dict[str, Any] | None:
        path = self.folder / name
        if not path.exists():
            return None
        try:
            saved: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:
            log.warning("%s cannot be read, starting afresh: %s", name, error)
            return None
        return saved["state"] if saved.get("identity") == self.identity else None

    def _write(self, name: str, state: dict[str, Any]) -> None:
        if not self.writes:
            return
        self._check_owner()
        aside = self.folder / f".{name}.{os.getpid()}"
        try:
            with aside.open("wb") as stream:
                torch.save({"state": state, "identity": self.identity}, stream)
                stream.flush()
                os.fsync(stream.fileno())
            aside.replace(self.folder / name)
        finally:
            aside.unlink(missing_ok=True)

    def _check_owner(self) -> None:
        owner = read_json(self.folder / _OWNER)
        if owner is not None and int(owner["attempt"]) > self.attempt:
            raise FencedError(f"attempt {owner['attempt']} of this trial has taken over")


def _setting_file(index: int) -> str:
    return f"setting-{index}.pt"
