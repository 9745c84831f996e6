"""Measures of faces: those that a calibration adds to predictions, and measures of your own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from luvli.arrays import Floats
from luvli.errors import InputError
from luvli.faces import FaceLandmarks, Faces
from luvli.measures.correlation import ErrorModel
from luvli.measures.head_pose import pose_classes
from luvli.measures.measure import (
    Measure,
    Measures,
    definitions,
    gradient,
    openness_and_slopes,
)

if TYPE_CHECKING:
    from luvli.measures.calibration import MeasureCalibration


def measures_of(faces: Faces) -> Measures:
    """Openness of eyes and mouth, brows, symmetry and head pose of n faces."""
    known = definitions(faces.markup)
    if not known:
        raise InputError(f"measures need the 68 points of ibug68, these faces have {faces.markup}.")
    visibility, errors, scale = _visibility(faces), faces.errors, faces.measure_scale
    measures = {}
    for each in known:
        slopes = gradient(each.function, faces.points, each.landmarks)
        std = np.sqrt(errors.variance(slopes[:, None])[:, 0]) * scale.get(each.name, 1.0)
        visible = visibility[:, list(each.landmarks)].min(axis=1)  # they are hidden together
        value = np.asarray(each.function(faces.points))
        measures[each.name] = Measure(value, std, visible, each.unit, faces.likelihood)
    pose, seen = faces.head_pose(), visibility.mean(axis=1)
    for i, name in enumerate(("yaw", "pitch", "roll")):
        std = pose.deviation[:, i] * scale.get(name, 1.0)
        measures[name] = Measure(pose[i], std, seen, "degrees")
    return Measures(measures)


def with_measures(faces: Faces, calibration: MeasureCalibration) -> Faces:
    """The faces with what a calibration knows about their measures and their eyes."""
    poses: ArrayLike = pose_classes(faces.points) if faces.markup == "ibug68" else []
    return replace(faces, **measure_fields(faces, poses, calibration))


def measure_fields(
    faces: Faces, poses: ArrayLike, calibration: MeasureCalibration
) -> dict[str, Any]:
    """Fields of faces with these classes of pose (n,): how their landmarks err together, and the
    probability that their eyes are closed."""
    if faces.markup != "ibug68":
        return {}
    factors, scale = calibration.factors_for(poses), calibration.scale
    fields = {"error_factors": factors, "measure_scale": scale}
    if calibration.eyes_closed is None:
        return fields
    openness, std = eyes_openness(faces, factors, scale)
    return fields | {"eyes_closed": calibration.eyes_closed.probability(openness, std)}


def eyes_openness(
    faces: Faces, factors: Floats | None, scale: Mapping[str, float]
) -> tuple[Floats, Floats]:
    """(n,) openness of the eyes and its standard deviation: the mean of both, each weighted by its
    visibility and by how certain it is. The lids of both err together: two gain nothing."""
    right, left = definitions(faces.markup)[:2]
    eyes = np.array([right.landmarks, left.landmarks])  # (2, 6)
    openness, slopes = openness_and_slopes(faces.points[:, eyes])
    covariance = faces.covariance[:, eyes].reshape(-1, 6, 2, 2)  # of 2n eyes
    if factors is not None:
        factors = factors[:, eyes].reshape(len(covariance), 6, 2, -1)
    errors = ErrorModel.of(covariance, factors, np.repeat(faces.roll, 2))
    std = np.sqrt(errors.variance(slopes.reshape(-1, 1, 6, 2))).reshape(-1, 2)
    std = std * [scale.get(each.name, 1.0) for each in (right, left)]
    visible = _visibility(faces)[:, eyes].min(axis=2)
    weight = np.maximum(visible, 1e-6) / np.maximum(std, 1e-6) ** 2
    weight /= weight.sum(axis=1, keepdims=True)
    return (weight * openness).sum(axis=1), (weight * std).sum(axis=1)


def _visibility(faces: Faces) -> Floats:
    """(n, k) 1 where the model does not estimate it."""
    return faces.visibility if faces.visibility_trained else np.ones_like(faces.visibility)


def measure(face: FaceLandmarks, function: Callable[[Floats], float], unit: str = "") -> Measure:
    """A number that `function` computes from the points (k, 2) of a face, with its standard
    deviation by the delta method.

    >>> face = FaceLandmarks(
    ...     points=[[0.0, 0.0], [3.0, 4.0]], covariance=np.tile(np.eye(2), (2, 1, 1)),
    ...     visibility=[0.9, 0.8], box=[0, 0, 3, 4], markup="mine2")
    >>> distance = measure(face, lambda p: np.linalg.norm(p[0] - p[1]), "px")
    >>> round(distance.value, 4), round(distance.std, 4), distance.visible
    (5.0, 1.4142, 0.8)
    """

    def of_many(points: Floats) -> Floats:
        flat = points.reshape(-1, *points.shape[-2:])
        return np.array([float(function(each)) for each in flat]).reshape(points.shape[:-2])

    faces = Faces.stack([face])
    slopes = gradient(of_many, faces.points)
    std = float(np.sqrt(faces.errors.variance(slopes[:, None])[0, 0]))
    used = np.flatnonzero(np.abs(slopes[0]).max(axis=1) > 0)
    visible = float(_visibility(faces)[0, used].min(initial=1.0))
    return Measure(float(function(face.points)), std, visible, unit, face.likelihood)
