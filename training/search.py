"""The search over a candidate's hyper-parameters: every setting of the grid, the best one kept.

A setting that diverges is a bad setting; only when all do has the candidate diverged. A setting that runs
out of memory is tried once more with each batch computed in halves. A setting that is clearly behind what
the best one had after the same epoch is given up. Finished settings are part of the checkpoint.
"""

from __future__ import annotations

import gc
import itertools
import logging
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import torch

from training.checkpoint import Checkpoint
from training.memory import is_out_of_memory
from training.score import DivergedError, Scored

log = logging.getLogger("training")

BEHIND = 0.1  # quality by which a setting may be behind the best one at the same epoch


class OutOfMemoryTwiceError(Exception):
    """Memory ran out with half the batch too."""


@dataclass
class Finished:
    """One setting of the search that has ended."""

    setting: dict[str, Any]
    state: str  # done, diverged, behind
    score: float | None = None
    quality: float | None = None
    epochs: int = 0
    reason: str = ""
    curve: list[float] = field(default_factory=list)


class Trainee(Protocol):
    """A candidate as the search sees it: a network, or a scikit-learn pipeline."""

    def fit(self, index: int, setting: dict[str, Any], search: Search) -> Finished:
        """Train one setting and keep the model if it is the best so far."""
        ...


@dataclass
class Search:
    """The settings, what is known of them, and what a checkpoint of the search holds."""

    checkpoint: Checkpoint
    finished: list[Finished] = field(default_factory=list)
    accumulate: int = 1
    best_weights: dict[str, Any] | None = None  # of the best finished setting, networks only
    progress: dict[str, Any] | None = None  # of the setting in training, networks only
    seconds: float = 0.0  # computed by earlier attempts

    @classmethod
    def resume(cls, checkpoint: Checkpoint) -> Search:
        """The search as the checkpoint has it, or a fresh one."""
        saved = checkpoint.load()
        if saved is None:
            return cls(checkpoint)
        log.info(
            "resuming: %d settings are done, %.1f s were computed", len(saved["finished"]), saved["seconds"]
        )
        return cls(
            checkpoint,
            [Finished(**entry) for entry in saved["finished"]],
            saved["accumulate"],
            saved["best_weights"],
            saved["progress"],
            saved["seconds"],
        )

    def save(self, seconds: float, *, now: bool = False) -> None:
        """Write the checkpoint; `seconds` is what this attempt computed."""
        self.checkpoint.save(
            {
                "finished": [asdict(entry) for entry in self.finished],
                "accumulate": self.accumulate,
                "best_weights": self.best_weights,
                "progress": self.progress,
                "seconds": self.seconds + seconds,
            },
            now=now,
        )

    @property
    def best(self) -> Finished | None:
        """The best of the settings that were trained to their end."""
        done = [entry for entry in self.finished if entry.quality is not None]
        return max(done, key=lambda entry: entry.quality or 0.0, default=None)

    def is_best(self, scored: Scored) -> bool:
        """Whether a score beats every finished setting's."""
        best = self.best
        return best is None or scored.quality > (best.quality or 0.0)

    def is_behind(self, curve: list[float]) -> bool:
        """Whether a setting's quality after this epoch is far below the best setting's after the same."""
        best = self.best
        if best is None or not 2 <= len(curve) <= len(best.curve):
            return False
        return max(curve) < max(best.curve[: len(curve)]) - BEHIND

    def run(self, settings: list[dict[str, Any]], trainee: Trainee) -> None:
        """Train every setting that is not finished yet, in order.

        Raises OutOfMemoryTwiceError, and whatever the candidate raises but DivergedError.
        """
        for index in range(len(self.finished), len(settings)):
            self._run_one(index, settings[index], trainee)
            self.progress = None

    def _run_one(self, index: int, setting: dict[str, Any], trainee: Trainee) -> None:
        for _ in range(2):
            try:
                self.finished.append(trainee.fit(index, setting, self))
                return
            except DivergedError as error:
                log.info("setting %s diverged: %s", setting, error)
                self.finished.append(Finished(setting, "diverged", reason=str(error)))
                return
            except Exception as error:
                if not is_out_of_memory(error):
                    raise
                problem = str(error).splitlines()[0] if str(error) else type(error).__name__
            # Out of the handler: its traceback held on to every tensor of the failed attempt.
            gc.collect()
            if torch.cuda.is_initialized():
                torch.cuda.empty_cache()
            if self.accumulate > 1:
                break
            log.info("out of memory (%s): computing each batch in halves", problem)
            self.accumulate, self.progress = 2, None
        raise OutOfMemoryTwiceError(problem)


def settings_of(grid: dict[str, list[Any]]) -> list[dict[str, Any]]:
    """Every combination of the grid, in the order it is written; one empty setting for no grid."""
    return list(_combinations(grid))


def _combinations(grid: dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
    for values in itertools.product(*grid.values()):
        yield dict(zip(grid, values, strict=True))
