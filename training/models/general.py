"""Objects of any shape, as the bits of their bytes: a recurrent network and an auto-encoder.

The last rows of the paper's table: what no other row takes is a string of bytes. Input `(N, T, 1)`, bytes 0
to 255, NaN after the end. Bits are read in pieces of several bytes, a multiple of 4, so that a float32 stays
whole and a long object has few pieces.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from training.models.network import Geometry, Network
from training.models.preprocess import Unchanged
from training.models.series import Recurrent

MOST_STEPS = 128  # of the recurrent network
MOST_PIECES = 64  # of the auto-encoder
WIDTH, CODE = 64, 128  # units per piece, and of the code of the whole object
BITS_WEIGHT = 0.1  # of the entropy of single bits, beside the error of whole bytes


class Bits(nn.Module):
    """`(N, T, 1)` bytes → `(N, S, 8 · size)` bits as -1 and 1, 0 after the end; with `keep_end`, NaN in
    pieces that begin after it. The lowest bit of a byte comes first."""

    def __init__(self, size: int, *, keep_end: bool) -> None:
        super().__init__()
        self.size, self.keep_end = size, keep_end
        self.register_buffer("powers", 2.0 ** torch.arange(8))

    def forward(self, x: Tensor) -> Tensor:
        """Cut into pieces and bits."""
        x = nn.functional.pad(x.squeeze(2), (0, -x.shape[1] % self.size), value=float("nan"))
        pieces = x.unflatten(1, (-1, self.size))
        there = ~torch.isnan(pieces)
        values = torch.where(there, pieces, torch.zeros_like(pieces))
        bits = torch.floor(values.unsqueeze(-1) / self.powers) % 2 * 2 - 1
        bits = (bits * there.unsqueeze(-1)).flatten(2)
        return bits.masked_fill(~there[..., :1], float("nan")) if self.keep_end else bits


class ByteRecovery(Network):
    """Gives `(N, S)` bytes as numbers; where objects recover themselves, NaN after the end of the input.

    A byte is answered with the number that is expected of its bits' probabilities.
    """

    def __init__(self, before: Unchanged, body: nn.Module, geometry: Geometry) -> None:
        super().__init__(before, body, geometry)
        self.register_buffer("powers", 2.0 ** torch.arange(8))
        self.register_buffer("variance", torch.ones(()))

    def fit_targets(self, targets: Tensor) -> None:
        """The variance of the bytes: the error of always answering the same."""
        self.variance = (targets[~torch.isnan(targets)] / 255.0).var(correction=0).clamp(min=1e-6)

    def loss(self, raw: Tensor, targets: Tensor) -> Tensor:
        """Squared error of the bytes over their variance, and the entropy of the bits: mean over an
        object."""
        targets = targets.squeeze(2)
        there = ~torch.isnan(targets)
        wanted = torch.where(there, targets, torch.zeros_like(targets))
        logits = raw[:, : targets.shape[1]]
        bits = torch.floor(wanted.unsqueeze(-1) / self.powers) % 2
        entropy = nn.functional.binary_cross_entropy_with_logits(logits, bits, reduction="none").mean(-1)
        error = (self._expected(logits) - wanted).div(255.0).square() / self.variance
        each = (error + BITS_WEIGHT * entropy) * there
        return (each.sum(1) / there.sum(1).clamp(min=1)).sum()

    def forward(self, x: Tensor) -> Tensor:
        """`(N, S)` bytes from 0 to 255."""
        answer = self._expected(self.raw(x))
        if not self.geometry.recovers_itself:
            return answer
        rows = x[:, : answer.shape[1], 0]
        ended = nn.functional.pad(torch.isnan(rows), (0, answer.shape[1] - rows.shape[1]), value=True)
        return answer.masked_fill(ended, float("nan"))

    def _expected(self, logits: Tensor) -> Tensor:
        return (torch.sigmoid(logits) * self.powers).sum(-1)


class BitAutoEncoder(nn.Module):
    """Each piece to few units by shared weights, all pieces to a code, and back the same way."""

    def __init__(self, length: int, target_length: int) -> None:
        super().__init__()
        self.target_length = target_length
        size, self.target_size = piece_size(length, MOST_PIECES), piece_size(target_length, MOST_PIECES)
        self.length, pieces = length, math.ceil(length / size)
        self.target_pieces = math.ceil(target_length / self.target_size)
        self.encoder = nn.Sequential(
            Bits(size, keep_end=False), nn.Linear(8 * size, WIDTH), nn.ReLU(), nn.Flatten(),
            nn.Linear(WIDTH * pieces, CODE), nn.ReLU(),
        )  # fmt: skip
        self.decoder = nn.Sequential(
            nn.Linear(CODE, WIDTH * self.target_pieces), nn.ReLU(),
            nn.Unflatten(1, (self.target_pieces, WIDTH)), nn.Linear(WIDTH, 8 * self.target_size),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """`(N, T, 1)` bytes → `(N, S, 8)` logits of the answer's bits."""
        x = nn.functional.pad(x, (0, 0, 0, self.length - x.shape[1]), value=float("nan"))
        return self.decoder(self.encoder(x)).unflatten(2, (-1, 8)).flatten(1, 2)[:, : self.target_length]


def piece_size(length: int, most: int) -> int:
    """Bytes per piece, a multiple of 4, such that `length` bytes make at most `most` pieces."""
    return 4 * math.ceil(length / (4 * most))


def bit_rnn(geometry: Geometry, hidden: int) -> nn.Module:
    """A GRU over pieces of bits."""
    size = piece_size(geometry.max_length, MOST_STEPS)
    return nn.Sequential(Bits(size, keep_end=True), Recurrent(nn.GRU, 8 * size, hidden, geometry.outputs))


def bit_auto_encoder(geometry: Geometry) -> ByteRecovery:
    """Bytes through a code of `CODE` units."""
    body = BitAutoEncoder(geometry.max_length, geometry.target_length)
    return ByteRecovery(Unchanged(), body, geometry)
