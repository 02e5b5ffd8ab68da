"""The allocator: which task's which candidate a free device trains next, and why."""

from easeml_core.allocator.ladder import choose_with_ladder
from easeml_core.allocator.policy import make_policy

__all__ = ["choose_with_ladder", "make_policy"]
