"""Error ellipses: curves of constant Mahalanobis distance, and radii with a coverage guarantee."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from luvli.arrays import Floats
from luvli.errors import check_range


class Ellipses(NamedTuple):
    """Error ellipses of k landmarks: what to draw, in pixels and degrees."""

    centre: Floats
    """(k, 2)"""
    half_axes: Floats
    """(k, 2), the longer one first"""
    angle: Floats
    """(k,) degrees from the x axis to the longer half-axis, turning towards +y; in [-90, 90)"""

    @classmethod
    def of(cls, points: Floats, covariance: Floats, radius: Floats) -> Ellipses:
        """Around points (k, 2) at Mahalanobis distances (k,); NaN where there is no covariance."""
        located = ~np.isnan(covariance).any(axis=(1, 2))
        half_axes, angle = np.full((len(points), 2), np.nan), np.full(len(points), np.nan)
        values, vectors = np.linalg.eigh(covariance[located])  # ascending
        half_axes[located] = radius[located, None] * np.sqrt(values[:, ::-1])
        longest = vectors[:, :, 1]
        degrees = np.degrees(np.arctan2(longest[:, 1], longest[:, 0]))
        angle[located] = (degrees + 90.0) % 180.0 - 90.0
        return cls(points.copy(), half_axes, angle)


class RegionRadii(NamedTuple):
    """How far regions with a coverage guarantee reach around the landmarks of one face or of n:
    Mahalanobis radii, from the calibration faces of the same class of pose."""

    levels: Floats
    """(L,) coverages, ascending"""
    radii: Floats
    """(k, L), or (n, k, L), for each landmark by itself; infinite where too few faces were seen"""
    joint: Floats
    """(L,), or (n, L), for all visible landmarks of the face at once"""

    def of_faces(self, which: Any) -> RegionRadii:
        """Those of one of n faces, or of some."""
        return RegionRadii(self.levels, self.radii[which], self.joint[which])

    def at(self, coverage: float, joint: bool = False) -> Floats:
        """(k,) or (n, k) radii for this coverage, or for the next higher level that is known."""
        check_range("coverage", coverage, 0, 1, ends=False)
        shape = self.radii.shape[:-1]
        place = int(np.searchsorted(self.levels, coverage - 1e-9))
        if place == len(self.levels):
            return np.full(shape, np.inf)
        if joint:
            return np.array(np.broadcast_to(self.joint[..., place, None], shape))
        return np.asarray(self.radii[..., place])
