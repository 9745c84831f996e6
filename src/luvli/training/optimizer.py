"""What moves the weights: optimisers, the learning rate of the moment, batch norms, the average."""

from __future__ import annotations

from math import cos, pi
from typing import Any, cast

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from luvli.errors import InputError
from luvli.network import LUVLi
from luvli.training.recipe import AdamW, BatchNorm, Cosine, RMSprop, Steps


def make_optimizer(network: nn.Module, config: RMSprop | AdamW) -> torch.optim.Optimizer:
    """The optimiser of all parameters that learn; norms and biases are never decayed."""
    parameters = [p for p in network.parameters() if p.requires_grad]
    if isinstance(config, RMSprop):
        return torch.optim.RMSprop(
            parameters, lr=config.lr, alpha=config.alpha, eps=config.eps, foreach=True
        )
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=config.lr,
        betas=config.betas,
        eps=config.eps,
        fused=True,
    )


def moving_average(network: nn.Module, decay: float) -> AveragedModel:
    """Exponential moving average of weights and batch-norm statistics: call
    `update_parameters(network)` after every step, use `.module`.

    The first step is copied, the n-th after it averaged with decay min(decay, (1 + n) / (10 + n)):
    the average follows the first steps quickly and does not remember the random start.
    """

    def update(average: Any, current: Any, updates: Any) -> None:
        if not average[0].is_floating_point():  # counters of batches
            for old, new in zip(average, current, strict=True):
                old.copy_(new)
            return
        done = int(updates)
        make: Any = get_ema_multi_avg_fn
        make(min(decay, (1 + done) / (10 + done)))(average, current, updates)

    return AveragedModel(network, multi_avg_fn=update, use_buffers=True)


def lr_factor(schedule: Steps | Cosine, epoch: float, epochs: int) -> float:
    """The factor of the learning rate `epoch` epochs (a fraction counts) after the start.

    The paper's schedules (supplement A1) change at whole epochs: `Steps`. `Cosine` moves with
    every step.

    >>> scratch = Steps(factors={30: 0.2, 60: 0.5, 90: 0.5})
    >>> [round(2.5e-4 * lr_factor(scratch, epoch, 100), 9) for epoch in (0, 29, 30, 60, 99)]
    [0.00025, 0.00025, 5e-05, 2.5e-05, 1.25e-05]
    >>> lr_factor(Cosine(warmup=2), 1.0, 10), lr_factor(Cosine(warmup=2), 6.0, 10)
    (0.5, 0.5)
    """
    if isinstance(schedule, Steps):
        factor = 1.0
        for start, change in schedule.factors.items():
            if epoch >= start:
                factor *= change
        return factor
    if epoch < schedule.warmup:
        return epoch / schedule.warmup
    passed = min(1.0, (epoch - schedule.warmup) / max(epochs - schedule.warmup, 1e-9))
    return schedule.final + (1.0 - schedule.final) * (1 + cos(pi * passed)) / 2


def prepare_norms(network: LUVLi, choice: BatchNorm, processes: int, on_cpu: bool) -> LUVLi:
    """Batch normalisation as the stage wants it: local, over all processes, or frozen."""
    if choice != "sync" or processes == 1:
        return network
    if on_cpu:
        raise InputError(
            "batch_norm: sync needs GPUs, as PyTorch has it: use local or frozen on CPUs."
        )
    convert: Any = nn.SyncBatchNorm.convert_sync_batchnorm
    return cast(LUVLi, convert(network))


def set_training_mode(network: nn.Module, choice: BatchNorm) -> None:
    """Training mode, but for frozen batch norms, which go on using their running statistics."""
    network.train()
    if choice == "frozen":
        for module in network.modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm):
                module.eval()
