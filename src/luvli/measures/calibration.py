"""What a model file knows about measures: fitted by `luvli calibrate`, applied with NumPy alone."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from pydantic import BaseModel, ConfigDict, Field

from luvli.arrays import Floats


class EyesClosed(BaseModel):
    """Probability that the eyes are closed: a logistic function of their openness.

    The feature is the mean of the two eyes' openness, each weighted by its visibility; uncertain
    openness pulls the probability towards one half, by 1 / sqrt(1 + pi/8 slope^2 std^2).
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    threshold: float
    """openness at which both are equally likely"""
    slope: float = Field(gt=0)
    """log-odds of closed eyes for each unit of openness below the threshold"""

    def probability(self, openness: Floats, std: Floats) -> Floats:
        """(n,) of openness (n,) with standard deviations (n,)."""
        shrink = 1 / np.sqrt(1 + np.pi / 8 * (self.slope * std) ** 2)
        odds = self.slope * (self.threshold - openness) * shrink
        return np.asarray(1 / (1 + np.exp(-np.clip(odds, -30, 30))))


class MeasureCalibration(BaseModel):
    """How landmarks err together, and how far measures miss what their deviations promise."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    factors: dict[str, list[list[list[float]]]] = {}
    """pose class ("all" among them) -> (k, 2, r) factors of `luvli.measures.correlation`"""
    scale: dict[str, float] = {}
    """measure -> what its standard deviation is multiplied by; 1 where it is not named"""
    eyes_closed: EyesClosed | None = None
    faces: int = Field(default=0, ge=0)
    """held-out faces that it was fitted on"""

    def factors_for(self, poses: ArrayLike) -> Floats | None:
        """(n, k, 2, r) for n faces of these pose classes; None where none were fitted."""
        if not self.factors:
            return None
        numbers, factors = self._tables
        rows = [numbers.get(pose, numbers["all"]) for pose in np.asarray(poses).tolist()]
        return np.asarray(factors[rows])

    @cached_property
    def _tables(self) -> tuple[dict[str, int], Floats]:
        """The number of each pose class, and their factors (P, k, 2, r)."""
        numbers = {pose: i for i, pose in enumerate(self.factors)}
        return numbers, np.array(list(self.factors.values()), dtype=np.float64)
