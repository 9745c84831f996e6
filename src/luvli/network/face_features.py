"""What a prediction looks like, in numbers that do not depend on place and size of the face.

They are made from the faces alone: covariances, visibility, the box and its score,
and how plausible the shape is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, ConfigDict

from luvli.arrays import Bools, Floats
from luvli.faces import FaceLandmarks, Faces
from luvli.likelihood.covariance import determinant
from luvli.markup import get_markup, is_markup
from luvli.measures.head_pose import pose_class

Complexes = NDArray[np.complex128]

PoseKind = Literal["frontal", "half-profile", "profile", "all"]

HIDDEN_HALF, HIDDEN_PROFILE = 0.05, 0.28
"""share of hidden landmarks from which a face of another point set than the 68 is called
half-profile, and profile"""

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
"""names of the features that every face has"""
ASTRAY = "astray"
"""what the network itself says, where it tells"""
SCORE = "score"
"""what the detector says, where there was one"""
FEATURE_COLUMNS = (*FEATURES, ASTRAY, SCORE)
"""names of the columns of a `feature_table`"""
_TINY = 1e-6
_LEAST_MISFIT = np.array([0.003, 0.1])
"""added to residual and distance of the shape, so that a perfect one has a logarithm"""


class ShapeModel(BaseModel):
    """How the points of successful alignments lie: a mean and its main modes.

    Points are centred and scaled to root mean square distance 1 from their centre.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    mean: list[list[float]]
    """(k, 2)"""
    modes: list[list[list[float]]]
    """(m, k, 2) orthonormal"""
    deviations: list[float]
    """(m,) of the modes"""

    def compare(self, points: ArrayLike) -> tuple[Floats, Floats, Floats]:
        """How points (..., k, 2) differ from the model, each (...,).

        Root mean square of what no mode explains, root mean square of the modes' numbers in
        deviations, and the turn in radians, after the best similarity. A clockwise turn of
        the image is positive.
        """
        mean, modes, deviations = self._arrays
        shape = _normalised(_as_complex(points))
        turn = np.angle(shape @ mean.conj())
        difference = shape * np.exp(-1j * turn)[..., None] - mean
        flat = difference.view(np.float64)  # x, y of the first point, of the second, ...
        amounts = flat @ modes.T
        left = flat - amounts @ modes
        numbers = amounts / deviations
        return (
            np.sqrt((left * left).sum(axis=-1) / len(mean)),
            np.sqrt((numbers * numbers).sum(axis=-1) / len(deviations)),
            turn,
        )

    @cached_property
    def _arrays(self) -> tuple[Complexes, Floats, Floats]:
        """Mean (k,), modes (m, 2k), deviations (m,): made once, not for every face."""
        deviations = np.asarray(self.deviations, dtype=np.float64)
        modes = np.asarray(self.modes, dtype=np.float64).reshape(len(deviations), -1)
        return _as_complex(self.mean), modes, deviations


def _as_complex(points: ArrayLike) -> Complexes:
    """Points (..., k, 2) as numbers x + iy (..., k): turning them is one multiplication."""
    array = np.ascontiguousarray(points, dtype=np.float64)
    return array.view(np.complex128)[..., 0]


def _normalised(points: Complexes) -> Complexes:
    count = points.shape[-1]
    centred = points - points.sum(axis=-1, keepdims=True) / count
    square = (centred.real**2 + centred.imag**2).sum(axis=-1, keepdims=True) / count
    return np.asarray(centred / np.maximum(np.sqrt(square), 1e-9))


def normalised(points: ArrayLike) -> Floats:
    """Points (..., k, 2) centred, with root mean square distance 1 from the centre."""
    shape = _normalised(_as_complex(points))
    return np.stack([shape.real, shape.imag], axis=-1)


def best_turn(points: Floats, mean: Floats) -> Floats:
    """The angles (...,) in radians, clockwise as seen, by which `points` (..., k, 2) are turned
    against `mean` (k, 2)."""
    return np.asarray(np.angle(_as_complex(points) @ _as_complex(mean).conj()))


def as_faces(faces: Faces | Sequence[FaceLandmarks]) -> Faces:
    """Faces as arrays."""
    return faces if isinstance(faces, Faces) else Faces.stack(list(faces))


def many_features(several: Faces | Sequence[FaceLandmarks], shape: ShapeModel) -> Floats:
    """(n, 11) the features named in `FEATURES`; NaN for a face without locations.

    Lengths count in units of the box's size (geometric mean of its sides).
    """
    faces = as_faces(several)
    located = np.isfinite(faces.points).all(axis=(1, 2))
    if located.all():
        return _features(faces, shape)
    table = np.full((len(faces), len(FEATURES)), np.nan)
    table[located] = _features(faces[located], shape)
    return table


