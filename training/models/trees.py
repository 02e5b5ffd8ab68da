"""Trees → classes: the Tree-LSTM with the sum of its children, and with a place for each child.

Source: Tai, Socher and Manning 2015 (arXiv 1503.00075), equations 2-8 (child-sum) and 9-14 (N-ary). Input
`(N, M, A + R)`: the features of a node, then the rows of its R children in their tree, -1 for none; the root
is row 0, and rows of NaN follow the last node.

A node's state is right once those of its children are. All nodes are therefore computed together, as often
as the highest tree of the data version has levels; what is not right yet is computed again. That makes a
graph of fixed length, which torch.export can follow. In a tree that is still higher, nodes so far below the
root do not reach it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from training.models.series import lengths_of

MOST_LEVELS = 64  # of the unrolled graph


class TreeLSTM(nn.Module):
    """States of all nodes from the leaves up; the root's and the mean over all nodes are read.

    With `places`, each child has weights of its own, else children are summed.
    """

    def __init__(
        self, features: int, children: int, hidden: int, outputs: int, levels: int, *, places: bool
    ) -> None:
        super().__init__()
        self.features, self.levels, self.places = features, min(levels, MOST_LEVELS), places
        self.count = children
        self.node = nn.Linear(
            features, 4 * hidden
        )  # input, output, update and forget gates of the node itself
        inner = children * hidden if places else hidden
        self.gates = nn.Linear(inner, 3 * hidden, bias=False)
        self.forget = nn.Linear(inner, (children if places else 1) * hidden, bias=False)
        nn.init.constant_(self.node.bias[3 * hidden :], 1.0)  # remembers at first, as `series.open_memory`
        self.head = nn.Sequential(nn.Dropout(0.2), nn.Linear(2 * hidden, outputs))

    def forward(self, x: Tensor) -> Tensor:
        """`(N, M, A + R)`, NaN where padded → `(N, K)`."""
        valid, lengths = lengths_of(x)
        there = valid.unsqueeze(-1)
        x = torch.where(there, x, torch.zeros_like(x))
        below = child_rows(x[..., self.features :], valid)
        own = self.node(x[..., : self.features])
        gates, forget = own.split([3 * own.shape[-1] // 4, own.shape[-1] // 4], -1)
        state = memory = torch.zeros_like(forget)
        for _ in range(self.levels):
            state, memory = self._step(gates, forget, of_children(state, below), of_children(memory, below))
            state, memory = state * there, memory * there
        return self.head(torch.cat([state[:, 0], state.sum(1) / lengths.unsqueeze(1)], 1))

    def _step(self, gates: Tensor, forget: Tensor, states: Tensor, memories: Tensor) -> tuple[Tensor, Tensor]:
        """States and memories `(N, M, hidden)` of all nodes from those of their children `(N, M, R,
        hidden)`."""
        if self.places:
            inner = states.flatten(2)
            kept = self.forget(inner).unflatten(2, (self.count, -1))
        else:
            inner = states.sum(2)
            kept = self.forget(states)
        entering, leaving, update = (gates + self.gates(inner)).chunk(3, -1)
        kept = torch.sigmoid(forget.unsqueeze(2) + kept)
        memory = torch.sigmoid(entering) * torch.tanh(update) + (kept * memories).sum(2)
        return torch.sigmoid(leaving) * torch.tanh(memory), memory


def child_rows(children: Tensor, valid: Tensor) -> Tensor:
    """`(N, M, R)` as floats → whole numbers from 0 to M, where M stands for no child or one that is cut
    off."""
    rows = children.long()
    none = (children < 0) | ~valid.unsqueeze(-1) | (rows >= valid.shape[1])
    return torch.where(none, torch.full_like(rows, valid.shape[1]), rows)


def of_children(values: Tensor, below: Tensor) -> Tensor:
    """`values` `(N, M, H)` of each node's children `(N, M, R)` → `(N, M, R, H)`, zeros for none."""
    with_none = nn.functional.pad(values, (0, 0, 0, 1))
    flat = below.flatten(1).unsqueeze(-1).expand(-1, -1, values.shape[2])
    return with_none.gather(1, flat).unflatten(1, below.shape[1:])


Builder = Callable[[int, int, int, int, int], nn.Module]

BUILDERS: dict[str, Builder] = {
    "Tree-LSTM": lambda features, children, hidden, outputs, levels: TreeLSTM(
        features, children, hidden, outputs, levels, places=False
    ),
    "Tree-LSTM-binary": lambda features, children, hidden, outputs, levels: TreeLSTM(
        features, children, hidden, outputs, levels, places=True
    ),
}
