"""Radii of ellipses with a coverage guarantee (split conformal prediction)."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from pydantic import BaseModel, ConfigDict

from luvli.arrays import Floats
from luvli.faces import Faces, RegionRadii
from luvli.trust.features import pose_classes

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

    def __call__(self, faces: Faces) -> RegionRadii:
        """The radii (n, k, L) of n faces, by their classes of pose."""
        return self.of_poses(pose_classes(faces))

    def of_poses(self, poses: ArrayLike) -> RegionRadii:
        """The same for classes of pose (n,); classes with few faces take those of all poses."""
        names = [str(pose) if pose in self.radii else ALL_POSES for pose in np.asarray(poses)]
        return RegionRadii(
            np.array(self.levels),
            np.stack([self._by_pose[name][0] for name in names]),
            np.stack([self._by_pose[name][1] for name in names]),
        )

    @cached_property
    def _by_pose(self) -> dict[str, tuple[Floats, Floats]]:
        """Class of pose -> radii (k, L) of the landmarks, and (L,) of the whole face."""
        size = sum(len(group) for group in self.groups.values())
        tables = {}
        for pose, rows in self.radii.items():
            radii = np.full((size, len(self.levels)), np.inf)
            for name, group in self.groups.items():
                radii[group] = _numbers(rows[name])
            tables[pose] = radii, _numbers(rows[JOINT])
        return tables


def _numbers(row: list[float | None]) -> Floats:
    return np.array([np.inf if value is None else value for value in row])
