"""Features of a prediction that say how reliable it is, independent of the face's place and size.

They are computed from `Faces` alone: covariances, visibility, the box and its score, how plausible
the shape is, and the failure score of the network.
"""

from __future__ import annotations

from functools import cache, cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import BaseModel, ConfigDict

from luvli.arrays import Floats
from luvli.faces import Faces
from luvli.likelihood.covariance import determinant
from luvli.markup import get_markup, is_markup
from luvli.measures import head_pose

Complexes = NDArray[np.complex128]

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
FAILURE = "failure_logit"
"""the network's own failure score; NaN where it has none"""
SCORE = "score"
"""log-odds of the detector's score; NaN for boxes without a detector"""
FEATURE_COLUMNS = (*FEATURES, FAILURE, SCORE)
"""names of the columns of a feature table"""
TINY = 1e-6
"""smallest standard deviation in pixels, and smallest area of the landmarks in square pixels"""
MIN_VISIBILITY = 0.05
"""added to the visibilities that landmarks are weighted by"""
MIN_OFFSET = 0.01
"""added to the distance between the centres of landmarks and box, in box sizes"""
SCORE_LIMITS = (0.01, 0.995)
"""between which a detector's score is taken"""
MIN_MISFIT = (0.003, 0.1)
"""added to residual and distance of the shape, so that a perfect one has a logarithm"""


class ShapeModel(BaseModel):
    """Mean shape and principal components of the points of successful alignments.

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

        Root mean square of the residual that no mode explains, root mean square of the mode
        coefficients in standard deviations, and the rotation in radians (clockwise positive),
        after the best similarity transform.
        """
        mean, modes, deviations = self._arrays
        upright, rotation = turned_to(normalised(as_complex(points)), mean)
        flat = (upright - mean).view(np.float64)  # x, y of the first point, of the second, ...
        coefficients = flat @ modes.T
        residual = flat - coefficients @ modes
        return (
            np.sqrt((residual**2).sum(axis=-1) / len(mean)),
            np.sqrt(((coefficients / deviations) ** 2).mean(axis=-1)),
            rotation,
        )

    @cached_property
    def _arrays(self) -> tuple[Complexes, Floats, Floats]:
        """Mean (k,), modes (m, 2k), deviations (m,)."""
        deviations = np.array(self.deviations)
        modes = np.array(self.modes).reshape(len(deviations), -1)
        return as_complex(self.mean), modes, deviations


def as_complex(points: ArrayLike) -> Complexes:
    """Points (..., k, 2) as numbers x + iy (..., k): a rotation is one multiplication."""
    return np.ascontiguousarray(points, dtype=np.float64).view(np.complex128)[..., 0]


def normalised(shape: Complexes) -> Complexes:
    """Points (..., k) centred, with root mean square distance 1 from the centre."""
    centred = shape - shape.mean(axis=-1, keepdims=True)
    size = np.sqrt((np.abs(centred) ** 2).mean(axis=-1, keepdims=True))
    return np.asarray(centred / np.maximum(size, 1e-9))


def turned_to(shape: Complexes, mean: Complexes) -> tuple[Complexes, Floats]:
    """Shapes (..., k) turned as `mean` (k,) is, and the angles (...,) in radians, clockwise as
    seen, by which they were turned against it."""
    angle = np.angle(shape @ mean.conj())
    return np.asarray(shape * np.exp(-1j * angle)[..., None]), np.asarray(angle)


def feature_table(faces: Faces, shape: ShapeModel) -> Floats:
    """(n, 13) the `FEATURE_COLUMNS` of n faces; NaN for a face without locations.

    Lengths count in units of the box's size (geometric mean of its sides).
    """
    points, boxes = np.nan_to_num(faces.points), faces.boxes
    count = points.shape[1]
    visible = faces.visibility if faces.visibility_trained else np.ones(points.shape[:2])
    low, high, start, end = points.min(axis=1), points.max(axis=1), boxes[:, :2], boxes[:, 2:]
    size = np.maximum(np.sqrt((end - start).prod(axis=1)), 1e-9)
    sigma = np.sqrt(np.sqrt(np.maximum(determinant(faces.covariance), TINY**4))) / size[:, None]
    weight = visible + MIN_VISIBILITY
    total = weight.sum(axis=1)
    members = group_members(faces.markup, count)  # all of them, then the groups
    means = (weight * sigma) @ members / (weight @ members)
    offset = (low + high - start - end) / 2
    residual, distance, rotation = shape.compare(points)
    log_spread = np.log(means[:, 0])
    unevenness = weight * (np.log(sigma) - log_spread[:, None]) ** 2
    features = (
        log_spread,
        np.log(means[:, 1]),
        np.log(means[:, 1:].max(axis=1)),
        np.sqrt(unevenness.sum(axis=1) / total),
        np.log(np.sqrt(np.maximum((high - low).prod(axis=1), TINY)) / size),
        np.log(np.hypot(offset[:, 0], offset[:, 1]) / size + MIN_OFFSET),
        np.log(residual + MIN_MISFIT[0]),
        np.log(distance + MIN_MISFIT[1]),
        np.abs(rotation),
        1 - visible.sum(axis=1) / count,
        (visible * (1 - visible)).sum(axis=1) * (4 / count),
    )
    located = np.isfinite(faces.points).all(axis=(1, 2))
    known = [np.where(located, values, np.nan) for values in features]
    return np.stack([*known, faces.failure_logit, _score_logit(faces.scores)], axis=1)


def _score_logit(scores: Floats) -> Floats:
    """(n,) log-odds of a detector's scores; NaN for 1, which a box without a detector has."""
    safe = np.clip(scores, *SCORE_LIMITS)
    return np.where(scores < 1.0, np.log(safe / (1 - safe)), np.nan)


def predicted_poses(faces: Faces) -> NDArray[np.str_]:
    """(n,) the `PoseClass` of each face, by its own prediction.

    With 68 points by `luvli.measures.head_pose`, with others by the share of hidden
    landmarks; "all" where neither is known.
    """
    if faces.markup == "ibug68":
        classes = head_pose.pose_classes(faces.points)
        return np.where(classes == "unknown", "all", classes)
    if not faces.visibility_trained:
        return np.full(len(faces), "all", "<U12")
    hidden = (1 - faces.visibility).mean(axis=1)
    turned = np.where(hidden < HIDDEN_PROFILE, "half-profile", "profile")
    classes = np.where(hidden < HIDDEN_HALF, "frontal", turned)
    return np.where(np.isfinite(faces.points).any(axis=(1, 2)), classes, "all")


@cache
def group_members(markup: str, count: int) -> Floats:
    """(k, 1 + groups) 1 where a landmark belongs to a group: all of them first."""
    groups = landmark_groups(markup, count).values()
    columns = [np.isin(np.arange(count), group) for group in groups]
    return np.stack([np.ones(count), *columns], axis=1).astype(np.float64)


def landmark_groups(markup: str, count: int) -> dict[str, list[int]]:
    """The markup's groups of landmarks where they hold every one, else one group of all."""
    groups = get_markup(markup).groups if is_markup(markup) else {}
    if sum(map(len, groups.values())) == count:
        return {name: list(group) for name, group in groups.items()}
    return {"all": list(range(count))}
