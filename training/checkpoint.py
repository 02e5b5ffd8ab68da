"""What a later attempt of the same trial needs to go on, kept in the trial's checkpoint folder.

One file, written aside and renamed, so that a kill at any moment leaves the old checkpoint or the new one.
It holds tensors and plain values only and is read with `weights_only=True`: no code runs on load.
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

_FILE = "checkpoint.pt"
_OWNER = "owner.json"
_SHARE = 0.1  # of the time, at most, goes into writing checkpoints


class Checkpoint:
    """The checkpoint folder of one trial, owned by its latest attempt.

    An attempt that finds a later one in possession raises FencedError and must stop: it is a zombie.
    """

    def __init__(self, order: WorkOrder) -> None:
        self.folder = Path(order.checkpoint_dir)
        self.attempt = order.attempt
        # A checkpoint of other data, another candidate or another search is of no use.
        self.identity = json.dumps(
            [order.version_digest, order.candidate, order.objective, order.seed, order.search], sort_keys=True
        )
        self._saved_at = 0.0
        self._took = 0.0
        self.folder.mkdir(parents=True, exist_ok=True)
        self._check_owner()
        write_atomically(self.folder / _OWNER, json.dumps({"attempt": self.attempt}))

    def load(self) -> dict[str, Any] | None:
        """What an earlier attempt saved, or None where there is nothing of use."""
        path = self.folder / _FILE
        if not path.exists():
            return None
        try:
            saved: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:
            log.warning("the checkpoint cannot be read, starting afresh: %s", error)
            return None
        return saved if saved.get("identity") == self.identity else None

    def save(self, state: dict[str, Any], *, now: bool = False) -> None:
        """Save, unless the last saving was so slow and so recent that it would cost more than a tenth of
        the time; `now` saves in any case. Raises FencedError where a later attempt has taken over."""
        begun = time.monotonic()
        if not now and (begun - self._saved_at) * _SHARE < self._took:
            return
        self._check_owner()
        aside = self.folder / f".{_FILE}.{os.getpid()}"
        try:
            with aside.open("wb") as stream:
                torch.save({**state, "identity": self.identity}, stream)
                stream.flush()
                os.fsync(stream.fileno())
            aside.replace(self.folder / _FILE)
        finally:
            aside.unlink(missing_ok=True)
        self._saved_at = time.monotonic()
        self._took = self._saved_at - begun

    def clear(self) -> None:
        """The trial has its result: nothing will resume it."""
        (self.folder / _FILE).unlink(missing_ok=True)

    def _check_owner(self) -> None:
        owner = read_json(self.folder / _OWNER)
        if owner is not None and int(owner["attempt"]) > self.attempt:
            raise FencedError(f"attempt {owner['attempt']} of this trial has taken over")
