"""Trees → classes: the Tree-LSTM with the sum of its children, and with a place for each child.

Source: Tai, Socher and Manning 2015 (arXiv 1503.00075), equations 2-8 (child-sum) and 9-14 (N-ary). Input
`(N, M, A + R)`: the features of a node, then the rows of its R children in their tree, -1 for none; the root
is row 0, and rows of NaN follow the last node.

A node's state needs those of its children. Networks in training go from the leaves up, all nodes of one
height together. torch.export can follow no such order, which the data decide; there all nodes are computed
together, as often as the highest tree of the data version has levels, and what is not right yet is computed
again. In a tree that is still higher, nodes so far below the root do not reach it.
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
        climb = self._all_together if torch.compiler.is_exporting() else self._by_height
        state = climb(gates, forget, below, there)
        return self.head(torch.cat([state[:, 0], state.sum(1) / lengths.unsqueeze(1)], 1))

    def _all_together(self, gates: Tensor, forget: Tensor, below: Tensor, there: Tensor) -> Tensor:
        state = memory = torch.zeros_like(forget)
        for _ in range(self.levels):
            state, memory = self._step(gates, forget, of_children(state, below), of_children(memory, below))
            state, memory = state * there, memory * there
        return state

    def _by_height(self, gates: Tensor, forget: Tensor, below: Tensor, there: Tensor) -> Tensor:
        heights = heights_of(below).masked_fill(~there.squeeze(-1), -1)
        highest = int(heights.max())
        if highest >= self.levels:  # as the exported network will see it
            return self._all_together(gates, forget, below, there)
        rows, places = heights.shape
        none = rows * places
        first = torch.arange(rows, device=below.device).view(-1, 1, 1) * places
        children = torch.where(below < places, below + first, none).flatten(0, 1)
        gates, forget, heights = gates.flatten(0, 1), forget.flatten(0, 1), heights.flatten()
        state = memory = forget.new_zeros(none + 1, forget.shape[1])  # the last is of no child
        for height in range(highest + 1):
            nodes = (heights == height).nonzero().squeeze(1)
            inner = children[nodes]
            found = self._step(gates[nodes], forget[nodes], state[inner], memory[inner])
            state, memory = state.index_copy(0, nodes, found[0]), memory.index_copy(0, nodes, found[1])
        return state[:-1].unflatten(0, (rows, places))

    def _step(self, gates: Tensor, forget: Tensor, states: Tensor, memories: Tensor) -> tuple[Tensor, Tensor]:
        """States and memories `(…, hidden)` of nodes from those of their children `(…, R, hidden)`."""
        if self.places:
            inner = states.flatten(-2)
            kept = self.forget(inner).unflatten(-1, (self.count, -1))
        else:
            inner = states.sum(-2)
            kept = self.forget(states)
        entering, leaving, update = (gates + self.gates(inner)).chunk(3, -1)
        kept = torch.sigmoid(forget.unsqueeze(-2) + kept)
        memory = torch.sigmoid(entering) * torch.tanh(update) + (kept * memories).sum(-2)
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


def heights_of(below: Tensor) -> Tensor:
    """Levels below each node of `(N, M, R)` child rows, M for none: `(N, M)`, 0 for a leaf."""
    heights = torch.zeros_like(below[..., 0])
    while True:
        inner = nn.functional.pad(heights, (0, 1), value=-1).gather(1, below.flatten(1)).view_as(below)
        higher = inner.amax(2) + 1
        if torch.equal(higher, heights):
            return heights
        heights = higher


Builder = Callable[[int, int, int, int, int], nn.Module]

BUILDERS: dict[str, Builder] = {
    "Tree-LSTM": lambda features, children, hidden, outputs, levels: TreeLSTM(
        features, children, hidden, outputs, levels, places=False
    ),
    "Tree-LSTM-binary": lambda features, children, hidden, outputs, levels: TreeLSTM(
        features, children, hidden, outputs, levels, places=True
    ),
}
