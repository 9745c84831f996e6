"""Learning rates as pure functions of how far a stage is.

The paper's schedules (supplement A1) change at whole epochs: `Steps`. Cosine and one-cycle
move with every step.
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


class OneCycle(StrictConfig):
    """Half a cosine up from `initial` during the first part, then one down to `final`."""

    kind: Literal["one-cycle"] = "one-cycle"
    rise: float = Field(default=0.3, gt=0, lt=1)
    """share of the stage that the rise takes"""
    initial: float = Field(default=0.04, ge=0, le=1)
    final: float = Field(default=1e-4, ge=0, le=1)


Schedule = Annotated[Steps | Cosine | OneCycle, Field(discriminator="kind")]


def lr_factor(schedule: Steps | Cosine | OneCycle, epoch: float, epochs: int) -> float:
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
    if isinstance(schedule, Cosine):
        if epoch < schedule.warmup:
            return epoch / schedule.warmup
        passed = (epoch - schedule.warmup) / max(epochs - schedule.warmup, 1e-9)
        return _fall(1.0, schedule.final, passed)
    top = schedule.rise * epochs
    if epoch < top:
        return _fall(schedule.initial, 1.0, epoch / top)
    return _fall(1.0, schedule.final, (epoch - top) / (epochs - top))


def _fall(start: float, end: float, passed: float) -> float:
    """Half a cosine from `start` to `end` while `passed` goes from 0 to 1."""
    return end + (start - end) * (1 + cos(pi * min(1.0, passed))) / 2
