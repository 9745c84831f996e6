"""Head pose from 68 landmarks: a mean head is turned until its points fall on them.

Every landmark counts by its own covariance and visibility, and people differ from the mean
head: the ways in which they do (`head68.json`: mean points, main modes and remaining spread
of 600 random heads of the ICT FaceKit model, MIT licence, Copyright (c) 2020 USC Institute
for Creative Technologies) enter the covariance of the residuals, and so does that landmarks
of one part of the face err together. What comes out is a pose with the covariance that follows
from all three. All functions work on n faces at once.

Angles are those of `luvli.synthetic`: yaw > 0 turns the face to its own left, pitch > 0 lifts
it, roll > 0 is clockwise as seen in the image. Predicted landmarks follow the conventions of the
people who labelled the training faces; for them pitch 0 is the median of people who look into the
camera (`FRONTAL_PITCH`).
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from luvli.arrays import Floats
from luvli.errors import InputError
from luvli.likelihood.covariance import square_root
from luvli.measures.correlation import ErrorModel
from luvli.measures.head_fit import fit_poses, part_factors
from luvli.measures.rotation import rotation_matrix

MIN_VISIBILITY = 0.1
"""landmarks whose probability of visibility is lower do not count"""
MIN_LANDMARKS = 12
"""landmarks that a pose needs"""
FACTOR = 1.5
"""by which errors exceed the deviations that follow from all this"""
PITCH_CONVENTION = 4.5
"""degrees: where a labeller puts brows, nose and mouth looks like a nod of the head. Both were
fitted on luvli-68's predictions of 149 rendered faces (seed 994 of benchmarks/head_pose.py), so
that one and two deviations hold 68 and 95 % of near-frontal and of turned faces."""


FRONTAL_PITCH = -7.1
"""degrees: the mean head's pitch for predicted landmarks of people who look into the camera. Mean
of luvli-68 (-8.6) and luvli-68-open (-5.6), each the mean of the medians on four sets of frontal
portraits (London -4.6 and -2.4, Canada -8.7 and -6.4, Congress -8.8 and -3.8, SCUT-FBP5500 -12.2
and -9.7; 337 portraits). The mean head's own zero is a head that looks up a little."""


class HeadPose(NamedTuple):
    """Where a head looks, in degrees, and how sure that is: of one face, or of n as arrays."""

    yaw: Any
    """positive: turned to the person's left; a float, or (n,)"""
    pitch: Any
    """positive: looking up"""
    roll: Any
    """positive: tilted clockwise in the image"""
    covariance: Floats
    """(3, 3), or (n, 3, 3), of yaw, pitch and roll, degrees squared"""

    @property
    def deviation(self) -> Floats:
        """(3,) or (n, 3) standard deviations of yaw, pitch and roll in degrees."""
        return np.sqrt(np.diagonal(self.covariance, axis1=-2, axis2=-1))

    @property
    def direction(self) -> Floats:
        """(3,) or (n, 3) unit vector of where the face looks: x right, y down, z towards the
        camera."""
        return rotation_matrix(self.yaw, self.pitch, self.roll)[..., 2] * (1, -1, 1)


def head_pose(
    points: ArrayLike,
    covariance: ArrayLike | None = None,
    visibility: ArrayLike | None = None,
    factors: ArrayLike | None = None,
    other_convention: bool = False,
) -> HeadPose:
    """The pose of a head from its 68 landmarks, or of n heads.

    `points` (68, 2) or (n, 68, 2) image pixels, NaN where unknown; `covariance` (..., 68, 2, 2)
    pixels squared; `visibility` (..., 68) probabilities; `factors` (..., 68, 2, r) how landmarks
    err together, in image axes (`luvli.measures.correlation`), where a model was calibrated for it.
    Without covariance all landmarks count alike (the unweighted pose); the spread of the residuals
    then says how sure the pose is. `other_convention`: the landmarks were labelled, or learnt from
    labels, by other rules than the mean head's own; the covariance includes that (FACTOR,
    PITCH_CONVENTION).
    """
    places = np.asarray(points, dtype=np.float64)
    if places.shape[-2:] != (68, 2) or places.ndim not in (2, 3):
        raise InputError(f"head pose needs 68 points of shape (68, 2), got {places.shape}.")
    single = places.ndim == 2
    places = places.reshape(-1, 68, 2)
    n = len(places)
    weight = np.ones((n, 68))
    if visibility is not None:
        weight = np.asarray(visibility, dtype=np.float64).reshape(n, 68)
    used = np.isfinite(places).all(axis=2) & (weight > MIN_VISIBILITY)
    errors = None
    if covariance is not None:
        noise = np.asarray(covariance, dtype=np.float64).reshape(n, 68, 2, 2)
        used &= np.isfinite(noise).all(axis=(2, 3))
        noise = np.where(used[:, :, None, None], noise, np.eye(2))
        roots = square_root(noise / np.maximum(weight, MIN_VISIBILITY)[:, :, None, None])
        shared = part_factors() if factors is None else np.asarray(factors, dtype=np.float64)
        errors = ErrorModel(roots, np.broadcast_to(shared, (n, *shared.shape[-3:])))
    known = used.sum(axis=1) >= MIN_LANDMARKS
    angles, spread = np.full((n, 3), np.nan), np.full((n, 3, 3), np.nan)
    if known.any():
        known_errors = errors and ErrorModel(errors.roots[known], errors.factors[known])
        angles[known], spread[known] = fit_poses(places[known], used[known], known_errors)
    if other_convention:
        spread = spread * FACTOR**2
        spread[:, 1, 1] += PITCH_CONVENTION**2
        angles[:, 1] -= FRONTAL_PITCH
    if single:
        yaw, pitch, roll = angles[0].tolist()
        return HeadPose(yaw, pitch, roll, spread[0])
    return HeadPose(angles[:, 0], angles[:, 1], angles[:, 2], spread)


PoseClass = Literal["frontal", "half-profile", "profile", "unknown"]
_POSE_CLASSES: NDArray[np.str_] = np.array(get_args(PoseClass))
POSE_OFFSETS = (0.47, 0.95)
"""nose offsets at which the classes part"""


def pose_classes(points: ArrayLike) -> NDArray[np.str_]:
    """(...) the `PoseClass` of each face with 68 points (..., 68, 2), where the classes of MERL-RAV
    part: at about 21 and 43 degrees.

    They part by how far the nose tip lies from the middle of the outer eye corners, along their
    line: 0 in the middle, 1 at a corner. That grows by about 0.022 for each degree that a head is
    turned (measured on rendered heads).

    >>> from luvli.markup import get_markup
    >>> str(pose_classes(get_markup("ibug68").schematic))
    'frontal'
    """
    places = np.asarray(points, dtype=np.float64)
    right, left, nose = (places[..., j, :] for j in (36, 45, 30))
    across = left - right
    share = ((nose - right) * across).sum(axis=-1)
    offset = np.abs(2 * share / np.maximum((across * across).sum(axis=-1), 1e-12) - 1)
    number = np.searchsorted(POSE_OFFSETS, offset, side="right")
    return np.asarray(_POSE_CLASSES[np.where(np.isnan(offset), 3, number)])
