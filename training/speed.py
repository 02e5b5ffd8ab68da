"""How fast a network may compute: mixed precision and torch.compile, by the order's wishes."""

from __future__ import annotations

import logging
from collections.abc import Callable

import torch
from torch import Tensor

from training.models.network import Network

log = logging.getLogger("training")

_TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class Speed:
    """The precision that a network's forward pass is computed in, and whether it is compiled.

    Weights, loss and optimiser stay in float32, and so do evaluation and the exported model. `precision` is
    `float32`, `bfloat16`, `float16` (its gradients are scaled against underflow, Micikevicius et al. 2018) or
    `auto`: bfloat16 on a GPU that has it, float16 on another one, float32 on the CPU.
    """

    def __init__(self, device: torch.device, precision: str = "auto", compiled: bool = False) -> None:
        self.device = device
        self.precision = _default_precision(device) if precision == "auto" else precision
        self.compiled = compiled
        self.scaler = torch.amp.GradScaler(device.type, enabled=self.precision == "float16")

    def forward(self, network: Network) -> Callable[[Tensor], Tensor]:
        """The network's `raw`, to be trained: float32 out, whatever is computed in between."""
        raw = network.raw
        if self.compiled:
            torch._dynamo.config.suppress_errors = True  # what the compiler fails at is computed as it is
            raw = torch.compile(raw)
        if self.precision == "float32":
            return raw
        kind, dtype = self.device.type, _TYPES[self.precision]

        def compute(x: Tensor) -> Tensor:
            with torch.autocast(kind, dtype):
                answer = raw(x)
            return answer.float()

        return compute


def _default_precision(device: torch.device) -> str:
    if device.type != "cuda":
        return "float32"
    with torch.cuda.device(device):
        return "bfloat16" if torch.cuda.is_bf16_supported(including_emulation=False) else "float16"
