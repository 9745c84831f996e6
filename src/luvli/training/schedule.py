"""Learning rates as pure functions of how far a stage is.

The paper's schedules (supplement A1) change at whole epochs: `Steps`. `Cosine` moves with every
step.
"""

from __future__ import annotations

from math import cos, pi
from typing import Annotated, Literal

from pydantic import Field

from luvli.training.strict_config import StrictConfig


class Steps(StrictConfig):
    """Multiply the learning rate at some epochs, counted from 0.

    >>> scratch = Steps(factors={30: 0.2, 60: 0.5, 90: 0.5})
    >>> [round(2.5e-4 * lr_factor(scratch, epoch, 100), 9) for epoch in (0, 29, 30, 60, 99)]
    [0.00025, 0.00025, 5e-05, 2.5e-05, 1.25e-05]
    """

    kind: Literal["steps"] = "steps"
    factors: dict[int, float] = Field(default_factory=dict)
    """epoch -> factor that holds from the start of this epoch on, on top of earlier ones"""


class Cosine(StrictConfig):
    """A straight rise over `warmup` epochs, then half a cosine down to `final` times lr."""

    kind: Literal["cosine"] = "cosine"
    warmup: float = Field(default=0.0, ge=0)
    """epochs"""
    final: float = Field(default=0.0, ge=0, le=1)


Schedule = Annotated[Steps | Cosine, Field(discriminator="kind")]


def lr_factor(schedule: Steps | Cosine, epoch: float, epochs: int) -> float:
    """The factor of the learning rate `epoch` epochs (a fraction counts) after the start.

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
