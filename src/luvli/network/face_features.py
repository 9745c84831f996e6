"""What a prediction looks like, in numbers that do not depend on place and size of the face.

They are made from one `FaceLandmarks` alone: covariances, visibility, the box and its score,
and how plausible the shape is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, ConfigDict

from luvli.faces import FaceLandmarks
from luvli.markup import get_markup, is_markup

Floats = NDArray[np.float64]

PoseKind = Literal["frontal", "half-profile", "profile", "all"]

OFFSET_HALF, OFFSET_PROFILE = 0.47, 0.95
"""`nose_offset` from which a face is called half-profile, and profile: where the classes of
MERL-RAV part"""
HIDDEN_HALF, HIDDEN_PROFILE = 0.05, 0.28
"""the same by the share of hidden landmarks, for other point sets"""

FEATURES = (
    "spread",
    "spread jaw",
    "worst spread",
    "unevenness",
    "box size",
    "box place",
    "shape residual",
    "shape distance",
    "tilt",
    "hidden",
    "undecided",
)
"""names of the features that every face has; `SCORE` comes after them where it is known"""
SCORE = "score"
_TINY = 1e-6


class ShapeModel(BaseModel):
    """How the points of successful alignments lie: a mean and its main modes.

    Points are centred and scaled to root mean square distance 1 from their centre.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    mean: list[list[float]]
    """(k, 2)"""
    modes: list[list[list[float]]]
    """(m, k, 2) orthonormal"""
    deviations: list[float]
    """(m,) of the modes"""

    def compare(self, points: ArrayLike) -> tuple[float, float, float]:
        """How points (k, 2) differ from the model.

        Root mean square of what no mode explains, root mean square of the modes' numbers in
        deviations, and the turn in radians, after the best similarity. A clockwise turn of
        the image is positive.
        """
        mean = np.asarray(self.mean)
        shape = normalised(points)
        turn = best_turn(shape, mean)
        cos, sin = np.cos(turn), np.sin(turn)
        upright = shape @ np.array([[cos, -sin], [sin, cos]])
        difference = (upright - mean).ravel()
        modes = np.asarray(self.modes).reshape(len(self.deviations), -1)
        amounts = modes @ difference
        left = difference - amounts @ modes
        numbers = amounts / np.asarray(self.deviations)
        return (
            float(np.sqrt((left**2).sum() / len(mean))),
            float(np.sqrt((numbers**2).mean())),
            turn,
        )


def normalised(points: ArrayLike) -> Floats:
    """Points (k, 2) centred, with root mean square distance 1 from the centre."""
    array = np.asarray(points, dtype=np.float64)
    centred = array - array.mean(axis=0)
    return np.asarray(centred / max(float(np.sqrt((centred**2).sum(axis=1).mean())), 1e-9))


def best_turn(points: Floats, mean: Floats) -> float:
    """The angle (radians, clockwise as seen) by which `points` are turned against `mean`."""
    dot = float((points * mean).sum())
    cross = float((mean[:, 0] * points[:, 1] - mean[:, 1] * points[:, 0]).sum())
    return float(np.arctan2(cross, dot))


def face_features(face: FaceLandmarks, shape: ShapeModel) -> Floats:
    """(11,) the features named in `FEATURES`; NaN for a face without locations.

    Lengths count in units of the box's size (geometric mean of its sides).
    """
    if face.is_empty or not np.isfinite(face.points).all():
        return np.full(len(FEATURES), np.nan)
    visible = face.visibility if face.visibility_trained else np.ones(len(face))
    weight = visible + 0.05
    size = max(float(np.sqrt(np.prod(face.box[2:] - face.box[:2]))), 1e-9)
    determinant = np.linalg.det(face.covariance)
    sigma = np.sqrt(np.sqrt(np.maximum(determinant, _TINY**4))) / size
    groups = _groups(face)
    means = [float(np.average(sigma[g], weights=weight[g])) for g in groups]
    middle = float(np.average(sigma, weights=weight))
    uneven = float(np.sqrt(np.average((np.log(sigma) - np.log(middle)) ** 2, weights=weight)))
    low, high = face.points.min(axis=0), face.points.max(axis=0)
    extent = np.sqrt(max(float(np.prod(high - low)), _TINY))
    offset = np.linalg.norm((low + high - face.box[:2] - face.box[2:]) / 2) / size
    residual, distance, turn = shape.compare(face.points)
    doubt = visible * (1 - visible) * 4
    return np.array(
        [
            np.log(middle),
            np.log(means[0]),
            np.log(max(means)),
            uneven,
            np.log(extent / size),
            np.log(offset + 0.01),
            np.log(residual + 0.003),
            np.log(distance + 0.1),
            abs(turn),
            float((1 - visible).mean()),
            float(doubt.mean()),
        ]
    )


def score_feature(score: float) -> float:
    """Log-odds of a detector's score; NaN for 1, which a box without a detector has."""
    if not score < 1.0:
        return float("nan")
    safe = min(max(float(score), 0.01), 0.995)
    return float(np.log(safe / (1 - safe)))


def pose_kind(face: FaceLandmarks) -> PoseKind:
    """The class of pose as the prediction itself tells it.

    With 68 points by the place of the nose tip between the outer eye corners (`nose_offset`),
    with others by the share of hidden landmarks; "all" where neither is known.
    """
    if face.is_empty:
        return "all"
    if face.markup == "ibug68":
        turned, half, profile = nose_offset(face.points), OFFSET_HALF, OFFSET_PROFILE
    elif face.visibility_trained:
        turned, half, profile = float((1 - face.visibility).mean()), HIDDEN_HALF, HIDDEN_PROFILE
    else:
        return "all"
    if turned < half:
        return "frontal"
    return "half-profile" if turned < profile else "profile"


def nose_offset(points: ArrayLike) -> float:
    """How far the nose tip lies from the middle of the outer eye corners, along their line.

    0 in the middle, 1 at a corner, more beyond: it grows by about 0.022 for each degree that a
    head is turned (measured on rendered heads).
    """
    place = np.asarray(points, dtype=np.float64)
    across = place[45] - place[36]
    share = float((place[30] - place[36]) @ across / max(float(across @ across), _TINY))
    return abs(2 * share - 1)


def _groups(face: FaceLandmarks) -> list[Sequence[int]]:
    if is_markup(face.markup):
        groups = [list(group) for group in get_markup(face.markup).groups.values()]
        if sum(len(group) for group in groups) == len(face):
            return [*groups]
    return [range(len(face))]
