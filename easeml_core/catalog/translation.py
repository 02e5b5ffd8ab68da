"""Networks from series to series: a recurrent encoder and decoder. Answers count as long as inputs."""

from __future__ import annotations

import math
from collections.abc import Callable

from easeml_core.catalog.facts import ModelFacts, Size
from easeml_core.catalog.series import HIDDEN, SEARCH

TEMPLATE = "series-translation"
MOST_STEPS = 32  # of the decoder


def _chunk(size: Size) -> int:
    return math.ceil(size.mean_length / MOST_STEPS)


def _weights(attention: float) -> Callable[[Size], float]:
    def weights(size: Size) -> float:
        encoder = 3 * HIDDEN * (size.values + HIDDEN + 2.0)
        decoder = 3 * HIDDEN * (_chunk(size) * size.outputs + HIDDEN + 2.0)
        head = (HIDDEN + 1.0) * _chunk(size) * (size.outputs + 1)
        return encoder + decoder + head + attention * (3 * HIDDEN**2 + HIDDEN)

    return weights


def _forward(attention: float) -> Callable[[Size], float]:
    def forward(size: Size) -> float:
        steps = min(size.mean_length, MOST_STEPS)
        encoder = 6.0 * HIDDEN * (size.values + HIDDEN) * size.mean_length
        decoder = 6.0 * HIDDEN * (2 * size.outputs + HIDDEN) * steps
        look = attention * (6.0 * HIDDEN**2 + 4.0 * HIDDEN * size.mean_length) * steps
        return encoder + decoder + look

    return forward


TRANSLATION_MODELS = (
    ModelFacts(
        name="seq2seq",
        framework="torch",
        family="recurrent",
        year=2014,
        citations=25_000,
        depth=3,
        expected={TEMPLATE: 0.66},
        reason="order of Luong et al. 2015; level assumed, that of an r2 of about 0.5",
        description="a recurrent encoder, whose last state a decoder unfolds",
        forward=_forward(0),
        weights=_weights(0),
        search=SEARCH,
        epochs=60,
        batch_size=32,
        patience=20,
    ),
    ModelFacts(
        name="seq2seq-attention",
        framework="torch",
        family="recurrent",
        year=2015,
        citations=10_000,
        depth=5,
        expected={TEMPLATE: 0.69},
        reason="order of Luong et al. 2015; level assumed, that of an r2 of about 0.55",
        description="the same, with a look at every step of the input",
        forward=_forward(1),
        weights=_weights(1),
        search=SEARCH,
        epochs=60,
        batch_size=32,
        patience=20,
    ),
)
