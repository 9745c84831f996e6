"""Optimisers of a recipe, and the rate of the moment."""

from __future__ import annotations

import torch
from torch import nn

from luvli.training.recipe import AdamW, RMSprop


def make_optimizer(network: nn.Module, settings: RMSprop | AdamW) -> torch.optim.Optimizer:
    """The optimiser of all parameters; norms and biases are never decayed."""
    parameters = [p for p in network.parameters() if p.requires_grad]
    if isinstance(settings, RMSprop):
        return torch.optim.RMSprop(
            parameters, lr=settings.rate, alpha=settings.alpha, eps=settings.eps, foreach=True
        )
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": settings.weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        groups, lr=settings.rate, betas=settings.betas, eps=settings.eps, fused=True
    )


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Use this learning rate for the next step."""
    for group in optimizer.param_groups:
        group["lr"] = rate
