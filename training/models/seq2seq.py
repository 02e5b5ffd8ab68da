"""Series from series: a recurrent encoder and decoder, with and without attention.

Sources: sequence to sequence (Sutskever 2014, arXiv 1409.3215), attention over the encoder's steps (Luong
2015, arXiv 1508.04025, the global form with a general score). N series of T steps with D features are
answered with series of at most S steps with E numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from training.models.network import Geometry, Network
from training.models.preprocess import Standardise, moments
from training.models.series import at_steps, lengths_of, open_memory

MOST_STEPS = 32  # of the decoder: longer answers are given several steps at a time (Wang 2017, Tacotron)
TAUGHT = 0.5  # share of batches in which the decoder sees the truth (scheduled sampling, Bengio 2015)
NOISE = 0.1  # deviation of what is added to that truth: at other times it sees its own errors
END_WEIGHT = 0.2  # of knowing where the answer ends, beside its values


class Seq2Seq(nn.Module):
    """Encoder, decoder and head; `chunk` steps of the answer come from one step of the decoder."""

    def __init__(self, features: int, numbers: int, hidden: int, length: int, *, attention: bool) -> None:
        super().__init__()
        self.numbers, self.hidden, self.length = numbers, hidden, length
        self.chunk = math.ceil(length / MOST_STEPS)
        self.encoder = nn.GRU(features, hidden, batch_first=True)
        self.decoder = nn.GRU(self.chunk * numbers, hidden, batch_first=True)
        open_memory(self.encoder)
        open_memory(self.decoder)
        self.query = nn.Linear(hidden, hidden, bias=False) if attention else None
        self.mix = nn.Linear(2 * hidden, hidden) if attention else None
        self.head = nn.Linear(hidden, self.chunk * (numbers + 1))

    def forward(self, x: Tensor, taught: Tensor | None = None) -> Tensor:
        """`(N, T, D)`, NaN where padded → `(N, S, E + 1)`: numbers, then the logit that the answer goes on.

        `taught` `(N, S, E)` is what the decoder sees as its earlier answers; without, it sees its own.
        """
        valid, lengths = lengths_of(x)
        seen, _ = self.encoder(torch.where(valid.unsqueeze(-1), x, torch.zeros_like(x)))
        state = at_steps(seen, (lengths - 1).unsqueeze(1)).transpose(0, 1).contiguous()
        steps = math.ceil(self.length / self.chunk)
        if taught is not None:
            filled = nn.functional.pad(taught, (0, 0, 0, steps * self.chunk - taught.shape[1]))
            earlier = nn.functional.pad(filled.view(x.shape[0], steps, -1)[:, :-1], (0, 0, 1, 0))
            outputs, _ = self.decoder(earlier, state)
            said = self._say(outputs, seen, valid)
        else:
            earlier = x.new_zeros(x.shape[0], 1, self.chunk * self.numbers)
            answers = []
            for _ in range(steps):
                output, state = self.decoder(earlier, state)
                answers.append(self._say(output, seen, valid))
                earlier = answers[-1].unflatten(2, (self.chunk, -1))[..., : self.numbers].flatten(2)
            said = torch.cat(answers, 1)
        return said.unflatten(2, (self.chunk, -1)).flatten(1, 2)[:, : self.length]

    def _say(self, outputs: Tensor, seen: Tensor, valid: Tensor) -> Tensor:
        """`(N, s, hidden)` of the decoder → `(N, s, chunk · (E + 1))`, with a look at what the encoder
        saw."""
        if self.query is not None and self.mix is not None:
            scores = self.query(outputs) @ seen.transpose(1, 2)
            shares = scores.masked_fill(~valid.unsqueeze(1), -1e9).softmax(-1)
            outputs = torch.tanh(self.mix(torch.cat([shares @ seen, outputs], -1)))
        answer: Tensor = self.head(outputs)
        return answer


class Translator(Network):
    """Gives series `(N, S, E)` in the targets' own units, NaN after each one's end."""

    def __init__(self, before: Standardise, body: Seq2Seq, geometry: Geometry) -> None:
        super().__init__(before, body, geometry)
        self.register_buffer("target_mean", torch.zeros(geometry.target_shape[0]))
        self.register_buffer("target_deviation", torch.ones(geometry.target_shape[0]))

    def fit_targets(self, targets: Tensor) -> None:
        """Mean and deviation of each number, over all steps."""
        self.target_mean, self.target_deviation = moments(targets)

    def training_loss(self, x: Tensor, targets: Tensor, forward: Callable[[Tensor], Tensor]) -> Tensor:
        """In some batches the decoder is taught, in the others it goes by its own answers."""
        if torch.rand(()) >= TAUGHT:
            return self.loss(forward(x), targets)
        wanted = self._standard(targets, self.body.length).nan_to_num(0.0)
        taught = wanted + NOISE * torch.randn_like(wanted)
        return self.loss(self.body(self.before(x), taught), targets)

    def loss(self, raw: Tensor, targets: Tensor) -> Tensor:
        """Mean squared error over an answer's own steps, and the entropy of where it ends."""
        wanted = self._standard(targets, raw.shape[1])
        real = ~torch.isnan(wanted).any(-1)
        error = (raw[..., :-1] - wanted.nan_to_num(0.0)).square().mean(-1) * real
        end = nn.functional.binary_cross_entropy_with_logits(raw[..., -1], real.float(), reduction="none")
        return (error.sum(1) / real.sum(1).clamp(min=1)).sum() + END_WEIGHT * end.mean(1).sum()

    def forward(self, x: Tensor) -> Tensor:
        """`(N, S, E)`; the first step is always there."""
        raw = self.raw(x)
        going = torch.cat([torch.ones_like(raw[:, :1, -1]), (raw[:, 1:, -1] > 0).to(raw.dtype)], 1)
        ended = going.cumprod(1) < 0.5
        answers = raw[..., :-1] * self.target_deviation + self.target_mean
        return answers.masked_fill(ended.unsqueeze(-1), float("nan"))

    def _standard(self, targets: Tensor, length: int) -> Tensor:
        """Standardised and padded to `length` steps."""
        beyond = length - targets.shape[1]
        padded = nn.functional.pad(targets, (0, 0, 0, beyond), value=float("nan"))
        return (padded - self.target_mean) / self.target_deviation


def _builder(attention: bool) -> Callable[[Geometry, int], Translator]:
    def build(geometry: Geometry, hidden: int) -> Translator:
        features, numbers = geometry.shape[0], geometry.target_shape[0]
        body = Seq2Seq(features, numbers, hidden, geometry.target_length, attention=attention)
        return Translator(Standardise(features), body, geometry)

    return build


BUILDERS: dict[str, Callable[[Geometry, int], Translator]] = {
    "seq2seq": _builder(attention=False),
    "seq2seq-attention": _builder(attention=True),
}
