"""Time-series classifiers: one recurrent layer per direction, read at the last step and on average."""

from __future__ import annotations

from collections.abc import Callable

from easeml_core.catalog.facts import ModelFacts, Size
from easeml_core.catalog.space import Choice, Space

TEMPLATE = "series-classification"
HIDDEN = 64

# Few series make few steps an epoch, and a recurrent layer is at chance for long before it learns.
_SEARCH = Space(learning_rate=Choice(0.003, 0.01))

_REASON = "order of Greff et al. 2017 and Chung et al. 2014: gates help, GRU and LSTM are near; level assumed"


def _weights(gates: int, directions: int = 1) -> Callable[[Size], float]:
    def weights(size: Size) -> float:
        layer = gates * HIDDEN * (size.values + HIDDEN + 2.0)
        return directions * layer + (2.0 * HIDDEN * directions + 1) * size.outputs

    return weights


def _forward(gates: int, directions: int = 1) -> Callable[[Size], float]:
    def forward(size: Size) -> float:
        step = 2.0 * gates * HIDDEN * (size.values + HIDDEN)
        return directions * (step * size.mean_length + 4.0 * HIDDEN * size.outputs)

    return forward


SERIES_MODELS = (
    ModelFacts(
        name="RNN",
        framework="torch",
        family="recurrent",
        year=1990,
        citations=17_000,
        depth=2,
        expected={TEMPLATE: 0.60},
        reason=_REASON,
        description="Elman's recurrent network: cheap, forgets over long series",
        forward=_forward(1),
        weights=_weights(1),
        search=_SEARCH,
        epochs=60,
        batch_size=16,
        patience=20,
    ),
    ModelFacts(
        name="LSTM",
        framework="torch",
        family="recurrent",
        year=1997,
        citations=120_000,
        depth=2,
        expected={TEMPLATE: 0.68},
        reason=_REASON,
        description="long short-term memory: gates that keep what matters",
        forward=_forward(4),
        weights=_weights(4),
        search=_SEARCH,
        epochs=60,
        batch_size=16,
        patience=20,
    ),
    ModelFacts(
        name="bi-LSTM",
        framework="torch",
        family="recurrent",
        year=2005,
        citations=8_000,
        depth=2,
        expected={TEMPLATE: 0.70},
        reason=f"{_REASON}; both directions help where the whole series is known (Graves 2005)",
        description="an LSTM forwards and one backwards",
        forward=_forward(4, 2),
        weights=_weights(4, 2),
        search=_SEARCH,
        epochs=60,
        batch_size=16,
        patience=20,
    ),
    ModelFacts(
        name="GRU",
        framework="torch",
        family="recurrent",
        year=2014,
        citations=35_000,
        depth=2,
        expected={TEMPLATE: 0.69},
        reason=_REASON,
        description="gated recurrent unit: the LSTM with one gate less",
        forward=_forward(3),
        weights=_weights(3),
        search=_SEARCH,
        epochs=60,
        batch_size=16,
        patience=20,
    ),
)
