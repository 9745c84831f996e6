"""Fits what `luvli.measures` needs of a model: on held-out faces, by `luvli calibrate`."""

from __future__ import annotations

import numpy as np

from luvli.arrays import Floats
from luvli.errors import InputError
from luvli.evaluation.labelled_faces import LabelledFaces
from luvli.face_measures import eyes_openness, with_measures
from luvli.faces import Faces
from luvli.likelihood.covariance import inverse, square_root
from luvli.measures.calibration import EyesClosed, MeasureCalibration
from luvli.measures.correlation import fit_factors
from luvli.measures.head_pose import pose_class
from luvli.measures.measure import Measure, definitions

MIN_FACES = 150
"""faces of a pose class that get factors of their own"""
RANK = 8
LEVELS = (0.68, 0.95)


def fit_measures(labelled: LabelledFaces, rank: int = RANK) -> MeasureCalibration:
    """Correlation between landmarks by pose class, and the scale of every measure's deviation."""
    errors = upright_errors(labelled)
    poses = np.array([pose_class(points) for points in labelled.faces.points])
    if len(labelled) < MIN_FACES:
        raise InputError(
            f"measures need at least {MIN_FACES} labelled faces to be calibrated, got "
            f"{len(labelled)}: give more faces."
        )
    factors = {"all": fit_factors(errors, rank)}
    for pose in ("frontal", "half-profile", "profile"):
        if (poses == pose).sum() >= MIN_FACES:
            factors[pose] = fit_factors(errors[poses == pose], rank)
    rounded = {pose: np.round(each, 4).tolist() for pose, each in factors.items()}
    plain = MeasureCalibration(factors=rounded, faces=len(labelled))
    scale = {}
    for name, (error, measure) in measure_errors(labelled, plain).items():
        if len(error) >= 30:
            reach = [measure.interval(level)[1] - measure.value for level in LEVELS]
            needed = [
                np.quantile(np.abs(error) / each, level)
                for each, level in zip(reach, LEVELS, strict=True)
            ]
            scale[name] = round(float(np.sqrt(np.prod(needed))), 4)
    return plain.model_copy(update={"scale": scale})


def upright_errors(labelled: LabelledFaces) -> Floats:
    """(n, k, 2) standardised errors Sigma^(-1/2) (label - point), turned upright with the face;
    NaN where a landmark is not visible or has no label."""
    faces = labelled.faces
    root = inverse(np.asarray(square_root(faces.covariance)))
    z = np.einsum("nkij,nkj->nki", root, labelled.labels - faces.points)
    roll = faces.roll
    cos, sin = np.cos(roll), np.sin(roll)
    turn = np.stack([cos, sin, -sin, cos], axis=-1).reshape(-1, 1, 2, 2)
    upright = (turn @ z[..., None])[..., 0]
    return np.where(labelled.visible[..., None], upright, np.nan)


def measure_errors(
    labelled: LabelledFaces, calibration: MeasureCalibration
) -> dict[str, tuple[Floats, Measure]]:
    """For each measure (m,) differences of prediction and label, and the predicted measures, on the
    faces that label all its landmarks as visible."""
    predicted = with_measures(labelled.faces, calibration).measures
    result = {}
    for each in definitions("ibug68"):
        known = labelled.visible[:, list(each.landmarks)].all(axis=1)
        truth = each.function(np.where(np.isnan(labelled.labels), 0.0, labelled.labels))
        measure = predicted[each.name][known]
        result[each.name] = (np.asarray(measure.value - truth[known]), measure)
    return result


def fit_eyes_closed(
    open_eyes: Faces, closed_eyes: Faces, calibration: MeasureCalibration
) -> MeasureCalibration:
    """The calibration with a logistic function of openness, both classes weighted alike."""
    from luvli.errors import require

    optimize = require("scipy.optimize", "evaluate")
    parts = [eyes_openness(with_measures(faces, calibration)) for faces in (open_eyes, closed_eyes)]
    (opened, open_std), (closed, closed_std) = parts

    def loss(state: Floats) -> float:
        model = EyesClosed(threshold=float(state[0]), slope=float(np.exp(state[1])))
        wrong = np.log(np.maximum(1 - model.probability(opened, open_std), 1e-9)).mean()
        right = np.log(np.maximum(model.probability(closed, closed_std), 1e-9)).mean()
        return float(-wrong - right)

    start = [(np.median(opened) + np.median(closed)) / 2, np.log(40.0)]
    best = optimize.minimize(loss, start, method="Nelder-Mead").x
    fitted = EyesClosed(threshold=round(float(best[0]), 4), slope=round(float(np.exp(best[1])), 3))
    return calibration.model_copy(update={"eyes_closed": fitted})
