"""Radii of ellipses with a coverage guarantee (split conformal prediction)."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from pydantic import BaseModel, ConfigDict

from luvli.arrays import Floats
from luvli.likelihood.ellipses import RegionRadii

ALL_POSES = "all"
JOINT = "joint"


class ConformalRadii(BaseModel):
    """Mahalanobis radii by class of pose, group of landmarks and coverage."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    levels: list[float]
    """coverages, ascending"""
    groups: dict[str, list[int]]
    radii: dict[str, dict[str, list[float | None]]]
    """pose class ("all" among them) -> group (or "joint") -> radius for each level; None where
    the calibration faces were too few for a guarantee"""
    faces: dict[str, int]
    """calibration faces of each class of pose"""

    def of_poses(self, poses: ArrayLike) -> RegionRadii:
        """The radii (n, k, L) of n faces by their classes of pose (n,); classes with few faces take
        those of all poses."""
        numbers, radii, joint = self._tables
        rows = [numbers.get(pose, numbers[ALL_POSES]) for pose in np.asarray(poses).tolist()]
        return RegionRadii(self._levels, radii[rows], joint[rows])

    @cached_property
    def _levels(self) -> Floats:
        return np.array(self.levels)

    @cached_property
    def _tables(self) -> tuple[dict[str, int], Floats, Floats]:
        """The number of each class of pose; radii (P, k, L) of the landmarks, and (P, L) of the
        whole face."""
        size = sum(len(group) for group in self.groups.values())
        radii = np.full((len(self.radii), size, len(self.levels)), np.inf)
        for row, by_group in zip(radii, self.radii.values(), strict=True):
            for name, group in self.groups.items():
                row[group] = _numbers(by_group[name])
        joint = np.stack([_numbers(by_group[JOINT]) for by_group in self.radii.values()])
        return {pose: i for i, pose in enumerate(self.radii)}, radii, joint


def _numbers(row: list[float | None]) -> Floats:
    return np.array([np.inf if value is None else value for value in row])
