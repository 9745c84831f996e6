"""Poses and cameras: how a head stands before the lens, and where its points fall."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeVar, get_args

import numpy as np

from luvli.errors import InputError, check_choice
from luvli.measures.rotation import rotation_matrix
from luvli.synthetic.arrays import Doubles, Real, Singles

Coordinates = TypeVar("Coordinates", Singles, Doubles)

_PoseClass = Literal["frontal", "lefthalf", "righthalf", "left", "right"]
"""MERL-RAV's classes; left and right are the person's own: "left" looks to the image's right"""
PoseChoice = Literal[
    "mixed", "frontal", "half-profile", "profile", "lefthalf", "righthalf", "left", "right"
]

_SHARES = {"frontal": 0.45, "half-profile": 0.22, "profile": 0.33}
"""share of each kind in `mixed`: more turned faces than MERL-RAV's 57 / 16 / 28 %"""
_HALF_FROM, _PROFILE_FROM = 26.0, 48.0
"""degrees of yaw"""


class Pose(NamedTuple):
    """Degrees. Yaw > 0 turns the face to its left, pitch > 0 lifts it, roll > 0 is clockwise."""

    yaw: float
    pitch: float
    roll: float

    @property
    def matrix(self) -> Doubles:
        """(3, 3) head to camera coordinates (x right, y up, z to the camera)."""
        return rotation_matrix(*self)

    @property
    def pose_class(self) -> _PoseClass:
        """The class by the size of the yaw: up to 26 degrees frontal, up to 48 half-profile."""
        if abs(self.yaw) <= _HALF_FROM:
            return "frontal"
        if abs(self.yaw) <= _PROFILE_FROM:
            return "lefthalf" if self.yaw > 0 else "righthalf"
        return "left" if self.yaw > 0 else "right"


def random_pose(choice: PoseChoice, rng: np.random.Generator) -> Pose:
    """A pose of the class asked for; yaw to 95, pitch to 35 degrees."""
    check_choice("pose", choice, get_args(PoseChoice))
    kind: str = choice
    if kind == "mixed":
        kind = str(rng.choice(list(_SHARES), p=list(_SHARES.values())))
    side = {"lefthalf": 1, "left": 1, "righthalf": -1, "right": -1}.get(kind, rng.choice([-1, 1]))
    if kind == "frontal":
        yaw = _within(rng, 0, 13, 0, _HALF_FROM)
    elif kind in ("half-profile", "lefthalf", "righthalf"):
        yaw = rng.uniform(_HALF_FROM, _PROFILE_FROM)
    else:
        yaw = _within(rng, 70, 14, _PROFILE_FROM, 95)
    wild = rng.random() < 0.06
    pitch = _within(rng, 0, 25 if wild else 12, -35, 35)
    roll = _within(rng, 0, 35 if wild else 10, -120, 120)
    return Pose(float(side * yaw), float(pitch), float(roll))


def _within(rng: np.random.Generator, mean: float, spread: float, low: float, high: float) -> float:
    """A normal number (its size unless `low` is negative), drawn again until it is in range."""
    while True:
        value = rng.normal(mean, spread)
        value = value if low < 0 else abs(value)
        if low <= value <= high:
            return float(value)


def check_pose(pose: Sequence[float]) -> Pose:
    """Three numbers as a `Pose`, or a sentence."""
    try:
        checked = Pose(*(float(angle) for angle in pose))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"pose must be a name or (yaw, pitch, roll) in degrees, got {pose!r}."
        ) from error
    if abs(checked.yaw) > 120 or abs(checked.pitch) > 90:
        raise InputError(f"pose {tuple(checked)} is beyond yaw 120 or pitch 90 degrees.")
    return checked


@dataclass(frozen=True)
class Camera:
    """A pinhole at `distance` centimetres before the middle of the head.

    A point (x, y, z) falls on pixel (centre_x + focal x / (distance - z), centre_y - focal y /
    (distance - z)).
    """

    distance: float
    focal: float
    centre_x: float
    centre_y: float

    def project(self, points: Coordinates, scale: float = 1.0) -> Coordinates:
        """(..., 3) camera coordinates to (..., 3): x, y in pixels (times `scale`), inverse depth.

        With a `scale` of s, pixel centre (0, 0) becomes sample (s - 1) / 2, so that s x s
        samples are spread evenly over each pixel.
        """
        near = 1.0 / np.maximum(self.distance - points[..., 2], 1.0)
        shift = (scale - 1) / 2
        result = np.empty(points.shape, points.dtype)
        result[..., 0] = (self.centre_x + self.focal * points[..., 0] * near) * scale + shift
        result[..., 1] = (self.centre_y - self.focal * points[..., 1] * near) * scale + shift
        result[..., 2] = near
        return result


def aim(
    points: Real, distance: float, size: int, fill: float, shift: tuple[float, float]
) -> Camera:
    """A camera that sees the box around `points` (k, 3) with longer side `fill * size` pixels.

    The middle of the box falls on the middle of the image, moved by `shift` (2,) pixels.
    """
    near = 1.0 / (distance - points[:, 2])
    flat = np.stack([points[:, 0] * near, -points[:, 1] * near], axis=1)
    low, high = flat.min(axis=0), flat.max(axis=0)
    focal = float(fill * size / (high - low).max())
    middle = (size - 1) / 2 + np.asarray(shift) - focal * (low + high) / 2
    return Camera(distance, focal, float(middle[0]), float(middle[1]))
