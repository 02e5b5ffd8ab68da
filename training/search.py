"""The search over a candidate's hyper-parameters: several settings, the best one kept.

Settings are dropped by successive halving (`easeml_core.catalog.halving`): what a setting has reached after
the epochs of one rung decides whether it trains on to the next. A setting that diverges leaves its place to
the next best one; only when all do has the candidate diverged. One that runs out of memory goes on with each
batch computed in twice as many pieces.

Everything that decides is in the checkpoint: an attempt that takes over makes the same decisions.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import torch

from easeml_core.catalog.halving import rungs
from training.checkpoint import Checkpoint
from training.memory import is_out_of_memory
from training.score import DivergedError, Scored

log = logging.getLogger("training")


class NoMemoryError(Exception):
    """Memory ran out, and the batches cannot be computed in smaller pieces."""


@dataclass
class Tried:
    """One setting of the search, and how far it has come.

    `state` is `open` before its first rung, `paused` after a rung, `done` when it was trained to its end, or
    `diverged`. `curve` has the quality after each epoch.
    """

    setting: dict[str, Any]
    state: str = "open"
    score: float | None = None
    quality: float | None = None
    reason: str = ""
    curve: list[float] = field(default_factory=list)

    @property
    def epochs(self) -> int:
        """Epochs trained so far."""
        return len(self.curve)

    def note(self, best: Scored, curve: Sequence[float]) -> None:
        """Note the best score so far and the curve that led to it."""
        self.score, self.quality, self.curve = best.score, best.quality, list(curve)

    def reached(self, epochs: int) -> float:
        """The best quality within so many epochs; 0 before the first."""
        return max(self.curve[:epochs], default=0.0)


class Trainee(Protocol):
    """A candidate as the search sees it: a network, or a scikit-learn pipeline."""

    @property
    def most_pieces(self) -> int:
        """In how many pieces a batch can be computed at most."""
        ...

    def fit(self, index: int, tried: Tried, epochs: int, search: Search) -> None:
        """Train a setting on until it has had `epochs` epochs, and note in `tried` how it did.

        `state` becomes `done` when more epochs would change nothing, `paused` else.
        """
        ...


@dataclass
class Search:
    """The settings, what is known of them, and what a checkpoint of the search holds."""

    checkpoint: Checkpoint
    tried: list[Tried]
    pieces: int = 1  # in which each batch is computed, for want of memory
    seconds: float = 0.0  # computed by earlier attempts

    @classmethod
    def resume(cls, checkpoint: Checkpoint, settings: list[dict[str, Any]]) -> Search:
        """The search as the checkpoint has it, or a fresh one of these settings."""
        saved = checkpoint.load()
        if saved is None:
            return cls(checkpoint, [Tried(setting) for setting in settings])
        tried = [Tried(**entry) for entry in saved["tried"]]
        log.info(
            "resuming: %d settings have been trained, %.1f s were computed",
            sum(entry.state != "open" for entry in tried),
            saved["seconds"],
        )
        return cls(checkpoint, tried, saved["pieces"], saved["seconds"])

    def save(self, seconds: float) -> None:
        """Write what is known of the settings; `seconds` is what this attempt computed."""
        self.checkpoint.save(
            {
                "tried": [asdict(entry) for entry in self.tried],
                "pieces": self.pieces,
                "seconds": self.seconds + seconds,
            }
        )

    @property
    def best(self) -> int | None:
        """Which setting is best of those that have a quality and did not diverge; the first of equals."""
        usable = [
            index
            for index, entry in enumerate(self.tried)
            if entry.state != "diverged" and entry.quality is not None
        ]
        return max(usable, key=lambda index: self.tried[index].quality or 0.0, default=None)

    def run(self, epochs: int, trainee: Trainee, least: int = 1) -> None:
        """Train all settings by the plan for at most `epochs` epochs, each for `least` or more.

        Raises NoMemoryError, and whatever the candidate raises but DivergedError.
        """
        before = 0
        for rung in rungs(len(self.tried), epochs, least):
            while (index := self._next(before, rung.epochs, rung.keep)) is not None:
                self._fit(index, rung.epochs, trainee)
            before = rung.epochs

    def _next(self, before: int, epochs: int, keep: int) -> int | None:
        """The first of the `keep` settings that were best `before` which still has to train."""
        alive = [index for index, entry in enumerate(self.tried) if entry.state != "diverged"]
        alive.sort(key=lambda index: -self.tried[index].reached(before))
        for index in sorted(alive[:keep]):
            entry = self.tried[index]
            if entry.state == "open" or (entry.state == "paused" and entry.epochs < epochs):
                return index
        return None

    def _fit(self, index: int, epochs: int, trainee: Trainee) -> None:
        entry = self.tried[index]
        while True:
            try:
                trainee.fit(index, entry, epochs, self)
                return
            except DivergedError as error:
                log.info("setting %s diverged: %s", entry.setting, error)
                entry.state, entry.reason = "diverged", str(error)
                return
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                problem = str(error).splitlines()[0] if str(error) else type(error).__name__
            # Out of the handler: its traceback held on to every tensor of the failed attempt.
            gc.collect()
            if torch.cuda.is_initialized():
                torch.cuda.empty_cache()
            if 2 * self.pieces > trainee.most_pieces:
                raise NoMemoryError(problem)
            self.pieces *= 2
            log.info("out of memory (%s): computing each batch in %d pieces", problem, self.pieces)
