"""Time-series classifiers: RNN, LSTM, bi-LSTM and GRU over series of any length.

Input `(N, T, D)`; a step with a NaN is padding, and padding only ever follows the series. The answer is
read at each series' own last step, so padding changes nothing. The second direction of a bi-LSTM is an
LSTM over the series reversed within its own length, which torch.export can follow; packed sequences it
cannot.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


class Recurrent(nn.Module):
    """One recurrent layer per direction, the mean and last of its outputs, dropout and a dense layer."""

    def __init__(
        self, layer: Callable[..., nn.RNNBase], features: int, hidden: int, outputs: int, directions: int = 1
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layer(features, hidden, batch_first=True) for _ in range(directions))
        for recurrent in self.layers:
            _open_memory(recurrent)
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(2 * hidden * directions, outputs))

    def forward(self, x: Tensor) -> Tensor:
        """`(N, T, D)`, NaN where padded → `(N, K)`."""
        valid = ~torch.isnan(x).any(-1)  # (N, T)
        lengths = valid.sum(1).clamp(min=1)
        x = torch.where(valid.unsqueeze(-1), x, torch.zeros_like(x))
        steps = torch.arange(x.shape[1], device=x.device).unsqueeze(0)
        last = (lengths - 1).unsqueeze(1)
        backwards = torch.where(steps <= last, last - steps, steps)
        read = []
        for direction, layer in enumerate(self.layers):
            ordered = x if direction == 0 else _take(x, backwards)
            outputs, _ = layer(ordered)
            outputs = outputs * valid.unsqueeze(-1)
            read.append(_take(outputs, last).squeeze(1))
            read.append(outputs.sum(1) / lengths.unsqueeze(1))
        return self.head(torch.cat(read, 1))


@torch.no_grad()
def _open_memory(layer: nn.Module) -> None:
    """Start with open gates, so that what the first steps say reaches the last (Jozefowicz et al. 2015).

    That is the forget gate of an LSTM and the update gate of a GRU, both the second block of the biases.
    """
    if isinstance(layer, nn.LSTM | nn.GRU):
        layer.bias_ih_l0[layer.hidden_size : 2 * layer.hidden_size] = 1.0


def _take(x: Tensor, steps: Tensor) -> Tensor:
    """`x[n, steps[n, s]]` for all n, s: `(N, T, D)` and `(N, S)` → `(N, S, D)`."""
    return x.gather(1, steps.unsqueeze(-1).expand(-1, -1, x.shape[2]))


Builder = Callable[[int, int, int], nn.Module]

BUILDERS: dict[str, Builder] = {
    "RNN": lambda features, hidden, outputs: Recurrent(nn.RNN, features, hidden, outputs),
    "LSTM": lambda features, hidden, outputs: Recurrent(nn.LSTM, features, hidden, outputs),
    "bi-LSTM": lambda features, hidden, outputs: Recurrent(nn.LSTM, features, hidden, outputs, 2),
    "GRU": lambda features, hidden, outputs: Recurrent(nn.GRU, features, hidden, outputs),
}