def _features(faces: Faces, shape: ShapeModel) -> Floats:
    points, box = faces.points, faces.boxes
    visible = faces.visibility if faces.visibility_trained else np.ones(points.shape[:2])
    area = determinant(faces.covariance)
    count = points.shape[1]
    sides = box[:, 2:] - box[:, :2]
    size = np.maximum(np.sqrt(sides[:, 0] * sides[:, 1]), 1e-9)
    sigma = np.sqrt(np.sqrt(np.maximum(area, _TINY**4))) / size[:, None]
    weight = visible + 0.05
    members = _group_members(faces.markup, count)  # all of them, then the groups
    means = (weight * sigma) @ members / (weight @ members)
    low, high = points.min(axis=1), points.max(axis=1)
    extent = high - low
    offset = (low + high - box[:, :2] - box[:, 2:]) / 2
    table = np.empty((len(points), len(FEATURES)))
    table[:, 0] = means[:, 0]
    table[:, 1] = means[:, 1]
    table[:, 2] = means[:, 1:].max(axis=1)
    table[:, 4] = np.sqrt(np.maximum(extent[:, 0] * extent[:, 1], _TINY)) / size
    table[:, 5] = np.hypot(offset[:, 0], offset[:, 1]) / size + 0.01
    table[:, 6], table[:, 7], turn = shape.compare(points)
    table[:, 6:8] += _LEAST_MISFIT
    table[:, 3] = 1.0
    table[:, :8] = np.log(table[:, :8])  # of eight at once, but for the fourth
    unevenness = weight * (np.log(sigma) - table[:, :1]) ** 2
    table[:, 3] = np.sqrt(unevenness.sum(axis=1) / weight.sum(axis=1))
    table[:, 8] = np.abs(turn)
    table[:, 9] = 1 - visible.sum(axis=1) / count
    table[:, 10] = (visible * (1 - visible)).sum(axis=1) * (4 / count)
    return table


def feature_table(several: Faces | Sequence[FaceLandmarks], shape: ShapeModel) -> Floats:
    """(n, 13) the `FEATURE_COLUMNS`: features, then the network's own failure score, NaN where it
    has none, and the detector's score, NaN for boxes without one."""
    faces = as_faces(several)
    table = np.empty((len(faces), len(FEATURE_COLUMNS)))
    table[:, :-2] = many_features(faces, shape)
    table[:, -2] = faces.failure_logit
    table[:, -1] = score_features(faces.scores)
    return table


def score_features(scores: ArrayLike) -> Floats:
    """(n,) log-odds of a detector's scores; NaN for 1, which a box without a detector has."""
    values = np.asarray(scores, dtype=np.float64)
    safe = np.clip(values, 0.01, 0.995)
    return np.where(values < 1.0, np.log(safe / (1 - safe)), np.nan)


def pose_kind(face: FaceLandmarks) -> PoseKind:
    """`pose_kinds` of one face."""
    return pose_kinds(Faces.stack([face]))[0]


def pose_kinds(faces: Faces) -> list[PoseKind]:
    """The class of pose of each face, by its own prediction.

    With 68 points by `luvli.measures.head_pose.pose_class`, with others by the share of hidden
    landmarks; "all" where neither is known.
    """
    located: Bools = np.asarray(np.isfinite(faces.points).any(axis=(1, 2)))
    if faces.markup == "ibug68":
        kinds = [pose_class(points) for points in faces.points]
        return ["all" if kind == "unknown" else kind for kind in kinds]
    if not faces.visibility_trained:
        return ["all"] * len(faces)
    hidden = (1 - faces.visibility).mean(axis=1)
    turned: list[PoseKind] = [
        "frontal" if h < HIDDEN_HALF else "half-profile" if h < HIDDEN_PROFILE else "profile"
        for h in hidden.tolist()
    ]
    return [kind if known else "all" for kind, known in zip(turned, located, strict=True)]


@cache
def _group_members(markup: str, count: int) -> Floats:
    """(k, 1 + groups) 1 where a landmark belongs to a group: all of them first, and once more
    where no groups are known."""
    groups = (
        [list(group) for group in get_markup(markup).groups.values()] if is_markup(markup) else []
    )
    if sum(map(len, groups)) != count:
        return np.ones((count, 2))
    members = np.zeros((count, 1 + len(groups)))
    members[:, 0] = 1.0
    for column, group in enumerate(groups, 1):
        members[group, column] = 1.0
    return members
