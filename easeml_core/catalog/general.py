"""The last rows: any object at all, as the bits of its bytes. `mean_length` is in bytes."""

from __future__ import annotations

import math

from easeml_core.catalog.facts import ADAMW_BAND, ModelFacts, Size
from easeml_core.catalog.series import HIDDEN, SEARCH

CLASSIFICATION, RECOVERY = "general-classification", "general-autoencoder"
MOST_STEPS, MOST_PIECES = 128, 64
WIDTH, CODE = 64, 128

_REASON = "nothing is known of the data but its bits; level assumed"


def _bytes_per_piece(size: Size, most: int) -> int:
    return 4 * math.ceil(size.mean_length / (4 * most))


def _rnn_weights(size: Size) -> float:
    each = _bytes_per_piece(size, MOST_STEPS)
    return 3 * HIDDEN * (8.0 * each + HIDDEN + 2) + (2.0 * HIDDEN + 1) * size.outputs


def _rnn_forward(size: Size) -> float:
    steps = min(size.mean_length / 4, MOST_STEPS)
    return 48.0 * HIDDEN * size.mean_length + 6.0 * HIDDEN**2 * steps + 4.0 * HIDDEN * size.outputs


def _encoder_weights(size: Size) -> float:
    """Where pieces have just become longer there are fewer of them, down to half: this is the upper bound."""
    each = _bytes_per_piece(size, MOST_PIECES)
    pieces = min(math.ceil(size.mean_length / 4), MOST_PIECES)
    return 16.0 * each * WIDTH + 2.0 * WIDTH * pieces * CODE + WIDTH + CODE + WIDTH * pieces + 8 * each


def _encoder_forward(size: Size) -> float:
    pieces = min(size.mean_length / 4, MOST_PIECES)
    return 32.0 * WIDTH * size.mean_length + 4.0 * WIDTH * CODE * pieces


GENERAL_MODELS = (
    ModelFacts(
        name="bit-level-RNN",
        framework="torch",
        family="recurrent",
        year=2014,
        citations=35_000,
        depth=3,
        expected={CLASSIFICATION: 0.50},
        reason=_REASON,
        description="a GRU over the bits of an object's bytes",
        forward=_rnn_forward,
        weights=_rnn_weights,
        search=SEARCH,
        epochs=30,
        batch_size=32,
        patience=10,
    ),
    ModelFacts(
        name="bit-level-auto-encoder",
        framework="torch",
        family="dense",
        year=2006,
        citations=20_000,
        depth=4,
        expected={RECOVERY: 0.36},
        reason=_REASON,
        description="an object's bits through a code of 128 units and back",
        search=ADAMW_BAND,
        forward=_encoder_forward,
        weights=_encoder_weights,
        epochs=60,
        batch_size=32,
        patience=15,
    ),
)
