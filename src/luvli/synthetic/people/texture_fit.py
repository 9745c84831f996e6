"""Lays a head on a photograph: its pose by its landmarks, and a warp for what is left over."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from luvli.synthetic.arrays import Doubles, Real
from luvli.synthetic.heads.head import Head

_INNER = np.arange(17, 68)
_FOCAL = 3.0
"""focal length assumed for photographs, in units of their longer side"""


@dataclass(frozen=True, eq=False)
class Fit:
    """Where a head stands before the camera of a photograph."""

    rotation: Doubles
    """(3, 3) head to OpenCV's camera coordinates (x right, y down, z away)"""
    shift: Doubles
    """(3,)"""
    focal: float
    centre: Doubles
    """(2,) image pixels"""

    def project(self, places: Real) -> Doubles:
        """(n, 3) head coordinates to (n, 2) image pixels."""
        here = places @ self.rotation.T + self.shift
        return np.asarray(self.focal * here[:, :2] / here[:, 2:] + self.centre, np.float64)


def fit_head(head: Head, points: Doubles, extent: int) -> Fit | None:
    """The pose that lays the neutral head on 68 points, or None if it is no frontal face.

    Points without a location (NaN) do not count. `extent` is the longer side of the photograph
    in pixels.
    """
    model = head.neutral[head.landmarks].astype(np.float64)
    focal = _FOCAL * extent
    middle = np.nanmean(points, axis=0)
    inner = _INNER[np.isfinite(points[_INNER]).all(axis=1)]
    camera = np.array([[focal, 0, middle[0]], [0, focal, middle[1]], [0, 0, 1]], np.float64)
    # OpenCV looks along z with y down: turn the head's axes first
    turned, seen = (model * (1, -1, -1))[inner], points[inner].astype(np.float64)
    lens = np.zeros(4)
    ok, turn, shift = cv2.solvePnP(turned, seen, camera, lens, flags=cv2.SOLVEPNP_EPNP)
    if ok:
        ok, turn, shift = cv2.solvePnP(
            turned, seen, camera, lens, turn, shift, True, cv2.SOLVEPNP_ITERATIVE
        )
    if not ok:
        return None
    rotation = np.asarray(cv2.Rodrigues(turn)[0] @ np.diag([1.0, -1.0, -1.0]), np.float64)
    fit = Fit(rotation, np.asarray(shift, np.float64).ravel(), focal, middle)
    yaw = np.degrees(np.arcsin(np.clip(rotation[0, 2], -1, 1)))
    pitch = np.degrees(np.arcsin(np.clip(rotation[1, 2], -1, 1)))
    off = np.linalg.norm(fit.project(model)[inner] - points[inner], axis=1).mean()
    width = np.nanmax(points[:, 0]) - np.nanmin(points[:, 0])
    if abs(yaw) > 25 or abs(pitch) > 25 or off > 0.06 * width or fit.shift[2] < 0:
        return None
    return fit


def residual_warp(anchor: Doubles, values: Doubles, at: Doubles) -> Doubles:
    """Thin-plate spline through `values` (k, 2) at `anchor` (k, 2), evaluated at (m, 2)."""
    scale = np.ptp(anchor, axis=0).max()

    def kernel(a: Doubles, b: Doubles) -> Doubles:
        square = _squares(a, b) / scale**2
        return np.asarray(square * np.log(square + 1e-9), np.float64)

    k = len(anchor)
    system = np.zeros((k + 3, k + 3))
    system[:k, :k] = kernel(anchor, anchor) + 1e-4 * np.eye(k)
    system[:k, k:] = np.c_[np.ones(k), anchor / scale]
    system[k:, :k] = system[:k, k:].T
    solution = np.linalg.solve(system, np.concatenate([values, np.zeros((3, 2))]))
    result = kernel(at, anchor) @ solution[:k] + np.c_[np.ones(len(at)), at / scale] @ solution[k:]
    # far from all landmarks a spline runs away: there the pose alone is trusted
    far = np.sqrt(_squares(at, anchor).min(axis=1)) / scale
    return np.asarray(result * np.exp(-((far / 0.35) ** 4))[:, None], np.float64)


def _squares(a: Doubles, b: Doubles) -> Doubles:
    """Squared distances between (m, 2) and (k, 2): (m, k)."""
    return np.asarray(
        (a[:, None, 0] - b[None, :, 0]) ** 2 + (a[:, None, 1] - b[None, :, 1]) ** 2, np.float64
    )
