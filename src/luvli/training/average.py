"""Exponential moving average of weights and batch-norm statistics."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor


class WeightAverage:
    """The average after t updates has decay min(decay, (1 + t) / (10 + t)): it follows the
    first steps quickly and does not remember the random start."""

    def __init__(self, state: Mapping[str, Tensor], decay: float) -> None:
        self.decay = decay
        self.updates = 0
        self.state = {name: tensor.detach().clone() for name, tensor in state.items()}

    @torch.no_grad()
    def update(self, state: Mapping[str, Tensor]) -> None:
        """Move towards `state`; whole numbers (counters) are copied."""
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        self.updates += 1
        names = [name for name, tensor in self.state.items() if tensor.is_floating_point()]
        torch._foreach_lerp_(
            [self.state[name] for name in names], [state[name] for name in names], 1 - decay
        )
        for name, tensor in self.state.items():
            if not tensor.is_floating_point():
                tensor.copy_(state[name])

    def load(self, state: Mapping[str, Tensor], updates: int) -> None:
        """Go on from a saved average."""
        self.updates = updates
        for name, tensor in self.state.items():
            tensor.copy_(state[name])
