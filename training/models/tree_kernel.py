"""The feature map of a subtree kernel: how often each small subtree occurs in a tree, hashed.

The kernel of two trees is the sum, over all subtrees cut off 0 to 3 levels below their root, of the product
of their numbers in both, over the root of what each tree has with itself: the subtree kernel of Weisfeiler
and Lehman (Shervashidze 2011, JMLR 12, section 3.2) for ordered children. Numbers are kept by the hash of a
subtree (Shi 2009, hash kernels), so that the map is explicit and a linear SVM on it is the SVM with that
kernel.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from training.models.series import lengths_of
from training.models.trees import child_rows

BUCKETS = 8192
DEPTHS = 4
STEP = 0.5  # deviations: features of a node that differ by less may count as the same

_MULTIPLIER = 6364136223846793005  # of Knuth's MMIX generator
_SHIFT = 29


class SubtreeKernel(nn.Module):
    """Fixed features, and a linear head that is fitted to them in one go."""

    def __init__(self, features: int, children: int, outputs: int) -> None:
        super().__init__()
        self.columns = features
        self.register_buffer("of_features", _odd(features))
        self.register_buffer("of_places", _odd(children))
        self.head = nn.Linear(BUCKETS, outputs)

    def features(self, x: Tensor) -> Tensor:
        """`(N, M, A + R)`, NaN where padded → `(N, BUCKETS)` of length 1."""
        valid, _ = lengths_of(x)
        x = torch.where(valid.unsqueeze(-1), x, torch.zeros_like(x))
        below = child_rows(x[..., self.columns :], valid)
        labels = (x[..., : self.columns] / STEP).round().long()
        node = _mixed((labels * self.of_features).sum(-1))
        subtree, counts = (
            node,
            x.new_zeros(x.shape[0], BUCKETS),
        )  # len() would fix the size of an exported batch
        for depth in range(DEPTHS):
            bucket = _mixed(subtree + depth).bitwise_and(BUCKETS - 1)
            counts = counts.scatter_add(1, bucket, valid.to(x.dtype))
            with_none = nn.functional.pad(subtree, (0, 1))
            inner = with_none.gather(1, below.flatten(1)).view_as(below)
            subtree = _mixed(node + (inner * self.of_places).sum(-1))
        return nn.functional.normalize(counts)

    def forward(self, x: Tensor) -> Tensor:
        """`(N, M, A + R)` → `(N, K)`."""
        answer: Tensor = self.head(self.features(x))
        return answer


def _mixed(x: Tensor) -> Tensor:
    """Every bit of the answer depends on the lower ones of `x`, and the lowest on the higher ones."""
    x = x * _MULTIPLIER + 1
    return x.bitwise_xor(x.bitwise_right_shift(_SHIFT))


def _odd(count: int) -> Tensor:
    return torch.randint(-(2**62), 2**62, (count,)) * 2 + 1
