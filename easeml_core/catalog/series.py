"""Models of series, for classes and for numbers: recurrent layers, convolutions, random convolutions.

Expected qualities of regressors are in the unit of the quality of a mean squared error: 0.7 is an r2 of 0.57.
"""

from __future__ import annotations

from collections.abc import Callable

from easeml_core.catalog.facts import ADAMW_BAND, ModelFacts, Size
from easeml_core.catalog.space import Choice, Space

CLASSIFICATION, REGRESSION = "series-classification", "series-regression"
HIDDEN = 64

# Few series make few steps an epoch, and a recurrent layer is at chance for long before it learns.
SEARCH = Space(learning_rate=Choice(0.003, 0.01))

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


def _steps(each: float) -> Callable[[Size], float]:
    """A layer starts anew at every step, in torch as one operation or as several: `each` was measured."""
    return lambda size: each * size.mean_length


WIDTHS, KERNEL_SIZES = (64, 128, 64), (7, 5, 3)
RANDOM_KERNELS, KERNEL_SIZE = 1000, 9.0


def _convolution_weights(size: Size) -> float:
    pairs = zip((size.values, *WIDTHS), WIDTHS, KERNEL_SIZES, strict=False)
    layers = sum(kernel * before * after for before, after, kernel in pairs)
    return layers + 2.0 * sum(WIDTHS) + (2 * WIDTHS[-1] + 1) * size.outputs


def _convolution_forward(size: Size) -> float:
    return 2.0 * _convolution_weights(size) * size.mean_length


def _rocket_weights(size: Size) -> float:
    return (2.0 * RANDOM_KERNELS + 2 * size.values + 1) * size.outputs


def _rocket_forward(size: Size) -> float:
    kernels = 2 * KERNEL_SIZE * RANDOM_KERNELS * size.values * size.mean_length
    return kernels + 2.0 * _rocket_weights(size)


def _rocket_fit(size: Size) -> float:
    """Features once, and some hundred steps of a logistic regression on them."""
    return size.n_train * (_rocket_forward(size) + 400.0 * _rocket_weights(size)) + 1e6


SERIES_MODELS = (
    ModelFacts(
        name="RNN",
        framework="torch",
        family="recurrent",
        year=1990,
        citations=17_000,
        depth=2,
        expected={CLASSIFICATION: 0.60, REGRESSION: 0.62},
        reason=_REASON,
        description="Elman's recurrent network: cheap, forgets over long series",
        forward=_forward(1),
        calls=_steps(0.9),
        weights=_weights(1),
        search=SEARCH,
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
        expected={CLASSIFICATION: 0.68, REGRESSION: 0.66},
        reason=_REASON,
        description="long short-term memory: gates that keep what matters",
        forward=_forward(4),
        calls=_steps(0.7),
        weights=_weights(4),
        search=SEARCH,
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
        expected={CLASSIFICATION: 0.70, REGRESSION: 0.67},
        reason=f"{_REASON}; both directions help where the whole series is known (Graves 2005)",
        description="an LSTM forwards and one backwards",
        forward=_forward(4, 2),
        calls=_steps(1.3),
        weights=_weights(4, 2),
        search=SEARCH,
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
        expected={CLASSIFICATION: 0.69, REGRESSION: 0.67},
        reason=_REASON,
        description="gated recurrent unit: the LSTM with one gate less",
        forward=_forward(3),
        calls=_steps(2.1),
        weights=_weights(3),
        search=SEARCH,
        epochs=60,
        batch_size=16,
        patience=20,
    ),
    ModelFacts(
        name="CNN-1D",
        framework="torch",
        family="convolutional",
        year=2017,
        citations=3_000,
        depth=4,
        expected={CLASSIFICATION: 0.74, REGRESSION: 0.69},
        reason="above recurrent networks on the UCR archive (Wang et al. 2017); level assumed",
        description="three convolutions over time: finds shapes wherever they are",
        search=ADAMW_BAND,
        forward=_convolution_forward,
        weights=_convolution_weights,
        epochs=60,
        batch_size=16,
        patience=20,
    ),
    ModelFacts(
        name="ROCKET",
        framework="torch",
        family="linear",
        year=2020,
        citations=1_000,
        depth=2,
        expected={CLASSIFICATION: 0.80, REGRESSION: 0.72},
        reason="best of the comparisons of Ruiz et al. 2021 and, for numbers, Tan et al. 2021; level assumed",
        description="a linear model on a thousand random convolutions: fast and hard to beat",
        forward=_rocket_forward,
        weights=_rocket_weights,
        search=Space(C=Choice(0.001, 0.1)),
        fit=_rocket_fit,
    ),
)
