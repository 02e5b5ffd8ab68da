"""Series of any length → classes or numbers: RNN, LSTM, bi-LSTM, GRU, and a convolutional network.

Input `(N, T, D)`; a step with a NaN is padding, and padding only ever follows the series. Padding changes
nothing: recurrent layers are read at each series' own last step and on average, convolutions see zeros after
the end. The second direction of a bi-LSTM is an LSTM over the series reversed within its own length, which
torch.export can follow; packed sequences it cannot.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

WIDTHS = (64, 128, 64)  # of the convolutional network; half of Wang's, as odd kernels
KERNELS = (7, 5, 3)


class Recurrent(nn.Module):
    """One recurrent layer per direction, the mean and last of its outputs, dropout and a dense layer."""

    def __init__(
        self, layer: Callable[..., nn.RNNBase], features: int, hidden: int, outputs: int, directions: int = 1
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layer(features, hidden, batch_first=True) for _ in range(directions))
        for recurrent in self.layers:
            open_memory(recurrent)
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(2 * hidden * directions, outputs))

    def forward(self, x: Tensor) -> Tensor:
        """`(N, T, D)`, NaN where padded → `(N, K)`."""
        valid, lengths = lengths_of(x)
        x = torch.where(valid.unsqueeze(-1), x, torch.zeros_like(x))
        steps = torch.arange(x.shape[1], device=x.device).unsqueeze(0)
        last = (lengths - 1).unsqueeze(1)
        backwards = torch.where(steps <= last, last - steps, steps)
        read = []
        for direction, layer in enumerate(self.layers):
            ordered = x if direction == 0 else at_steps(x, backwards)
            outputs, _ = layer(ordered)
            outputs = outputs * valid.unsqueeze(-1)
            read.append(at_steps(outputs, last).squeeze(1))
            read.append(outputs.sum(1) / lengths.unsqueeze(1))
        return self.head(torch.cat(read, 1))


class Convolutional(nn.Module):
    """Three convolutions with batch normalisation, then the mean and the largest value over time.

    The fully convolutional network of Wang, Yan and Oates 2017 (arXiv 1611.06455), which takes the mean only.
    """

    def __init__(self, features: int, outputs: int) -> None:
        super().__init__()
        sizes = zip((features, *WIDTHS), WIDTHS, KERNELS, strict=False)
        self.layers = nn.ModuleList(
            nn.Conv1d(before, after, kernel, padding="same", bias=False) for before, after, kernel in sizes
        )
        self.norms = nn.ModuleList(nn.BatchNorm1d(width) for width in WIDTHS)
        self.head = nn.Linear(2 * WIDTHS[-1], outputs)

    def forward(self, x: Tensor) -> Tensor:
        """`(N, T, D)`, NaN where padded → `(N, K)`."""
        valid, lengths = lengths_of(x)
        x = torch.where(valid.unsqueeze(-1), x, torch.zeros_like(x)).transpose(1, 2)
        there = valid.unsqueeze(1)
        for layer, norm in zip(self.layers, self.norms, strict=True):
            x = layer(x)
            if self.training:  # statistics of the steps that there are
                normalised = norm(x.transpose(1, 2)[valid])
                x = torch.zeros_like(x).transpose(1, 2).masked_scatter(valid.unsqueeze(-1), normalised)
                x = x.transpose(1, 2)
            else:
                x = norm(x)
            x = nn.functional.relu(x) * there
        largest = x.amax(2)  # of values that are not negative: zeros after the end do not count
        return self.head(torch.cat([x.sum(2) / lengths.unsqueeze(1), largest], 1))


def lengths_of(x: Tensor) -> tuple[Tensor, Tensor]:
    """Which steps of `(N, T, D)` are there, `(N, T)`, and how many `(N,)`, at least 1."""
    valid = ~torch.isnan(x).any(-1)
    return valid, valid.sum(1).clamp(min=1)


def at_steps(x: Tensor, steps: Tensor) -> Tensor:
    """`x[n, steps[n, s]]` for all n, s: `(N, T, D)` and `(N, S)` → `(N, S, D)`."""
    return x.gather(1, steps.unsqueeze(-1).expand(-1, -1, x.shape[2]))


@torch.no_grad()
def open_memory(layer: nn.Module) -> None:
    """Start with open gates, so that what the first steps say reaches the last (Jozefowicz et al. 2015).

    That is the forget gate of an LSTM and the update gate of a GRU, both the second block of the biases.
    """
    if isinstance(layer, nn.LSTM | nn.GRU):
        layer.bias_ih_l0[layer.hidden_size : 2 * layer.hidden_size] = 1.0


Builder = Callable[[int, int, int], nn.Module]

BUILDERS: dict[str, Builder] = {
    "RNN": lambda features, hidden, outputs: Recurrent(nn.RNN, features, hidden, outputs),
    "LSTM": lambda features, hidden, outputs: Recurrent(nn.LSTM, features, hidden, outputs),
    "bi-LSTM": lambda features, hidden, outputs: Recurrent(nn.LSTM, features, hidden, outputs, 2),
    "GRU": lambda features, hidden, outputs: Recurrent(nn.GRU, features, hidden, outputs),
    "CNN-1D": lambda features, hidden, outputs: Convolutional(features, outputs),
}
